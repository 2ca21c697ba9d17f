package io.cleancut.base

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Using

/** Files that lie in the jar. */
private[cleancut] object Resources {

  /** A text as it stands there. */
  def text(name: String): String = {
    val in = getClass.getClassLoader.getResourceAsStream(name)
    if (in == null) throw new IllegalStateException(s"$name is not on the class path.")
    Using.resource(in)(of => new String(of.readAllBytes(), UTF_8))
  }
}
