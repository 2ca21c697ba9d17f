package io.cleancut.base

import java.util.{LinkedHashMap => JLinkedHashMap, Map => JMap}

/** The entries that were requested last, up to `max`. Not thread-safe. */
final class Recent[K, V](max: Int) extends JLinkedHashMap[K, V](16, 0.75f, true) {
  override def removeEldestEntry(eldest: JMap.Entry[K, V]): Boolean = size > max
}
