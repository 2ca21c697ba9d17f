package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

import java.nio.file.{AccessDeniedException, ReadOnlyFileSystemException}

import org.apache.hadoop.security.AccessControlException

import io.cleancut.error.CleancutException

/**
 * An error of a location that must not be written: the message of the file system or the object
 * store.
 */
private[operations] object WriteDenied {
  private val Texts = Seq("Permission denied", "Read-only file system")

  def unapply(e: Throwable): Option[String] =
    Iterator.iterate(e)(_.getCause).takeWhile(_ != null).find(isDenied).map(_.getMessage)

  private def isDenied(e: Throwable): Boolean = e match {
    case _: AccessDeniedException | _: ReadOnlyFileSystemException | _: AccessControlException =>
      true
    case cause: CleancutException => cause.getErrorId == "CLEANCUT_OBJECT_STORE_REFUSED"
    case cause => Option(cause.getMessage).exists(text => Texts.exists(text.contains(_)))
  }
}
