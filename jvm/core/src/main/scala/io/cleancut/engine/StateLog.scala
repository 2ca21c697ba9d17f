package io.cleancut.engine

import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.locks.ReentrantLock

import scala.collection.mutable

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.engine.memory.{Bytes, HashLimit, Memory, MemoryAccount}
import io.cleancut.format.frame._

/**
 * The state of one store in memory: a table for each column family, and the versions of them that
 * can still be served.
 *
 * One task at a time uses it; the provider sees to that. Another thread may read a sealed version
 * while it holds a [[pin]] on it: pinned rows are not rewound, and the memory is freed when the
 * last holder ([[retain]], [[release]], [[pin]]) lets go, so that a page that somebody may read is
 * never freed. A follower reads also what a task has [[publish]]ed and not sealed, in short steps
 * between which the log may be rewound.
 *
 * @param orderOf
 *   the order of a family's keys, for those that are scanned in order; a new one at each call
 */
final class StateLog(
    val store: StoreId,
    orderOf: FamilySchema => Option[KeyOrder],
    memory: Memory = Memory.access,
    parent: MemoryAccount = MemoryAccount.process,
    private[engine] val hashLimit: HashLimit = HashLimit.process
) {
  import StateLog._

  private val account = parent.child()
  private val holders = new AtomicInteger(1)
  private val pins = mutable.ListBuffer.empty[Version]

  // What the log was loaded from, as long as not all of it has been read.
  @volatile private var unread = Option.empty[BaseFrame]
  @volatile private var isWholeWanted = false

  // Those that were dropped among them: a version before may still be served.
  private var tables = Vector.empty[Family]
  private var nextId = 0
  private var current = Vector.empty[Family]

  // Fair, so that a task that rewinds waits for one step of a follower and not for all.
  private val steps = new ReentrantLock(true)
  private var lowestRewind = Long.MaxValue
  @volatile private var follower: () => Unit = _
  @volatile private var published = Option.empty[Version]

  @volatile private var retained: Vector[Version] = Vector(here(0L, None))

  /** Versions that can be served without a load, oldest first. */
  def versions: Vector[Version] = retained

  def latest: Version = retained.last

  /** Bytes in memory. */
  def residentBytes: Long = account.residentBytes

  /** Bytes in mapped files. */
  def mappedBytes: Long = account.mappedBytes

  /** The column families that there are now, in the order of their ids. */
  def families: Vector[Family] = current

  def family(name: String): Option[Family] = current.find(_.schema.name == name)

  /** Number of keys in the families that are Spark's users', not its own bookkeeping. */
  def keys: Long = current.iterator.filterNot(_.schema.isInternal).map(_.table.keys).sum

  def allKeys: Long = current.iterator.map(_.table.keys).sum

  def find(number: Long, id: Option[String]): Option[Version] =
    retained.find(v => v.number == number && (id.isEmpty || v.id == id))

  /**
   * Makes the family, or gives the one of this name its new schemas. The id in `schema` does not
   * count: a family keeps its own, and a new one gets the next.
   */
  def declare(schema: FamilySchema): Family = family(schema.name) match {
    case Some(known) =>
      val wanted = schema.copy(id = known.schema.id)
      if (known.schema == wanted) known else replace(known.copy(schema = wanted))
    case None => create(schema.copy(id = nextId))
  }

  /** Drops a family with all its rows; false if there is none. */
  def drop(name: String): Boolean = {
    val dropped = family(name)
    dropped.foreach { family =>
      family.table.clear()
      current = current.filterNot(_ eq family)
    }
    dropped.isDefined
  }

  /**
   * Undoes everything after `version`, sealed or not. False, and nothing done, if another thread
   * reads rows that would go.
   */
  def tryRewindTo(version: Version): Boolean = pins.synchronized {
    val isFree = pins.forall(_.number <= version.number)
    if (isFree) {
      inStep {
        published = None
        lowestRewind = Math.min(lowestRewind, version.number)
        rewindTo(version)
      }
    }
    isFree
  }

  private def rewindTo(version: Version): Unit = {
    version.parts.foreach { part =>
      if (part.family.table.mark() != part.mark) part.family.table.rollback(part.mark)
    }
    val (older, newer) = tables.partition(_.schema.id < version.nextId)
    newer.foreach(_.table.free())
    tables = older
    nextId = version.nextId
    current = version.parts.map(_.family)
    retained = retained.takeWhile(_ != version) :+ version
  }

  /** Calls `follow`, from now on, when there is more for a follower to read. */
  def followWith(follow: () => Unit): Unit = follower = follow

  /** Shows a follower what has been appended so far. For the thread that writes. */
  def publish(): Unit = {
    // Read once: a compaction that is given up takes it away in another thread.
    val follow = follower
    if (follow != null) {
      published = Some(here(latest.number + 1, None))
      follow()
    }
  }

  /** Runs one step of a follower, during which nothing is rewound. */
  private[engine] def inStep[A](step: => A): A = {
    steps.lock()
    try step
    finally steps.unlock()
  }

  /** What has been published of the version after the latest. Inside of a step. */
  private[engine] def unsealed: Option[Version] = published.filter(_.number > latest.number)

  /** The lowest version that was rewound to since this was asked last. Inside of a step. */
  private[engine] def takeLowestRewind(): Long = {
    val lowest = lowestRewind
    lowestRewind = Long.MaxValue
    lowest
  }

  /**
   * Runs `read` with a version that stays as it is meanwhile; None if it is not served any more.
   */
  def pin[A](number: Long)(read: Version => A): Option[A] = {
    val pinned = pins.synchronized {
      val version = find(number, None).filter(_ => retain())
      version.foreach(pins += _)
      version
    }
    pinned.map { version =>
      try read(version)
      finally {
        pins.synchronized(pins -= version)
        release()
      }
    }
  }

  /** Declares what is there now to be `version`, and keeps the last `keep` versions. */
  def seal(version: StateVersion, keep: Int): Unit = {
    require(version.number > latest.number, s"$version does not come after ${latest.number}")
    val before = latest
    retained = (retained :+ here(version.number, Some(version.id))).takeRight(Math.max(keep, 1))
    // A reader of the task that has just written may still have the version before open.
    val oldest = if (retained.head.number < before.number) retained.head else before
    oldest.parts.foreach(part => part.family.table.purge(part.mark.end))
  }

  /** Declares the empty log to stand at `version`, for a state that starts there. */
  def startAt(number: Long, id: Option[String]): Unit = {
    require(latest.number == 0L && liveBytes + deadBytes == 0L, "the log is not empty")
    retained = Vector(here(number, id))
  }

  /** Applies a frame on top of what is there. The caller seals the version that it makes. */
  def load(reader: FrameReader, scratch: BlockScratch): FrameTrailer = {
    if (reader.identity.families.nonEmpty) adopt(reader.identity.families)
    new FrameLoad(this)(reader, scratch)
  }

  /**
   * Begins with a base, without reading it: a row is read with its block when it is asked for. What
   * is scanned in the order of its keys is read now. The log owns the frame from here on.
   *
   * Before [[isComplete]] only the thread that writes may read, and only single keys.
   */
  def attach(base: BaseFrame): Unit = {
    require(latest.number == 0L && liveBytes + deadBytes == 0L, "the log is not empty")
    unread = Some(base)
    if (base.identity.families.nonEmpty) adopt(base.identity.families)
    val blocks = base.index.blocks.groupBy(_.content.family)
    base.index.totals.foreach { case (id, totals) =>
      val found = table(id).getOrElse(throw base.damaged(s"an index of unknown family $id"))
      found.attach(base, blocks.getOrElse(id, Vector.empty).toArray, totals)
      if (found.isOrdered) found.complete()
    }
    takeInNext(0)
    if (allKeys != base.keys) {
      throw base.damaged(s"the families hold $allKeys keys, the trailer says ${base.keys}")
    }
  }

  /**
   * Puts rows of another log beside those that are here, which are of other keys. Families go by
   * their names. To an empty log they come with the ids that they have; later ones get the next.
   *
   * @param wanted
   *   of a family which of the records of its keys; None leaves the family out
   * @return
   *   how many keys came
   */
  def absorb(from: StateLog, wanted: FamilySchema => Option[Long => Boolean]): Long = {
    val chosen = from.families.flatMap(of => wanted(of.schema).map(of -> _))
    join(chosen.map(_._1.schema))
    chosen.map { case (of, accepts) =>
      absorb(of.table, family(of.schema.name).get.table, accepts)
    }.sum
  }

  /** Makes those families of another store that are not here, as [[absorb]] does. */
  def join(schemas: Seq[FamilySchema]): Unit = {
    val isFirst = current.isEmpty
    schemas.sortBy(_.id).foreach { of =>
      if (family(of.name).isEmpty) create(if (isFirst) of else of.copy(id = nextId))
    }
  }

  private def absorb(from: Table, into: Table, accepts: Long => Boolean): Long = {
    val rows = from.snapshot(Record.NoBound)
    val view = from.view()
    val (key, value) = (new Bytes, new Bytes)
    def copy(address: Long): Unit = {
      from.keyAt(address, key)
      val valueAt = Record.valueAddress(address, key.length)
      value.pointTo(null, valueAt, Record.valueLength(memory, address))
      if (Record.isAdded(memory, address)) into.merge(key, value) else into.put(key, value)
    }
    var keys = 0L
    while (rows.advance()) if (accepts(rows.address)) {
      if (!Record.isAdded(memory, rows.address)) copy(rows.address)
      else Record.values(memory, rows.address)(view.address).foreach(copy)
      keys += 1
    }
    keys
  }

  /** Whether all rows are in memory. */
  def isComplete: Boolean = unread.isEmpty

  /** The base that has not been read whole. */
  def unreadBase: Option[BaseFrame] = unread

  /** Reads at most so many blocks of the base that the log began with; whether more are left. */
  def takeInNext(blocks: Int): Boolean = {
    var left = blocks
    val rest = tables.iterator.map(_.table).filterNot(_.isComplete)
    var table = rest.nextOption()
    while (left > 0 && table.isDefined) {
      if (!table.get.takeInNext()) table = rest.nextOption()
      left -= 1
    }
    if (table.isEmpty) closeBase()
    table.isDefined
  }

  /** Asks the thread that writes to read what is left, since somebody else needs all rows. */
  def wantWhole(): Unit = isWholeWanted = true

  /** Does what [[wantWhole]] asked for. Fails if the rows are not what the frames state. */
  def completeIfWanted(): Unit =
    if (isWholeWanted || tables.exists(_.table.hasWrongTotals)) complete()

  /** Reads what is left of that base. */
  def complete(): Unit = while (takeInNext(Int.MaxValue)) {}

  private def closeBase(): Unit = {
    unread.foreach(_.close())
    unread = None
  }

  /**
   * A writer of the delta from the latest version to what will be there.
   *
   * @param keepsReplaced
   *   whether it also holds the changes that later ones of the same key made obsolete
   */
  def deltaTo(frames: DeltaWriter.Frames, keepsReplaced: Boolean = false): DeltaWriter =
    new DeltaWriter(memory, this, latest, frames, keepsReplaced)

  /**
   * Writes all rows of `version` into a base. May run in any thread that holds the log, which must
   * be complete. A block is closed when it has `blockBytes`. Rows of one hash that exceed
   * `maxBlockBytes` are split over several blocks.
   */
  def writeBase(
      version: Version,
      frame: FrameWriter,
      blockBytes: Int = BlockEncoder.TargetBytes,
      maxBlockBytes: Int = BlockEncoder.MaxBytes
  ): Unit = {
    require(isComplete, "the log has not been read whole")
    val queue = new BlockQueue(frame)
    try {
      val blocks = new BlockEncoder(memory, queue, blockBytes, maxBlockBytes)
      version.parts.foreach { part =>
        val id = part.family.schema.id
        new HashOrder(memory, part.view, part.mark).foreach { (hash, newest) =>
          blocks.addInOrder(id, part.view, newest, hash)
        }
        blocks.flush()
      }
      queue.finish()
    } finally queue.close()
    val totals = version.parts.map { part =>
      part.family.schema.id -> FamilyTotals(part.mark.keys, part.mark.liveBytes)
    }
    frame.finish(version.allKeys, totals.toMap)
  }

  /** Bytes of records that no served version needs any more, or that only older ones need. */
  def deadBytes: Long = tables.iterator.map(_.table.deadBytes).sum

  def liveBytes: Long = tables.iterator.map(_.table.neededBytes).sum

  /** Whether a table needs a compaction to have room for as much as its garbage takes. */
  private[engine] def isShortOfRoom: Boolean =
    tables.exists(of => Compaction.isShortOfRoom(of.table.deadBytes, of.table.roomBytes))

  private[engine] def table(id: Int): Option[Table] =
    current.find(_.schema.id == id).map(_.table)

  private[engine] def create(schema: FamilySchema): Family = {
    val name = if (schema.id == 0) store.toString else s"$store family=${schema.name}"
    val family = Family(schema, new Table(memory, account, name, orderOf(schema), hashLimit))
    tables = tables :+ family
    current = (current :+ family).sortBy(_.schema.id)
    nextId = Math.max(nextId, schema.id + 1)
    family
  }

  /** Makes the families those of a frame or a version: it creates, replaces and drops by ids. */
  private[engine] def adopt(schemas: Seq[FamilySchema]): Unit = {
    val wanted = schemas.map(_.id).toSet
    current.filterNot(family => wanted(family.schema.id)).foreach(f => drop(f.schema.name))
    schemas.foreach { schema =>
      current.find(_.schema.id == schema.id) match {
        case Some(known) if known.schema == schema => ()
        case Some(known)                           => replace(known.copy(schema = schema))
        case None                                  => create(schema)
      }
    }
  }

  private[engine] def serve(versions: Vector[Version]): Unit = retained = versions

  private[engine] def here(number: Long, id: Option[String]): Version =
    Version(number, id, current.map(f => Part(f, f.table.mark(), f.table.view())), nextId)

  /** Holds the log for another user; false if it has been freed already. */
  def retain(): Boolean = {
    var count = holders.get()
    while (count > 0 && !holders.compareAndSet(count, count + 1)) count = holders.get()
    count > 0
  }

  def release(): Unit = if (holders.decrementAndGet() == 0) {
    tables.foreach(_.table.free())
    closeBase()
  }

  private def replace(family: Family): Family = {
    def swap(other: Family) = if (other.table eq family.table) family else other
    tables = tables.map(swap)
    current = current.map(swap)
    family
  }
}

object StateLog {

  /** A column family: how its rows are read, and the rows. */
  final case class Family(schema: FamilySchema, table: Table)

  /**
   * What a version has of one family. The view was taken when the version was sealed, because only
   * the thread that writes may take one.
   */
  final case class Part(family: Family, mark: Table.Mark, view: PagedLog.View)

  /** A version that is in memory. Version 0, the empty store, has no id. */
  final case class Version(number: Long, id: Option[String], parts: Vector[Part], nextId: Int) {
    def schemas: Vector[FamilySchema] = parts.map(_.family.schema)

    /** Number of keys in the families that are Spark's users'. */
    def keys: Long = parts.iterator.filterNot(_.family.schema.isInternal).map(_.mark.keys).sum

    def allKeys: Long = parts.iterator.map(_.mark.keys).sum

    def part(name: String): Option[Part] = parts.find(_.family.schema.name == name)

    private[engine] def markOf(family: Family): Table.Mark =
      parts.find(_.family.table eq family.table).fold(Table.Mark.Empty)(_.mark)
  }
}
