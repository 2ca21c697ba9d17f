package io.cleancut.coordinator.sim

import io.cleancut.coordinator.ForwardingStore
import io.cleancut.format.CutLayout
import io.cleancut.objectstore.{ObjectInfo, ObjectKey, ObjectPrefix, ObjectRange, ObjectStore}

/**
 * The object store as the garbage collection of one process sees it. Listings of segments take
 * long, and some savepoints and pages are unreadable for some time. Other users see the objects
 * unchanged.
 *
 * @param host
 *   clock of the process
 */
final private class SweepStore(under: ObjectStore, world: World, host: HostClock)
    extends ForwardingStore(under) {
  import SweepStore._
  import world.{baton, defect, faults, invariants}

  private var listings = 0

  override def get(key: ObjectKey): Option[Array[Byte]] = {
    val isSavepoint = isBelow(key.name, CutLayout.Savepoints)
    val isSkipped = isSavepoint && defect == Defect.SavepointSkipped
    val stored = under.get(key)
    if (stored.isEmpty || !isUnreadable(key.name)) stored
    else if (isSkipped) None
    else stored.map(_.dropRight(1))
  }

  override def head(key: ObjectKey): Option[ObjectInfo] = {
    val info = under.head(key)
    val isOwner = isBelow(key.name, CutLayout.Owners)
    if (isOwner && defect == Defect.AgesByHostClock) info.map(byHost) else info
  }

  override def list(prefix: ObjectPrefix): Iterator[ObjectInfo] = {
    def listed = under.list(prefix)
    val isOfSavepoints = world.isSweep.get && prefix.name == s"${Names.Root}${CutLayout.Savepoints}"
    if (isOfSavepoints && defect == Defect.SavepointByHostClock) listed.map(byHost)
    else slowly(prefix)(listed)
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

  /** Whether an object is unreadable now: a savepoint for some time, a page for one read. */
  private def isUnreadable(name: String): Boolean = world.isSweep.get && {
    if (isBelow(name, CutLayout.Savepoints)) world.isBroken(name)
    else isBelow(name, CutLayout.Pages) && faults.strikes(Fault.UnreadablePage)
  }

  private def byHost(info: ObjectInfo) =
    info.copy(modifiedMs = info.modifiedMs + host.aheadMs)
}

private object SweepStore {
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
