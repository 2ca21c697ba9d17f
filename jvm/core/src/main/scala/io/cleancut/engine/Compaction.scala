package io.cleancut.engine

import io.cleancut.engine.memory.{Bytes, Memory, MemoryAccount}
import io.cleancut.format.frame.FamilySchema

/**
 * Rewrites a log without its garbage. The oldest version that the log serves is copied while tasks
 * continue to append ([[copyOldest]]). Then the copy follows the log ([[follow]]): it replays in
 * steps the versions that were sealed since and the records that the running task has published,
 * and rewinds if the log was rewound. When no task uses the store, it replays the rest
 * ([[catchUp]]), and serves the same versions as the old log.
 *
 * `follow`, `catchUp`, `abandon` and rewinds of the old log exclude each other; each of them waits
 * for at most one step.
 */
final class Compaction(
    old: StateLog,
    orderOf: FamilySchema => Option[KeyOrder],
    memory: Memory = Memory.access,
    parent: MemoryAccount = MemoryAccount.process,
    stepRecords: Int = Compaction.StepRecords
) {
  import Compaction._

  private val fresh = new StateLog(old.store, orderOf, memory, parent, old.hashLimit)
  private val key = new Bytes
  private val value = new Bytes
  private var isOver = false

  // The versions in the copy, oldest first. The log is not rewound to before the first.
  private var made = Vector.empty[CopiedVersion]

  // The ref up to which each table of the old log has been replayed.
  private var reached = Map.empty[Table, Int]

  /**
   * Copies the oldest version that the log serves. False if `isWanted` became false meanwhile, or
   * if the log was freed.
   */
  def copyOldest(isWanted: () => Boolean): Boolean = {
    val finished = old.pin(old.versions.head.number) { oldest =>
      // From here on the log is not rewound to an older version.
      old.inStep(old.takeLowestRewind())
      fresh.adopt(oldest.schemas)
      val isDone = oldest.parts.forall(copyFamily(_, isWanted))
      if (isDone) {
        made = Vector(CopiedVersion(oldest, fresh.here(oldest.number, oldest.id)))
        reached = endsOf(oldest)
      }
      isDone
    }
    finished.getOrElse(false)
  }

  /** Replays some of the newer records; true if no sealed or published record is left. */
  def follow(): Boolean = old.inStep(isOver || step(next(old.unsealed)))

  /** Bytes of the old log that a [[catchUp]] would replay now. */
  def restBytes: Long = old.inStep {
    undoRewound()
    old.latest.parts.map { part =>
      val from = reached.getOrElse(part.family.table, PagedLog.FirstRef)
      // The replayed part of an unsealed version may already be the complete version.
      if (Integer.compareUnsigned(from, part.mark.end) < 0)
        Integer.toUnsignedLong(part.mark.end - from) << 3
      else 0L
    }.sum
  }

  /** Whether there is so much garbage that a task should wait for the copy. */
  def isOverdue: Boolean =
    old.deadBytes > OverdueBytes && old.deadBytes / OverdueFactor > old.liveBytes

  /**
   * Replays all remaining versions and returns the new log. The caller ensures that no thread
   * writes to the old one meanwhile.
   */
  def catchUp(): StateLog = old.inStep {
    while (!step(next(None))) {}
    // Records beyond the last version belong to an epoch that did not end.
    rewindTo(made.last)
    val served = old.versions.flatMap(version => made.find(_.of eq version))
    require(served.size == old.versions.size, "a served version was not copied")
    served.foreach(verify)
    fresh.serve(served.map(_.copy))
    isOver = true
    fresh
  }

  /** A copy that has lost or gained rows must never be served. */
  private def verify(version: CopiedVersion): Unit =
    version.of.parts.foreach { part =>
      val copied = version.copy.parts.find(_.family.schema.id == part.family.schema.id).map(_.mark)
      val (keys, bytes) = copied.fold((0L, 0L))(mark => (mark.keys, mark.liveBytes))
      if (keys != part.mark.keys || bytes != part.mark.liveBytes) {
        throw new IllegalStateException(
          s"The copy of ${old.store} version ${version.of.number} has $keys keys in $bytes bytes " +
            s"of family ${part.family.schema.name}; ${part.mark.keys} keys in " +
            s"${part.mark.liveBytes} bytes were expected. The store is unchanged."
        )
      }
    }

  def abandon(): Unit = old.inStep {
    if (!isOver) {
      old.followWith(null)
      fresh.release()
    }
    isOver = true
  }

  /** The version to replay next; `unsealed` if all others are in the copy. */
  private def next(unsealed: Option[StateLog.Version]): Option[StateLog.Version] = {
    undoRewound()
    old.versions.find(_.number > made.last.of.number).orElse(unsealed)
  }

  /** Replays a part of a version; true if nothing was left to replay. */
  private def step(target: Option[StateLog.Version]): Boolean = target.forall { version =>
    fresh.adopt(version.schemas)
    var left = stepRecords
    val parts = version.parts.iterator
    while (left > 0 && parts.hasNext) left -= replay(parts.next(), left)
    val isSealed = version.id.isDefined
    if (left > 0 && isSealed) {
      made = made.drop(made.lastIndexWhere(_.of.number <= old.versions.head.number)) :+
        CopiedVersion(version, fresh.here(version.number, version.id))
    }
    left > 0 && !isSealed
  }

  private def undoRewound(): Unit = {
    val lowest = old.takeLowestRewind()
    if (lowest < Long.MaxValue) {
      val isBehind = made.last.of.number <= lowest &&
        old.versions.find(_.number == lowest).exists(isWithin)
      if (!isBehind) {
        made = made.filter(_.of.number <= lowest)
        rewindTo(made.last)
      }
    }
  }

  /** Whether all replayed records belong to this version or an earlier one. */
  private def isWithin(version: StateLog.Version): Boolean = reached.forall { case (table, ref) =>
    val mark = version.parts.find(_.family.table eq table).fold(Table.Mark.Empty)(_.mark)
    Integer.compareUnsigned(ref, mark.end) <= 0
  }

  private def rewindTo(last: CopiedVersion): Unit = {
    require(fresh.tryRewindTo(last.copy), "a reader holds a copy that is not in use")
    reached = endsOf(last.of)
  }

  private def copyFamily(part: StateLog.Part, isWanted: () => Boolean): Boolean = {
    val into = fresh.table(part.family.schema.id).get
    into.reserve(part.mark.keys)
    val rows = new TableSnapshot(memory, part.view, part.mark.end)
    var count = 0L
    var goOn = isWanted()
    while (goOn && rows.advance()) {
      // A list of values is copied oldest first.
      if (Record.isAdded(memory, rows.address)) {
        Record.values(memory, rows.address)(part.view.address).foreach(copy(_, into))
      } else copy(rows.address, into)
      count += 1
      goOn = (count & Compaction.CheckMask) != 0 || isWanted()
    }
    if (goOn && count != part.mark.keys) {
      throw new IllegalStateException(
        s"A scan of ${old.store} family ${part.family.schema.name} returned $count keys; " +
          s"${part.mark.keys} were expected. The store is unchanged."
      )
    }
    goOn
  }

  /** Returns the number of visited records, at most `limit`. */
  private def replay(part: StateLog.Part, limit: Int): Int = {
    val into = fresh.table(part.family.schema.id).get
    val view = part.view
    var ref = view.skip(reached.getOrElse(part.family.table, PagedLog.FirstRef))
    var count = 0
    while (count < limit && ref != view.end) {
      val address = view.address(ref)
      val size = Record.sizeBytes(memory, address)
      if (isPartOf(view, address)) copy(address, into)
      count += 1
      ref = view.skip(ref + (size >>> 3))
    }
    reached += part.family.table -> ref
    count
  }

  /** Whether a record is visible at the end of the view, and not only earlier. */
  private def isPartOf(view: PagedLog.View, address: Long): Boolean = {
    val replacedBy = Record.next(memory, address)
    replacedBy == 0 || Integer.compareUnsigned(replacedBy, view.end) >= 0 ||
    Record.isAdded(memory, view.address(replacedBy))
  }

  private def endsOf(version: StateLog.Version): Map[Table, Int] =
    version.parts.map(part => part.family.table -> part.mark.end).toMap

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

  /** A version of the old log, and the same version in the copy. */
  final private case class CopiedVersion(of: StateLog.Version, copy: StateLog.Version)

  /** Records of one step. A step takes a millisecond at most. */
  private val StepRecords: Int = 1024

  // Garbage beyond which a task waits: five times the live memory, if that is large.
  private val OverdueFactor = 4
  private val OverdueBytes = 64L << 20

  /** Rows between two checks whether the copy is still wanted, minus one; a power of two. */
  private val CheckMask = 0xfff

  /** Garbage below this is not worth a copy. */
  private val MinDeadBytes = 512L << 10

  /**
   * Whether a log is worth compacting. Either more than half of it is garbage: each copied byte
   * then frees at least one, so compaction copies at most as many bytes as were written. Or a
   * family comes near the limit of its log, and waiting would be too late.
   */
  def isDue(log: StateLog): Boolean =
    log.deadBytes > MinDeadBytes && (log.deadBytes > log.liveBytes || log.isShortOfRoom)

  /** Whether compaction would at least double the free space of a log. */
  private[engine] def isShortOfRoom(deadBytes: Long, roomBytes: Long): Boolean =
    deadBytes > 0L && deadBytes >= roomBytes
}
