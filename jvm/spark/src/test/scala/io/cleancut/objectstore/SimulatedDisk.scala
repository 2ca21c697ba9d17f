package io.cleancut.objectstore

import scala.collection.mutable

/**
 * The files of a simulated file system. Complete files are the objects of a bucket, so that its
 * watch sees them; pending files are stored separately.
 */
final class SimulatedDisk(bucket: SimulatedBucket) {
  import SimulatedDisk._

  private val pending = mutable.Map.empty[String, SimulatedBucket.Stored]
  private val directories = mutable.Set("")

  def get(name: String): Option[SimulatedBucket.Stored] =
    if (isPending(name)) pending.get(name) else bucket.get(name)

  def write(name: String, body: Array[Byte], nowMs: Long): Unit =
    if (isPending(name)) pending(name) = SimulatedBucket.Stored(body, None, nowMs)
    else bucket.put(name, body, None, nowMs)

  /** Moves a file; returns whether it existed. */
  def move(from: String, to: String): Boolean = get(from).exists { stored =>
    write(to, stored.body, stored.modifiedMs)
    delete(from)
    true
  }

  def delete(name: String): Unit =
    if (isPending(name)) pending -= name else bucket.delete(name)

  def makeDirectories(name: String): Unit =
    name.split('/').inits.map(_.mkString("/")).foreach(directories += _)

  def isDirectory(name: String): Boolean = directories(name) || childrenOf(name).nonEmpty

  def removeDirectory(name: String): Unit = directories -= name

  /** The names directly below a directory. */
  def childrenOf(directory: String): Seq[String] = {
    val prefix = if (directory.isEmpty) "" else s"$directory/"
    val names = if (isPending(prefix)) pending.keys.toSeq else bucket.names
    (names ++ directories)
      .filter(name => name.startsWith(prefix) && name.length > prefix.length)
      .map(name => prefix + name.drop(prefix.length).takeWhile(_ != '/'))
      .distinct
      .sorted
  }
}

object SimulatedDisk {
  private def isPending(name: String): Boolean = name.startsWith(".cleancut-pending/")
}
