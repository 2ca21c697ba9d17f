package io.cleancut.coordinator.sim

import scala.util.control.NonFatal

import io.cleancut.cutstore.StoredCut
import io.cleancut.error.CleancutException
import io.cleancut.format.CutLayout
import io.cleancut.objectstore.{ObjectKey, ObjectPrefix}

/**
 * A manual expiry of cuts by a process that does not run the query (`docs/PROTOCOL.md`,
 * "Expiring"). * * @param keep number of latest cuts to retain
 */
final class SimExpiry(world: World, process: SimProcess, keep: Int) {
  import world.{baton, faults, invariants}

  private val archive = process.archive

  baton.spawn(s"expiry of ${process.name}", process) {
    try expire()
    catch {
      case NonFatal(e) if SimQuery.isExpected(e) => ()
      // A late cut may reference deleted objects.
      case _: CleancutException if invariants.late.nonEmpty => ()
      case NonFatal(e) => invariants.violated(s"an expiry failed with ${SimQuery.trace(e)}")
    }
  }

  private def expire(): Unit = {
    // Listed before the owner, so that these are not objects of a run that begins from now on.
    val (segments, pages) = (archive.segments.keys(), archive.pages.keys())
    val owner = generation()
    if (isEnded(owner)) {
      val (expired, retained) = archive.cuts.epochs().splitAt(archive.cuts.epochs().size - keep)
      val retainedCuts = retained.flatMap(archive.cuts.open(_))
      val named = namesOf(retainedCuts)
      invariants.happened(s"an expiry deletes the cuts $expired")
      world.mayStall(expired.toSet)
      invariants.expires(expired)
      archive.delete(expired.map(epoch => ObjectKey(CutLayout.cut(epoch))))
      if (world.defect != Defect.ExpiredWhenFenced && generation() > owner) {
        faults.count(Fault.ExpiryStopped)
      } else {
        val needed = named ++ namesOf(archive.savepoints.all().values)
        def garbage(objects: Seq[(Long, ObjectKey)]) = objects.collect {
          case (epoch, key) if retained.lastOption.exists(epoch <= _) && !needed(key.name) => key
        }
        archive.delete(garbage(segments))
        archive.delete(garbage(pages))
        if (expired.nonEmpty) faults.count(Fault.Expiry)
      }
    }
  }

  private def namesOf(cuts: Iterable[StoredCut]): Set[String] =
    cuts.flatMap(cut => cut.segments ++ cut.pages).toSet

  private def owners =
    process.root.list(ObjectPrefix(CutLayout.Owners)).map(_.key.name).toSet

  private def generation(): Long = owners
    .flatMap(name => CutLayout.parseOwner(name.stripPrefix(CutLayout.Owners)))
    .maxOption
    .getOrElse(0L)

  private def isEnded(generation: Long) =
    generation == 0L || owners(CutLayout.endMarker(generation))
}
