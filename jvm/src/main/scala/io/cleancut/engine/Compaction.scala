package io.cleancut.engine

import io.cleancut.format.FamilySchema

/**
 * Rewrites a log without its garbage. The oldest version that the log serves is copied while tasks
 * go on appending ([[copyOldest]]); the versions after it are replayed when no task uses the store
 * ([[catchUp]]), which costs what they changed. The new log serves the same versions as the old
 * one.
 */
final class Compaction(
    old: StateLog,
    orderOf: FamilySchema => Option[KeyOrder],
    memory: Memory = Memory.access,
    parent: MemoryAccount = MemoryAccount.process
) {
  private val fresh = new StateLog(old.store, orderOf, memory, parent)
  private val key = new Bytes
  private val value = new Bytes
  private var start: Option[StateLog.Version] = None

  /**
   * Copies the oldest version that the log serves. False if `isWanted` ceased to hold meanwhile, or
   * if the log was freed.
   */
  def copyOldest(isWanted: () => Boolean): Boolean = {
    val finished = old.pin(old.versions.head.number) { oldest =>
      start = Some(oldest)
      fresh.adopt(oldest.schemas)
      oldest.parts.forall(copyFamily(_, isWanted))
    }
    finished.getOrElse(false)
  }

  /**
   * Replays the versions after the oldest, and gives the new log to the caller. The caller makes
   * sure that nobody uses the old one meanwhile. It still holds what was copied, because a log is
   * rewound only to a version that it serves, and none that it serves is older than the one copied.
   */
  def catchUp(): StateLog = {
    var before = start.get
    // The old log may have dropped the oldest version since; its records are still there.
    var versions = old.versions.filter(_ == before).map(v => fresh.here(v.number, v.id))
    old.versions.filter(_.number > before.number).foreach { version =>
      fresh.adopt(version.schemas)
      version.parts.foreach(replay(before, _))
      before = version
      versions = versions :+ fresh.here(version.number, version.id)
    }
    fresh.serve(versions)
    fresh
  }

  def abandon(): Unit = fresh.release()

  private def copyFamily(part: StateLog.Part, isWanted: () => Boolean): Boolean = {
    val into = fresh.table(part.family.schema.id).get
    into.reserve(part.mark.keys)
    val rows = new TableSnapshot(memory, part.view, part.mark.end)
    var count = 0L
    var goOn = isWanted()
    while (goOn && rows.advance()) {
      // A list of values is copied oldest first, as it grew.
      if (Record.isAdded(memory, rows.address)) {
        Record.values(memory, rows.address)(part.view.address).foreach(copy(_, into))
      } else copy(rows.address, into)
      count += 1
      goOn = (count & Compaction.CheckMask) != 0 || isWanted()
    }
    goOn
  }

  private def replay(before: StateLog.Version, part: StateLog.Part): Unit = {
    val into = fresh.table(part.family.schema.id).get
    part.family.table.foreachSince(before.markOf(part.family).end) { (ref, address) =>
      if (Integer.compareUnsigned(ref, part.mark.end) < 0) copy(address, into)
    }
  }

  private def copy(address: Long, into: Table): Unit = {
    val keyLength = Record.keyLength(memory, address)
    val valueLength = Record.valueLength(memory, address)
    key.pointTo(null, Record.keyAddress(address), keyLength)
    if (valueLength == Record.Removed) {
      into.remove(key)
      ()
    } else {
      value.pointTo(null, Record.valueAddress(address, keyLength), valueLength)
      if (Record.isAdded(memory, address)) into.merge(key, value) else into.put(key, value)
    }
  }
}

object Compaction {

  /** Rows between two looks at whether the copy is still wanted, less one; a power of two. */
  private val CheckMask = 0xfff

  /** Garbage below this is not worth a copy. */
  private val MinDeadBytes = 512L << 10

  /**
   * Whether a log is worth compacting: more than half of it is garbage. Each byte copied then frees
   * at least one, so compaction costs at most one more copy of what was written.
   */
  def isDue(log: StateLog): Boolean =
    log.deadBytes > MinDeadBytes && log.deadBytes > log.liveBytes
}
