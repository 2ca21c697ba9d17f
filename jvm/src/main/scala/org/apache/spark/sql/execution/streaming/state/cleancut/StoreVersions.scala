package org.apache.spark.sql.execution.streaming.state.cleancut

import io.cleancut.StateVersion
import io.cleancut.engine.{Compaction, StateLog}
import io.cleancut.error.Errors
import io.cleancut.format.{FamilySchema, FrameKind, FrameReader, Parent}
import io.cleancut.protocol.{BasePlan, Chain}

/**
 * The versions of one store: those in memory, in the current log, and those on file. A version that
 * the current log does not serve is loaded into a new log; the old one lives on until its last user
 * lets go of it.
 *
 * `open…`, `drop` and `adoptCompaction` belong to the one user that is in the store
 * ([[StoreAccess]]); the rest may be called from any thread. Since [[close]] is one of them, a log
 * that is opened is held for the caller before the lock is given up, and the caller must release
 * it.
 */
final private[cleancut] class StoreVersions(context: StoreContext) {
  import StoreVersions._

  private var current: Option[Current] = None
  private var pending: Option[(StateLog, Compaction, Option[PrefixRank])] = None
  private var isClosed = false
  private var isCompacting = false

  // Where the files stand, for the decision on the next base.
  private var baseVersion = 0L
  private var baseSizeBytes = 0L
  private var deltaSizeBytes = 0L

  // The version from which on the chain has the schemas of this provider; none if it has others. A
  // task that is tried again goes back behind what it wrote.
  private var familiesSince = Long.MaxValue

  /** The log, rewound to this very version so that it can be written on. */
  def openForWrite(number: Long, id: Option[String]): Current = {
    val open = inMemory(number, id).flatMap { case (open, version) => rewound(open, version) }
    open.getOrElse(load(number, id))
  }

  /** A log that serves this version, and the version in it. */
  def openForRead(number: Long, id: Option[String]): (Current, StateLog.Version) =
    inMemory(number, id).getOrElse {
      val loaded = load(number, id)
      (loaded, loaded.log.latest)
    }

  /** An empty log that stands at this version, for a state that is written anew. */
  def openEmpty(number: Long, id: Option[String]): Current = {
    val rank = context.newRank()
    val log = context.newLog(rank)
    log.startAt(number, id)
    become(Current(log, rank))
  }

  /** The schemas that the next delta has to bring, because its chain does not have them yet. */
  def familiesFor(parent: Long): Seq[FamilySchema] = synchronized {
    if (parent == 0L || parent < familiesSince) context.families else Nil
  }

  def deltaWritten(version: Long, sizeBytes: Long): Unit = synchronized {
    deltaSizeBytes += sizeBytes
    familiesSince = Math.min(familiesSince, version)
  }

  def baseWritten(version: Long, sizeBytes: Long): Unit = synchronized {
    if (version > baseVersion) {
      baseVersion = version
      baseSizeBytes = sizeBytes
      deltaSizeBytes = 0L
    }
  }

  def position: Option[BasePlan.Position] = synchronized {
    current.map { open =>
      BasePlan.Position(
        open.log.latest.number,
        baseVersion,
        deltaSizeBytes,
        baseSizeBytes,
        context.request.conf.minDeltasForSnapshot
      )
    }
  }

  /** The current log, held for the caller, who must release it. */
  def retainCurrent(): Option[StateLog] =
    synchronized(current.map(_.log).filter(_.retain()))

  /** Forgets the log: its content is not known to be right any more. */
  def drop(log: StateLog): Unit = synchronized {
    current.filter(_.log eq log).foreach { open =>
      open.log.release()
      current = None
    }
  }

  /** Whether a compaction is due and none is under way; if so, one is taken to be under way now. */
  def mayCompact(): Boolean = synchronized {
    val may = !isClosed && !isCompacting && pending.isEmpty &&
      current.exists(open => Compaction.isDue(open.log))
    if (may) isCompacting = true
    may
  }

  def compactionEnded(): Unit = synchronized {
    isCompacting = false
  }

  def isCurrent(log: StateLog): Boolean = synchronized(!isClosed && current.exists(_.log eq log))

  /** Leaves a finished copy for the next moment at which nobody uses the store. */
  def offer(old: StateLog, compaction: Compaction, rank: Option[PrefixRank]): Unit = synchronized {
    pending.foreach(_._2.abandon())
    pending = None
    if (isCurrent(old)) pending = Some((old, compaction, rank)) else compaction.abandon()
  }

  /** Puts a finished copy in the place of the log that it was made from. */
  def adoptCompaction(): Unit = synchronized {
    pending.foreach { case (old, compaction, rank) =>
      pending = None
      if (isCurrent(old)) {
        val fresh =
          try compaction.catchUp()
          catch {
            case e: Throwable =>
              compaction.abandon()
              throw e
          }
        old.release()
        current = Some(Current(fresh, rank))
      } else compaction.abandon()
    }
  }

  def close(): Unit = synchronized {
    isClosed = true
    current.foreach(_.log.release())
    current = None
    pending.foreach(_._2.abandon())
    pending = None
  }

  private def inMemory(number: Long, id: Option[String]): Option[(Current, StateLog.Version)] =
    synchronized {
      val found = current.flatMap(open => open.log.find(number, id).map(open -> _))
      found.foreach { case (open, _) =>
        hold(open)
        context.metrics.memoryHits.incrementAndGet()
      }
      found
    }

  /** The log at this version, or None if another thread reads what came after it. */
  private def rewound(open: Current, version: StateLog.Version): Option[Current] = {
    var isRewound = false
    try isRewound = open.log.tryRewindTo(version)
    finally if (!isRewound) open.log.release()
    if (isRewound) Some(open) else None
  }

  private def hold(open: Current): Unit =
    require(open.log.retain(), s"the log of ${context.store} has been freed")

  private def become(opened: Current): Current = synchronized {
    if (isClosed) {
      opened.log.release()
      throw Errors.storeClosed(context.store.toString, "load")
    }
    current.foreach(_.log.release())
    current = Some(opened)
    hold(opened)
    opened
  }

  private def load(number: Long, id: Option[String]): Current = {
    val rank = context.newRank()
    val log = context.newLog(rank)
    try
      if (number > 0) loadInto(log, number, id)
    catch {
      case e: Throwable =>
        log.release()
        throw e
    }
    become(Current(log, rank))
  }

  private def loadInto(log: StateLog, number: Long, id: Option[String]): Unit = {
    val start = context.clock.monotonicNs()
    context.files.checkRoot()
    val chain = Chain.to(context.files.list(), number, id, parentOf) match {
      case Right(found) => found
      case Left(broken) => throw missing(number, broken)
    }
    synchronized {
      baseVersion = 0L
      baseSizeBytes = 0L
      deltaSizeBytes = 0L
      familiesSince = Long.MaxValue
    }
    chain.base.foreach(version => loadFrame(log, version, FrameKind.Base, None))
    chain.deltas.foldLeft(chain.base) { (before, version) =>
      loadFrame(log, version, FrameKind.Delta, Some(before))
      Some(version)
    }
    log.seal(chain.target, keep = 1)
    context.validateLoaded(log)
    context.metrics.loads.incrementAndGet()
    context.metrics.loadNs.addAndGet(context.clock.monotonicNs() - start)
    chain.base.foreach(version => context.reportBase(version.number))
  }

  /** `before`: what a delta must apply to (None within: version 0); None for a base. */
  private def loadFrame(
      log: StateLog,
      version: StateVersion,
      kind: FrameKind,
      before: Option[Option[StateVersion]]
  ): Unit =
    context.files.read(version, kind) { (reader, scratch) =>
      before.foreach(checkParent(reader, version, _))
      log.load(reader, scratch)
      context.metrics.loadedFrames.incrementAndGet()
      context.metrics.loadedBytes.addAndGet(reader.sizeBytes)
      synchronized {
        val families = reader.identity.families
        if (families.nonEmpty) {
          familiesSince = if (families == context.families) version.number else Long.MaxValue
        }
        if (kind == FrameKind.Base) {
          baseVersion = version.number
          baseSizeBytes = reader.sizeBytes
          deltaSizeBytes = 0L
        } else deltaSizeBytes += reader.sizeBytes
      }
    }

  private def checkParent(
      reader: FrameReader,
      version: StateVersion,
      before: Option[StateVersion]
  ): Unit = {
    val expected = before.fold(Parent(0L, None))(b => Parent(b.number, Some(b.id)))
    val found = reader.identity.parent.get
    if (found != expected) {
      val detail =
        s"the delta $version applies to ${describe(found)}, found is ${describe(expected)}"
      throw missing(version.number, Chain.Broken(found.version, detail))
    }
  }

  private def parentOf(version: StateVersion): Parent =
    context.files.read(version, FrameKind.Delta)((reader, _) => reader.identity.parent.get)

  private def missing(number: Long, broken: Chain.Broken) = Errors.frameMissing(
    context.files.location,
    context.store.operator,
    context.store.partition,
    context.store.name,
    broken.number,
    if (broken.number == number) broken.detail
    else s"version $number cannot be built: ${broken.detail}"
  )
}

private[cleancut] object StoreVersions {

  /** A log, and the order of its keys where they are ordered. */
  final case class Current(log: StateLog, rank: Option[PrefixRank])

  private def describe(parent: Parent): String =
    parent.id.fold(s"version ${parent.version}")(id => s"${parent.version}-$id")
}
