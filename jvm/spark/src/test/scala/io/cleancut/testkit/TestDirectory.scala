package io.cleancut.testkit

import java.io.UncheckedIOException
import java.nio.file.{DirectoryNotEmptyException, Files, NoSuchFileException, Path}
import java.util.Comparator

import scala.annotation.tailrec
import scala.util.{Failure, Try, Using}

/** Temporary directories that are deleted after a test. */
object TestDirectory {
  private val MaxAttempts = 20
  private val PauseMs = 50L

  def use[A](name: String)(body: Path => A): A = {
    val directory = Files.createTempDirectory(name)
    try body(directory)
    finally delete(directory)
  }

  /**
   * Deletes a directory. A Spark listener may still write the end of a query, so files that appear
   * or disappear concurrently are no failure.
   */
  def delete(directory: Path): Unit = delete(directory, MaxAttempts)

  @tailrec
  private def delete(directory: Path, attempts: Int): Unit = Try(deleteOnce(directory)) match {
    case Failure(e) if attempts > 1 && isConcurrentChange(e) =>
      Thread.sleep(PauseMs)
      delete(directory, attempts - 1)
    case done => done.get
  }

  private def isConcurrentChange(failure: Throwable): Boolean = failure match {
    case _: DirectoryNotEmptyException | _: NoSuchFileException => true
    case e: UncheckedIOException                                => isConcurrentChange(e.getCause)
    case _                                                      => false
  }

  private def deleteOnce(directory: Path): Unit =
    Using.resource(Files.walk(directory)) { paths =>
      paths.sorted(Comparator.reverseOrder[Path]).forEach(path => Files.delete(path))
    }
}
