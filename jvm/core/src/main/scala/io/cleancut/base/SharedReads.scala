package io.cleancut.base

import java.util.concurrent.{CompletableFuture, ExecutionException}

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._

/**
 * What was read last, as far as it has room. Of those who ask for one thing at once one reads it
 * and the others wait; who asks for another waits for none of them. Thread-safe.
 *
 * @param maxBytes
 *   what all takes; what was asked for last is kept in any case
 * @param sizeOf
 *   what one takes of memory
 */
final class SharedReads[K, V](maxBytes: Long, sizeOf: V => Long) {
  private type Reading = CompletableFuture[Option[V]]

  // In the order in which they were asked for.
  private val known = new java.util.LinkedHashMap[K, Reading](16, 0.75f, true)
  private val sizes = new java.util.HashMap[K, java.lang.Long]
  private var bytes = 0L

  /** What there is under a key; if that is nothing, it is looked for again the next time. */
  @tailrec def apply(key: K)(read: => Option[V]): Option[V] = {
    val own = new Reading
    val other = synchronized(Option(known.putIfAbsent(key, own)))
    val found = other.fold(Option(fetch(key, own, read)))(awaited)
    // Who read it failed, perhaps only because its task was killed.
    if (found.isDefined) found.get else apply(key)(read)
  }

  /** What it holds of memory. */
  def sizeBytes: Long = synchronized(bytes)

  private def fetch(key: K, own: Reading, read: => Option[V]): Option[V] =
    try {
      val found = read
      found.fold(forget(key, own))(keep(key, own, _))
      own.complete(found)
      found
    } catch {
      case e: Throwable =>
        forget(key, own)
        own.completeExceptionally(e)
        throw e
    }

  private def awaited(other: Reading): Option[Option[V]] =
    try Some(other.get())
    catch { case _: ExecutionException => None }

  private def keep(key: K, own: Reading, value: V): Unit = synchronized {
    if (known.get(key) eq own) {
      val size = sizeOf(value)
      sizes.put(key, size)
      bytes += size
      val eldest = known.keySet.asScala.filter(sizes.containsKey).takeWhile(_ != key).toSeq
      eldest.foreach(other => if (bytes > maxBytes) drop(other))
    }
  }

  private def forget(key: K, own: Reading): Unit = synchronized {
    if (known.get(key) eq own) drop(key)
  }

  private def drop(key: K): Unit = {
    known.remove(key)
    Option(sizes.remove(key)).foreach(bytes -= _)
  }
}
