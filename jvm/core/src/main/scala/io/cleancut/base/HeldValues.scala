package io.cleancut.base

import java.lang.ref.WeakReference

import scala.collection.mutable

/**
 * Values that a process shares for as long as somebody holds them, or they are among the last few
 * that were asked for. A process that lives long so forgets what it has had. Thread-safe.
 */
final class HeldValues[K, V <: AnyRef](recent: Int) {
  private val values = mutable.HashMap.empty[K, WeakReference[V]]
  private val latest = new Recent[K, V](recent)

  /** The value of a key; of several that are made at once all get the same. */
  def apply(key: K)(make: => V): V = synchronized(find(key)).getOrElse {
    val made = make
    synchronized(find(key).getOrElse(keep(key, made)))
  }

  def all: Seq[(K, V)] = synchronized {
    values.toSeq.flatMap { case (key, ref) => Option(ref.get).map(key -> _) }
  }

  private def find(key: K): Option[V] = {
    val found = values.get(key).flatMap(ref => Option(ref.get))
    found.foreach(latest.put(key, _))
    found
  }

  private def keep(key: K, made: V): V = {
    values.filterInPlace((_, ref) => ref.get != null)
    values(key) = new WeakReference(made)
    latest.put(key, made)
    made
  }
}
