package io.cleancut.coordinator.sim

import scala.util.control.NonFatal

import io.cleancut.cutstore.StoredCut
import io.cleancut.error.CleancutException
import io.cleancut.format.CutLayout
import io.cleancut.objectstore.{ObjectKey, ObjectPrefix}

/**
 * Gives cuts up by hand, as who is no run of the query may do (`docs/PROTOCOL.md`, "Expiring").
 *
 * @param keep
 *   how many of the last cuts stay
 */
final class SimExpiry(world: World, process: SimProcess, keep: Int) {
  import world.{baton, faults, invariants}

  private val archive = process.archive

  baton.spawn(s"expiry of ${process.name}", process) {
    try expire()
    catch {
      case NonFatal(e) if SimQuery.isExpected(e) => ()
      // One of these may lead to what is gone.
      case _: CleancutException if invariants.late.nonEmpty => ()
      case NonFatal(e) => invariants.violated(s"an expiry failed with ${SimQuery.trace(e)}")
    }
  }

  private def expire(): Unit = {
    // Before the owner: what a run writes that begins from now on is not in these.
    val (segments, pages) = (archive.segments.keys(), archive.pages.keys())
    val owner = generation()
    if (isEnded(owner)) {
      val (going, staying) = archive.cuts.epochs().splitAt(archive.cuts.epochs().size - keep)
      val kept = staying.flatMap(archive.cuts.open(_))
      val named = namesOf(kept)
      invariants.happened(s"an expiry gives up $going")
      world.mayStall(going.toSet)
      invariants.expires(going)
      archive.delete(going.map(epoch => ObjectKey(CutLayout.cut(epoch))))
      if (world.defect != Defect.ExpiredBeside && generation() > owner) {
        faults.count(Fault.ExpiryStopped)
      } else {
        val needed = named ++ namesOf(archive.savepoints.all().values)
        def garbage(of: Seq[(Long, ObjectKey)]) = of.collect {
          case (epoch, key) if staying.lastOption.exists(epoch <= _) && !needed(key.name) => key
        }
        archive.delete(garbage(segments))
        archive.delete(garbage(pages))
        if (going.nonEmpty) faults.count(Fault.Expiry)
      }
    }
  }

  private def namesOf(cuts: Iterable[StoredCut]): Set[String] =
    cuts.flatMap(of => of.segments ++ of.pages).toSet

  private def owners =
    process.root.list(ObjectPrefix(CutLayout.Owners)).map(_.key.name).toSet

  private def generation(): Long = owners
    .flatMap(name => CutLayout.parseOwner(name.stripPrefix(CutLayout.Owners)))
    .maxOption
    .getOrElse(0L)

  private def isEnded(of: Long) = of == 0L || owners(CutLayout.endMarker(of))
}
