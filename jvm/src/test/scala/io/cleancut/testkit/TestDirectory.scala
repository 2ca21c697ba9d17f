package io.cleancut.testkit

import java.nio.file.{Files, Path}
import java.util.Comparator

import scala.util.Using

/** Directories that a test makes and leaves nothing of. */
object TestDirectory {

  def use[A](name: String)(body: Path => A): A = {
    val directory = Files.createTempDirectory(name)
    try body(directory)
    finally delete(directory)
  }

  def delete(directory: Path): Unit =
    Using.resource(Files.walk(directory)) { paths =>
      paths.sorted(Comparator.reverseOrder[Path]).forEach(path => Files.delete(path))
    }
}
