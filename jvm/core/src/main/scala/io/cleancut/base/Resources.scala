package io.cleancut.base

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Using

/** Files in the jar. */
private[cleancut] object Resources {

  /** A text file. */
  def text(name: String): String = {
    val in = getClass.getClassLoader.getResourceAsStream(name)
    if (in == null) throw new IllegalStateException(s"$name is not on the class path.")
    Using.resource(in)(stream => new String(stream.readAllBytes(), UTF_8))
  }
}
