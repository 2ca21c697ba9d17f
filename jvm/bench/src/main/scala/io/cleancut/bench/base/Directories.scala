package io.cleancut.bench.base

import java.io.UncheckedIOException
import java.nio.file.{Files, Path}
import java.util.Comparator

object Directories {

  /** Bytes of all files below a directory. */
  def bytesBelow(directory: Path): Long = {
    val files = Files.walk(directory)
    try files.filter(Files.isRegularFile(_)).mapToLong(Files.size(_)).sum()
    finally files.close()
  }

  /**
   * Deletes a directory. A file that a background thread deletes concurrently counts as deleted.
   */
  def deleteBelow(directory: Path): Unit = {
    val files = Files.walk(directory)
    try files.sorted(Comparator.reverseOrder()).forEach(f => f.toFile.delete(): Unit)
    catch { case _: UncheckedIOException => () }
    finally files.close()
  }
}
