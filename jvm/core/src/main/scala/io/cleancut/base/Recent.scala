package io.cleancut.base

import java.util.{LinkedHashMap => JLinkedHashMap, Map => JMap}

/** The last few entries that were asked for; the others are forgotten. Not thread-safe. */
final class Recent[K, V](max: Int) extends JLinkedHashMap[K, V](16, 0.75f, true) {
  override def removeEldestEntry(eldest: JMap.Entry[K, V]): Boolean = size > max
}
