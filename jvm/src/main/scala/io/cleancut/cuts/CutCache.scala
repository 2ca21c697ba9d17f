package io.cleancut.cuts

import java.util.{LinkedHashMap => JLinkedHashMap, Map => JMap}

import io.cleancut.format.Cut

/** The cuts that were read last in this process: all stores of an executor ask for the same. */
object CutCache {
  private val MaxCuts = 16

  private val cuts = new JLinkedHashMap[(String, Long), Cut](MaxCuts, 0.75f, true) {
    override def removeEldestEntry(eldest: JMap.Entry[(String, Long), Cut]): Boolean =
      size > MaxCuts
  }

  def read(archive: CutArchive, epoch: Long): Option[Cut] = cuts.synchronized {
    val key = (archive.location, epoch)
    Option(cuts.get(key)).orElse {
      val found = archive.read(epoch)
      found.foreach(cuts.put(key, _))
      found
    }
  }
}
