package io.cleancut.cuts

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

/**
 * Things that are looked at again and again, as long as they have something to look for.
 *
 * @param goesOn
 *   looks at one of them, and tells whether to look again
 */
final class Watch[A](goesOn: A => Boolean) {
  private val watched = new ConcurrentHashMap[String, A]

  def add(name: String, thing: A): Unit = {
    watched.put(name, thing)
    ()
  }

  def contains(name: String): Boolean = watched.containsKey(name)

  def clear(): Unit = watched.clear()

  /**
   * Looks at each of them once. It is taken out before: what is added meanwhile is put in behind
   * that, and stays. The names are copied, since the map's own iterator may come again and again
   * upon what is put back.
   */
  def look(): Unit = for (name <- watched.keySet.asScala.toVector)
    Option(watched.remove(name)).filter(goesOn).foreach(watched.putIfAbsent(name, _))
}
