package io.cleancut.coordinator.sim

import io.cleancut.coordinator.ForwardingStore
import io.cleancut.format.CutLayout
import io.cleancut.objectstore.{ObjectInfo, ObjectKey, ObjectPrefix, ObjectRange, ObjectStore}

/**
 * The object store as the sweeps of one process see it: listings of segments take long, and
 * savepoints and pages cannot be read for some time. All else that uses it sees what there is.
 *
 * @param host
 *   the clock of the process
 */
final private class SweptStore(under: ObjectStore, world: World, host: HostClock)
    extends ForwardingStore(under) {
  import SweptStore._
  import world.{baton, defect, faults, invariants}

  private var listings = 0

  override def get(key: ObjectKey): Option[Array[Byte]] = {
    val isSavepoint = isBelow(key.name, CutLayout.Savepoints)
    val isSkipped = isSavepoint && defect == Defect.SavepointSkipped
    val found = under.get(key)
    if (found.isEmpty || !isUnreadable(key.name)) found
    else if (isSkipped) None
    else found.map(_.dropRight(1))
  }

  override def head(key: ObjectKey): Option[ObjectInfo] = {
    val found = under.head(key)
    val isOwner = isBelow(key.name, CutLayout.Owners)
    if (isOwner && defect == Defect.AgesByHostClock) found.map(byHost) else found
  }

  override def list(prefix: ObjectPrefix): Iterator[ObjectInfo] = {
    def found = under.list(prefix)
    val isOfSavepoints = world.isSweep.get && prefix.name == s"${Names.Root}${CutLayout.Savepoints}"
    if (isOfSavepoints && defect == Defect.SavepointByHostClock) found.map(byHost)
    else slowly(prefix)(found)
  }

  override def listRange(range: ObjectRange): Iterator[ObjectInfo] =
    slowly(range.prefix)(under.listRange(range))

  override def delete(keys: Seq[ObjectKey]): Unit = {
    if (world.isSweep.get) {
      val cuts = keys.flatMap(key => cutIn(key.name)).toSet
      invariants.chosen(cuts)
      world.mayStall(cuts)
    }
    under.delete(keys)
  }

  private def slowly(prefix: ObjectPrefix)(list: => Iterator[ObjectInfo]): Iterator[ObjectInfo] =
    if (prefix.name != s"${Names.Root}${CutLayout.Segments}" || !world.isSweep.get) list
    else {
      listings += 1
      if (listings > 1) invariants.violated(s"$listings sweeps at once")
      try {
        if (faults.strikes(Fault.SlowListing, Rate))
          (0 until world.random.nextInt(MaxSteps)).foreach(_ => baton.yieldNow())
        list.toVector.iterator
      } finally listings -= 1
    }

  /** A savepoint stays unreadable for some time, a page for one read. */
  private def isUnreadable(name: String): Boolean = world.isSweep.get && {
    if (isBelow(name, CutLayout.Savepoints)) world.isBroken(name)
    else isBelow(name, CutLayout.Pages) && faults.strikes(Fault.UnreadablePage)
  }

  private def byHost(info: ObjectInfo) =
    info.copy(modifiedMs = info.modifiedMs + host.aheadMs)
}

private object SweptStore {
  private val MaxSteps = 600
  private val Rate = 5.0

  private def cutIn(name: String): Option[Long] =
    Option
      .when(name.startsWith(Names.Root)) {
        CutLayout.parseCut(name.stripPrefix(s"${Names.Root}${CutLayout.Cuts}"))
      }
      .flatten

  private def isBelow(name: String, directory: String) =
    name.startsWith(s"${Names.Root}$directory")
}
