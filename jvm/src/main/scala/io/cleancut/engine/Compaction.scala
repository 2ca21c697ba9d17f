package io.cleancut.engine

import java.util.function.BooleanSupplier

/**
 * Rewrites a log without its garbage. The oldest version that the log serves is copied while tasks go
 * on appending ([[copyOldest]]); the versions after it are replayed when no task uses the store
 * ([[catchUp]]), which costs what they changed. The new log serves the same versions as the old one.
 */
final class Compaction(old: StateLog, orderedBy: Option[RankOf], memory: Memory = Memory.access) {
  private val oldest = old.versions.head
  private val fresh = new StateLog(old.store, orderedBy, memory)
  private val key = new Bytes
  private val value = new Bytes

  /** Copies the oldest version; false if `isCancelled` said so in between, and nothing is left. */
  def copyOldest(isCancelled: BooleanSupplier): Boolean = {
    fresh.contents.reserve(oldest.mark.keys)
    val rows = new TableSnapshot(memory, oldest.view, oldest.mark.end)
    var copied = 0L
    var goOn = rows.advance()
    while (goOn) {
      copy(rows.address)
      copied += 1
      goOn = ((copied & Compaction.CancelMask) != 0 || !isCancelled.getAsBoolean) && rows.advance()
    }
    val complete = copied == oldest.mark.keys
    if (!complete) fresh.release()
    complete
  }

  /** Replays the versions after the oldest. The caller makes sure that nobody writes meanwhile. */
  def catchUp(): StateLog = {
    // A version may have been dropped from the old log's list since; its records are still there.
    val later = old.versions.dropWhile(_.number <= oldest.number)
    var from = oldest.mark.end
    var versions = old.versions.filter(_ == oldest).map(v => fresh.here(v.number, v.id))
    later.foreach { version =>
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

  /** How many rows are copied between two looks at whether to go on. */
  private val CancelMask = 0xfff

  /** Garbage below this is not worth a copy. */
  private val MinDeadBytes = 4L << 20

  /**
   * Whether a log is worth compacting: more than half of it is garbage. Each byte copied then frees
   * at least one, so compaction costs at most one more copy of what was written.
   */
  def isDue(log: StateLog): Boolean =
    log.deadBytes > MinDeadBytes && log.deadBytes > log.liveBytes
}
