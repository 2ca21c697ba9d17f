package io.cleancut.dataflow

/** The small files of a channel, which say what it holds and who reads it. */
trait ChannelRecords {

  /** The channel, as Hadoop names it. */
  def location: String

  /** All bytes of a file; None if there is none. */
  def read(name: String): Option[Array[Byte]]

  /** The names in a directory; none if there is no such directory. */
  def names(directory: String): Seq[String]

  /** Makes a file that appears at once and whole, unless there is one of that name. */
  def create(name: String, body: Array[Byte]): Unit

  /** Removes a file, if it is there. */
  def delete(name: String): Unit

  /** Makes a file that appears at once and whole, in the place of one of that name. */
  def replace(name: String, body: Array[Byte]): Unit
}
