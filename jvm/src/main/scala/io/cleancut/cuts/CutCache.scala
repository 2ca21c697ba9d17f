package io.cleancut.cuts

import java.util.{LinkedHashMap => JLinkedHashMap, Map => JMap}

import io.cleancut.format.Cut

/**
 * The cuts that were read last in this process: all stores of an executor ask for the same. Each
 * run of a query reads them anew, because a checkpoint may have been deleted and begun again
 * meanwhile.
 */
object CutCache {
  private val MaxCuts = 16

  final private case class Key(location: String, runId: String, epoch: Long)

  private val cuts = new JLinkedHashMap[Key, Cut](MaxCuts, 0.75f, true) {
    override def removeEldestEntry(eldest: JMap.Entry[Key, Cut]): Boolean =
      size > MaxCuts
  }

  def read(archive: CutArchive, runId: String, epoch: Long): Option[Cut] = cuts.synchronized {
    val key = Key(archive.location, runId, epoch)
    Option(cuts.get(key)).orElse {
      val found = archive.read(epoch)
      found.foreach(cuts.put(key, _))
      found
    }
  }
}
