package io.cleancut.engine

import io.cleancut.engine.memory.{Bytes, Memory, MemoryAccount}
import io.cleancut.format.frame.FamilySchema

/**
 * Rewrites a log without its garbage. The oldest version that the log serves is copied while tasks
 * go on appending ([[copyOldest]]). Then the copy follows the log ([[follow]]): it replays what was
 * sealed since and what the running task has published, in steps, and goes back where the log was
 * rewound. When no task uses the store it is given what is left ([[catchUp]]), and serves the same
 * versions as the old log.
 *
 * `follow`, `catchUp` and `abandon` exclude each other and the rewinds of the old log; each of them
 * waits for one step at most.
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

  // The versions that are in the copy, oldest first. The log is not rewound below the first.
  private var made = Vector.empty[Made]

  // Up to where each table of the old log has been replayed.
  private var reached = Map.empty[Table, Int]

  /**
   * Copies the oldest version that the log serves. False if `isWanted` ceased to hold meanwhile, or
   * if the log was freed.
   */
  def copyOldest(isWanted: () => Boolean): Boolean = {
    val finished = old.pin(old.versions.head.number) { oldest =>
      // From here on nothing older is rewound to.
      old.inStep(old.takeLowestRewind())
      fresh.adopt(oldest.schemas)
      val isDone = oldest.parts.forall(copyFamily(_, isWanted))
      if (isDone) {
        made = Vector(Made(oldest, fresh.here(oldest.number, oldest.id)))
        reached = endsOf(oldest)
      }
      isDone
    }
    finished.getOrElse(false)
  }

  /**
   * Replays some of what was appended since; true if nothing is left that has been sealed or
   * published.
   */
  def follow(): Boolean = old.inStep(isOver || step(next(old.unsealed)))

  /** Bytes of the old log that a [[catchUp]] would have to replay now. */
  def restBytes: Long = old.inStep {
    undoRewound()
    old.latest.parts.map { part =>
      val from = reached.getOrElse(part.family.table, PagedLog.FirstRef)
      // What was replayed of an unsealed version may have been all that there was.
      if (Integer.compareUnsigned(from, part.mark.end) < 0)
        Integer.toUnsignedLong(part.mark.end - from) << 3
      else 0L
    }.sum
  }

  /** Whether so much garbage has gathered that a task had better wait for the copy. */
  def isOverdue: Boolean =
    old.deadBytes > OverdueBytes && old.deadBytes / OverdueFactor > old.liveBytes

  /**
   * Replays all versions that there are, and gives the new log to the caller. The caller makes sure
   * that nobody writes to the old one meanwhile.
   */
  def catchUp(): StateLog = old.inStep {
    while (!step(next(None))) {}
    // What was replayed beyond is of an epoch that did not end.
    backTo(made.last)
    val served = old.versions.flatMap(version => made.find(_.of eq version))
    require(served.size == old.versions.size, "a version that is served was not copied")
    served.foreach(verify)
    fresh.serve(served.map(_.copy))
    isOver = true
    fresh
  }

  /** A copy that has lost or gained rows must never be served. */
  private def verify(version: Made): Unit =
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

  /** The version that has to be replayed next; `unsealed` if all others are there. */
  private def next(unsealed: Option[StateLog.Version]): Option[StateLog.Version] = {
    undoRewound()
    old.versions.find(_.number > made.last.of.number).orElse(unsealed)
  }

  /** Replays a part of a version; true if there was nothing more to do. */
  private def step(target: Option[StateLog.Version]): Boolean = target.forall { version =>
    fresh.adopt(version.schemas)
    var left = stepRecords
    val parts = version.parts.iterator
    while (left > 0 && parts.hasNext) left -= replay(parts.next(), left)
    val isSealed = version.id.isDefined
    if (left > 0 && isSealed) {
      made = made.drop(made.lastIndexWhere(_.of.number <= old.versions.head.number)) :+
        Made(version, fresh.here(version.number, version.id))
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
        backTo(made.last)
      }
    }
  }

  /** Whether all that was replayed is of this version or before. */
  private def isWithin(version: StateLog.Version): Boolean = reached.forall { case (table, ref) =>
    val mark = version.parts.find(_.family.table eq table).fold(Table.Mark.Empty)(_.mark)
    Integer.compareUnsigned(ref, mark.end) <= 0
  }

  private def backTo(last: Made): Unit = {
    require(fresh.tryRewindTo(last.copy), "somebody reads a copy that is not in use")
    reached = endsOf(last.of)
  }

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
    if (goOn && count != part.mark.keys) {
      throw new IllegalStateException(
        s"A scan of ${old.store} family ${part.family.schema.name} returned $count keys; " +
          s"${part.mark.keys} were expected. The store is unchanged."
      )
    }
    goOn
  }

  /** Returns the number of records that it went through, at most `limit`. */
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

  /** Whether a record counts at the end of the view, and not only before. */
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

  /** A version of the old log, and the same in the copy. */
  final private case class Made(of: StateLog.Version, copy: StateLog.Version)

  /** Records of one step, which may take a millisecond. */
  private val StepRecords: Int = 1024

  // Garbage beyond which a task waits: five times the memory that is needed, if that is a lot.
  private val OverdueFactor = 4
  private val OverdueBytes = 64L << 20

  /** Rows between two looks at whether the copy is still wanted, less one; a power of two. */
  private val CheckMask = 0xfff

  /** Garbage below this is not worth a copy. */
  private val MinDeadBytes = 512L << 10

  /**
   * Whether a log is worth compacting. More than half of it is garbage: each byte copied then frees
   * at least one, so compaction costs at most one more copy of what was written. Or a family comes
   * near the limit of its log, where waiting for that would be too late.
   */
  def isDue(log: StateLog): Boolean =
    log.deadBytes > MinDeadBytes && (log.deadBytes > log.liveBytes || log.isShortOfRoom)

  /** Whether compaction would at least double the room that is left in a log. */
  private[engine] def isShortOfRoom(deadBytes: Long, roomBytes: Long): Boolean =
    deadBytes > 0L && deadBytes >= roomBytes
}
