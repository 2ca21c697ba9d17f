package io.cleancut.base

import java.util.concurrent.{CompletableFuture, ExecutionException}

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._

/**
 * A cache of the latest reads. If several callers request the same key concurrently, one of them
 * reads and the others wait. Callers of different keys do not wait for each other. Thread-safe.
 *
 * @param maxBytes
 *   limit of all values; the value that was requested last is kept in any case
 * @param sizeOf
 *   size of a value in memory
 */
final class SharedReads[K, V](maxBytes: Long, sizeOf: V => Long) {
  private type Reading = CompletableFuture[Option[V]]

  // In the order of their last requests.
  private val known = new java.util.LinkedHashMap[K, Reading](16, 0.75f, true)
  private val sizes = new java.util.HashMap[K, java.lang.Long]
  private var bytes = 0L

  /** The value of a key. A missing value is read again at the next request. */
  @tailrec def apply(key: K)(read: => Option[V]): Option[V] = {
    val reading = new Reading
    val other = synchronized(Option(known.putIfAbsent(key, reading)))
    val value = other.fold(Option(fetch(key, reading, read)))(awaited)
    // The reading caller failed, perhaps only because its task was killed.
    if (value.isDefined) value.get else apply(key)(read)
  }

  /** Size of all values in memory. */
  def sizeBytes: Long = synchronized(bytes)

  private def fetch(key: K, reading: Reading, read: => Option[V]): Option[V] =
    try {
      val value = read
      value.fold(forget(key, reading))(keep(key, reading, _))
      reading.complete(value)
      value
    } catch {
      case e: Throwable =>
        forget(key, reading)
        reading.completeExceptionally(e)
        throw e
    }

  private def awaited(other: Reading): Option[Option[V]] =
    try Some(other.get())
    catch { case _: ExecutionException => None }

  private def keep(key: K, reading: Reading, value: V): Unit = synchronized {
    if (known.get(key) eq reading) {
      val size = sizeOf(value)
      sizes.put(key, size)
      bytes += size
      val eldest = known.keySet.asScala.filter(sizes.containsKey).takeWhile(_ != key).toSeq
      eldest.foreach(other => if (bytes > maxBytes) drop(other))
    }
  }

  private def forget(key: K, reading: Reading): Unit = synchronized {
    if (known.get(key) eq reading) drop(key)
  }

  private def drop(key: K): Unit = {
    known.remove(key)
    Option(sizes.remove(key)).foreach(bytes -= _)
  }
}
