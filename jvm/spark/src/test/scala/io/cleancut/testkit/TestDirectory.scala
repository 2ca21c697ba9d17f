package io.cleancut.testkit

import java.io.UncheckedIOException
import java.nio.file.{DirectoryNotEmptyException, Files, NoSuchFileException, Path}
import java.util.Comparator

import scala.annotation.tailrec
import scala.util.{Failure, Try, Using}

/** Directories that a test makes and leaves nothing of. */
object TestDirectory {
  private val Tries = 20
  private val PauseMs = 50L

  def use[A](name: String)(body: Path => A): A = {
    val directory = Files.createTempDirectory(name)
    try body(directory)
    finally delete(directory)
  }

  /**
   * A listener of Spark's may still write that a query has ended: a file that comes meanwhile is no
   * failure, nor is one that goes, by a rename.
   */
  def delete(directory: Path): Unit = delete(directory, Tries)

  @tailrec
  private def delete(directory: Path, tries: Int): Unit = Try(deleteOnce(directory)) match {
    case Failure(e) if tries > 1 && isOfAWriter(e) =>
      Thread.sleep(PauseMs)
      delete(directory, tries - 1)
    case done => done.get
  }

  private def isOfAWriter(failure: Throwable): Boolean = failure match {
    case _: DirectoryNotEmptyException | _: NoSuchFileException => true
    case e: UncheckedIOException                                => isOfAWriter(e.getCause)
    case _                                                      => false
  }

  private def deleteOnce(directory: Path): Unit =
    Using.resource(Files.walk(directory)) { paths =>
      paths.sorted(Comparator.reverseOrder[Path]).forEach(path => Files.delete(path))
    }
}
