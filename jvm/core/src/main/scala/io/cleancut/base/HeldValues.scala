package io.cleancut.base

import java.lang.ref.WeakReference

import scala.collection.mutable

/**
 * Values that a process shares while they are referenced, or while they are among the last few
 * requested ones. So a long-lived process forgets old values. Thread-safe.
 */
final class HeldValues[K, V <: AnyRef](recent: Int) {
  private val values = mutable.HashMap.empty[K, WeakReference[V]]
  private val latest = new Recent[K, V](recent)

  /** The value of a key. Concurrent callers receive the same value. */
  def apply(key: K)(make: => V): V = synchronized(find(key)).getOrElse {
    val made = make
    synchronized(find(key).getOrElse(keep(key, made)))
  }

  def all: Seq[(K, V)] = synchronized {
    values.toSeq.flatMap { case (key, ref) => Option(ref.get).map(key -> _) }
  }

  private def find(key: K): Option[V] = {
    val value = values.get(key).flatMap(ref => Option(ref.get))
    value.foreach(latest.put(key, _))
    value
  }

  private def keep(key: K, made: V): V = {
    values.filterInPlace((_, ref) => ref.get != null)
    values(key) = new WeakReference(made)
    latest.put(key, made)
    made
  }
}
