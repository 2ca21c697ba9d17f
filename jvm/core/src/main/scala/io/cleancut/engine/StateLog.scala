package io.cleancut.engine

import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.locks.ReentrantLock

import scala.collection.mutable

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.engine.memory.{HashLimit, Memory, MemoryAccount}
import io.cleancut.format.frame._

/**
 * The state of one store in memory: a table for each column family, and their versions that can
 * still be served.
 *
 * One task at a time uses it, which the provider ensures. Another thread may read a sealed version
 * while it holds a [[pin]] on it. Pinned rows are not rewound, and memory is freed when the last
 * holder ([[retain]], [[release]], [[pin]]) releases the log, so no page is freed while a thread
 * may read it. A follower also reads records that a task has [[publish]]ed and not sealed, in short
 * steps between which the log may be rewound.
 *
 * @param orderOf
 *   order of a family's keys if they are scanned in order; a new instance at each call
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

  // The source of the log, until it has been read completely.
  @volatile private var unread = Option.empty[BaseFrame]
  @volatile private var isWholeWanted = false

  // Families of the source that were dropped; an earlier version may still be served.
  private var tables = Vector.empty[Family]
  private var nextId = 0
  private var current = Vector.empty[Family]

  // Fair, so that a task that rewinds waits for at most one step of a follower.
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

  /** The current column families, in the order of their IDs. */
  def families: Vector[Family] = current

  def family(name: String): Option[Family] = current.find(_.schema.name == name)

  /** Number of keys in the families of users, without Spark's internal families. */
  def keys: Long = current.iterator.filterNot(_.schema.isInternal).map(_.table.keys).sum

  def allKeys: Long = current.iterator.map(_.table.keys).sum

  def find(number: Long, id: Option[String]): Option[Version] =
    retained.find(v => v.number == number && (id.isEmpty || v.id == id))

  /**
   * Creates the family, or sets the schemas of an existing one. The ID in `schema` is ignored: an
   * existing family keeps its ID, and a new one gets the next.
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
   * Undoes everything after `version`, sealed or not. Returns false without changes if another
   * thread reads rows that would be undone.
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

  /** From now on calls `follow` when there are more records for a follower. */
  def followWith(follow: () => Unit): Unit = follower = follow

  /** Publishes the records so far to a follower. For the writing thread. */
  def publish(): Unit = {
    // Read once: an abandoned compaction clears it in another thread.
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

  /** The published part of the version after the latest. For use in a step. */
  private[engine] def unsealed: Option[Version] = published.filter(_.number > latest.number)

  /** The lowest version of a rewind since the last call. For use in a step. */
  private[engine] def takeLowestRewind(): Long = {
    val lowest = lowestRewind
    lowestRewind = Long.MaxValue
    lowest
  }

  /** Runs `read` with a version that cannot change meanwhile; None if it is no longer served. */
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

  /** Declares the current state to be `version`, and keeps the last `keep` versions. */
  def seal(version: StateVersion, keep: Int): Unit = {
    require(version.number > latest.number, s"$version does not come after ${latest.number}")
    val before = latest
    retained = (retained :+ here(version.number, Some(version.id))).takeRight(Math.max(keep, 1))
    // An earlier reader of the same task may still have the previous version open.
    val oldest = if (retained.head.number < before.number) retained.head else before
    oldest.parts.foreach(part => part.family.table.purge(part.mark.end))
  }

  /** Declares the empty log to be at `version`, for a state that starts there. */
  def startAt(number: Long, id: Option[String]): Unit = {
    require(latest.number == 0L && liveBytes + deadBytes == 0L, "the log is not empty")
    retained = Vector(here(number, id))
  }

  /** Applies a frame to the current state. The caller seals the resulting version. */
  def load(reader: FrameReader, scratch: BlockScratch): FrameTrailer = {
    if (reader.identity.families.nonEmpty) adopt(reader.identity.families)
    new FrameLoad(this)(reader, scratch)
  }

  /**
   * Begins with a base without reading it: a row is read with its block when it is requested.
   * Families that are scanned in key order are read now. The log owns the frame from here on.
   *
   * Before [[isComplete]] only the writing thread may read, and only single keys.
   */
  def attach(base: BaseFrame): Unit = attach(base, SparseReads.Default)

  private[engine] def attach(base: BaseFrame, sparse: SparseReads): Unit = {
    require(latest.number == 0L && liveBytes + deadBytes == 0L, "the log is not empty")
    unread = Some(base)
    if (base.identity.families.nonEmpty) adopt(base.identity.families)
    val blocks = base.index.blocks.groupBy(_.content.family)
    base.index.totals.foreach { case (id, totals) =>
      val target = table(id).getOrElse(throw base.damaged(s"an index of unknown family $id"))
      target.attach(base, blocks.getOrElse(id, Vector.empty).toArray, totals, sparse)
      if (target.isOrdered) target.complete()
    }
    readNext(0)
    if (allKeys != base.keys) {
      throw base.damaged(s"the families have $allKeys keys, the trailer states ${base.keys}")
    }
  }

  /** The family of this name, which is created with a provisional ID if there is none. */
  private[engine] def provisional(schema: FamilySchema): Family =
    family(schema.name).getOrElse(create(schema.copy(id = nextId)))

  /** Drops a family of which no version has a row. */
  private[engine] def discard(name: String): Unit = family(name).foreach { family =>
    current = current.filterNot(_ eq family)
    tables = tables.filterNot(_ eq family)
    family.table.free()
  }

  /** Replaces the schemas of all families, including provisional IDs; see [[SourceLoad]]. */
  def settle(schemas: Seq[FamilySchema]): Unit = {
    require(schemas.map(_.name).toSet == current.map(_.schema.name).toSet, "other families")
    current = schemas.map(s => family(s.name).get.copy(schema = s)).sortBy(_.schema.id).toVector
    tables = current
    nextId = current.lastOption.fold(0)(_.schema.id + 1)
  }

  /** Whether all rows are in memory. */
  def isComplete: Boolean = unread.isEmpty

  /** The base that has not been read completely. */
  def unreadBase: Option[BaseFrame] = unread

  /** Reads up to `blocks` blocks of the base; returns whether more are left. */
  def readNext(blocks: Int): Boolean = {
    var left = blocks
    val rest = tables.iterator.map(_.table).filterNot(_.isComplete)
    var table = rest.nextOption()
    while (left > 0 && table.isDefined) {
      if (!table.get.readNext()) table = rest.nextOption()
      left -= 1
    }
    if (table.isEmpty) closeBase()
    table.isDefined
  }

  /** Requests that the writing thread reads the rest, because another thread needs all rows. */
  def wantWhole(): Unit = isWholeWanted = true

  /**
   * Performs the read that [[wantWhole]] requested. Fails if the rows do not match the totals in
   * the frames.
   */
  def completeIfWanted(): Unit =
    if (isWholeWanted || tables.exists(_.table.hasWrongTotals)) complete()

  /** Reads the rest of the base. */
  def complete(): Unit = while (readNext(Int.MaxValue)) {}

  private def closeBase(): Unit = {
    unread.foreach(_.close())
    unread = None
  }

  /**
   * Creates a writer of the delta from the latest version to the next one.
   *
   * @param keepsReplaced
   *   whether the delta also has changes that later changes of the same key replaced
   */
  def deltaTo(frames: DeltaWriter.Frames, keepsReplaced: Boolean = false): DeltaWriter =
    new DeltaWriter(memory, this, latest, frames, keepsReplaced)

  /**
   * Writes all rows of `version` to a base. May run in any thread that holds the log, which must be
   * complete. A block is closed when it reaches `blockBytes`. Rows of one hash that exceed
   * `maxBlockBytes` are split over several blocks.
   */
  def writeBase(
      version: Version,
      frame: FrameWriter,
      blockBytes: Int = BlockEncoder.BaseTargetBytes,
      maxBlockBytes: Int = BlockEncoder.MaxBytes
  ): Unit = {
    require(isComplete, "the base has not been read completely")
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

  /** Bytes of records that no served version needs, or only older ones. */
  def deadBytes: Long = tables.iterator.map(_.table.deadBytes).sum

  def liveBytes: Long = tables.iterator.map(_.table.neededBytes).sum

  /** Whether compaction is required to regain the space that garbage takes in a table. */
  private[engine] def isShortOfRoom: Boolean =
    tables.exists(part => Compaction.isShortOfRoom(part.table.deadBytes, part.table.roomBytes))

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

  /** Sets the families to those of a frame or version: creates, replaces and drops by ID. */
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

  /** Adds a holder of the log; false if it has been freed already. */
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

  /** A column family: its schema and its rows. */
  final case class Family(schema: FamilySchema, table: Table)

  /**
   * One family in a version. The view was taken when the version was sealed, because only the
   * writing thread may take one.
   */
  final case class Part(family: Family, mark: Table.Mark, view: PagedLog.View)

  /** A version in memory. Version 0, the empty store, has no ID. */
  final case class Version(number: Long, id: Option[String], parts: Vector[Part], nextId: Int) {
    def schemas: Vector[FamilySchema] = parts.map(_.family.schema)

    /** Number of keys in the families of users. */
    def keys: Long = parts.iterator.filterNot(_.family.schema.isInternal).map(_.mark.keys).sum

    def allKeys: Long = parts.iterator.map(_.mark.keys).sum

    def part(name: String): Option[Part] = parts.find(_.family.schema.name == name)

    private[engine] def markOf(family: Family): Table.Mark =
      parts.find(_.family.table eq family.table).fold(Table.Mark.Empty)(_.mark)
  }
}
