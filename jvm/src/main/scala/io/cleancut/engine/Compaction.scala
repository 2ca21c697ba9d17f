package io.cleancut.engine

/**
 * Rewrites a log without its garbage. The oldest version that the log serves is copied while tasks
 * go on appending ([[copyOldest]]); the versions after it are replayed when no task uses the store
 * ([[catchUp]]), which costs what they changed. The new log serves the same versions as the old
 * one.
 */
final class Compaction(
    old: StateLog,
    orderedBy: Option[RankOf],
    memory: Memory = Memory.access,
    parent: MemoryAccount = MemoryAccount.process
) {
  private val fresh = new StateLog(old.store, orderedBy, memory, parent)
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
      fresh.contents.reserve(oldest.mark.keys)
      val rows = new TableSnapshot(memory, oldest.view, oldest.mark.end)
      var count = 0L
      var goOn = isWanted()
      while (goOn && rows.advance()) {
        copy(rows.address)
        count += 1
        goOn = (count & Compaction.CheckMask) != 0 || isWanted()
      }
      goOn
    }
    finished.getOrElse(false)
  }

  /**
   * Replays the versions after the oldest, and gives the new log to the caller. The caller makes
   * sure that nobody uses the old one meanwhile. It still holds what was copied, because a log is
   * rewound only to a version that it serves, and none that it serves is older than the one copied.
   */
  def catchUp(): StateLog = {
    val oldest = start.get
    var from = oldest.mark.end
    // The old log may have dropped the oldest version since; its records are still there.
    var versions = old.versions.filter(_ == oldest).map(v => fresh.here(v.number, v.id))
    old.versions.filter(_.number > oldest.number).foreach { version =>
      replay(from, version.mark.end)
      from = version.mark.end
      versions = versions :+ fresh.here(version.number, version.id)
    }
    fresh.adopt(versions)
    fresh
  }

  def abandon(): Unit = fresh.release()

  private def replay(from: Int, until: Int): Unit =
    old.contents.foreachSince(from) { (ref, address) =>
      if (Integer.compareUnsigned(ref, until) < 0) copy(address)
    }

  private def copy(address: Long): Unit = {
    val keyLength = Record.keyLength(memory, address)
    val valueLength = Record.valueLength(memory, address)
    key.pointTo(null, Record.keyAddress(address), keyLength)
    if (valueLength == Record.Removed) {
      fresh.contents.remove(key)
      ()
    } else {
      value.pointTo(null, Record.valueAddress(address, keyLength), valueLength)
      fresh.contents.put(key, value)
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
