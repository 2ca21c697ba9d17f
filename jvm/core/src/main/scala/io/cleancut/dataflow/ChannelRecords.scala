package io.cleancut.dataflow

/** The small files of a channel that describe its epochs and readers. */
trait ChannelRecords {

  /** The location of the channel in Hadoop's form. */
  def location: String

  /** All bytes of a file; None if it does not exist. */
  def read(name: String): Option[Array[Byte]]

  /** The names in a directory; empty if it does not exist. */
  def names(directory: String): Seq[String]

  /** Creates a file atomically, unless it exists. */
  def create(name: String, body: Array[Byte]): Unit

  /** Deletes a file, if it exists. */
  def delete(name: String): Unit

  /** Creates or replaces a file atomically. */
  def replace(name: String, body: Array[Byte]): Unit
}
