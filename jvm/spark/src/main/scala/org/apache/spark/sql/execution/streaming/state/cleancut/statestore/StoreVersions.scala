package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.locks.ReentrantLock

import io.cleancut.base.StateVersion
import io.cleancut.engine.{Compaction, StateLog}
import io.cleancut.error.Errors
import io.cleancut.protocol.{BasePlan, Chain}
import io.cleancut.format.FrameKind
import io.cleancut.format.frame.{FamilySchema, FrameIdentity, LoadPhase, LoadWatch, Parent}

/**
 * The versions of one store: those in memory, in the current log, and those on file. A version that
 * the current log does not serve is loaded into a new log; the old log is freed after its last user
 * has released it.
 *
 * `open…`, `drop` and `adoptCompaction` belong to the one user that is in the store
 * ([[StoreLock]]); other methods may be called from any thread. [[close]] is one of them, so an
 * opened log is retained for the caller under the lock, and the caller must release it.
 */
final private[cleancut] class StoreVersions(context: StoreContext) {
  import StoreVersions._

  private var current: Option[StateLog] = None
  private var pending: Option[(StateLog, Compaction)] = None
  private var isClosed = false
  private var isCompacting = false

  /** Whether a copy's follow step is requested and has not begun. */
  val isFollowed = new AtomicBoolean

  /** Held by the maintenance user that reads the base, so that others wait instead of spinning. */
  val baseReading = new ReentrantLock

  /** Held while the rest of a base is read. */
  val isReadThrough = new AtomicBoolean

  // Sizes of the frames, for the decision on the next base.
  private var baseVersion = 0L
  private var baseSizeBytes = 0L
  private var deltaSizeBytes = 0L
  private var hasForeignRows = false

  /** The log, rewound to exactly this version for writing. */
  def openForWrite(number: Long, id: Option[String]): StateLog = {
    val open = inMemory(number, id).flatMap { case (open, version) => rewound(open, version) }
    open.getOrElse(load(number, id))
  }

  /** Continues from a version on file, regardless of versions with its number in memory. */
  def takeOver(version: StateVersion): Unit = load(version.number, Some(version.id)).release()

  /** A log that serves this version, and the version in it. */
  def openForRead(number: Long, id: Option[String]): (StateLog, StateLog.Version) =
    inMemory(number, id).getOrElse {
      val loaded = load(number, id)
      (loaded, loaded.latest)
    }

  /** An empty log at this version, for a state that is completely rewritten. */
  def openEmpty(number: Long, id: Option[String]): StateLog = {
    val log = context.newLog()
    log.startAt(number, id)
    become(log)
  }

  /**
   * A log at version `number` that was loaded from the base of exactly this version, to replay
   * later deltas.
   */
  def openReplay(
      base: Long,
      baseId: Option[String],
      number: Long,
      id: Option[String]
  ): StateLog = {
    val log = context.newLog()
    val watch = new LoadWatch.Running(context.clock)
    releasing(log) {
      context.files.checkRoot()
      val listing = context.files.list(base, number, watch)
      loadInto(log, number, Chain.from(listing, base, baseId, number, id, parentOf), watch)
    }
    become(log)
  }

  /** The deltas of these versions, and the family of this name before the first of them. */
  def changes(
      first: Long,
      number: Long,
      id: Option[String],
      familyName: String
  ): (Seq[StateVersion], Option[FamilySchema]) = {
    val listing = context.files.list(first - 1, number)
    val deltas = orMissing(number, Chain.deltas(listing, first, number, id, parentOf))
    val parent = parentOf(deltas.head)
    val families =
      if (parent.version == 0L) Nil
      else {
        val before =
          orMissing(parent.version, Chain.to(listing, parent.version, parent.id, parentOf))
        val frames = before.base.map(_ -> FrameKind.Base).toSeq ++
          before.deltas.map(_ -> FrameKind.Delta)
        new ChainLoad(context, LoadWatch.Off).familiesAfter(frames)
      }
    (deltas, families.find(_.name == familyName))
  }

  def deltaWritten(sizeBytes: Long): Unit = synchronized {
    deltaSizeBytes += sizeBytes
  }

  def baseWritten(version: Long, sizeBytes: Long): Unit = synchronized {
    if (version > baseVersion) {
      baseVersion = version
      baseSizeBytes = sizeBytes
      deltaSizeBytes = 0L
      hasForeignRows = false
    }
  }

  def position: Option[BasePlan.Position] = synchronized {
    current.map { open =>
      BasePlan.Position(
        open.latest.number,
        baseVersion,
        deltaSizeBytes,
        baseSizeBytes,
        context.request.conf.minDeltasForSnapshot,
        hasForeignRows
      )
    }
  }

  /** Whether part of the current log is only on file, in a base that can be read immediately. */
  def isReadable: Boolean =
    synchronized(current.exists(_.unreadBase.exists(_.isAtHand)))

  /** The current log, retained for the caller, who must release it. */
  def retainCurrent(): Option[StateLog] =
    synchronized(current.filter(_.retain()))

  /** Discards the log, because its content may be wrong. */
  def drop(log: StateLog): Unit = synchronized {
    current.filter(_ eq log).foreach { open =>
      open.release()
      current = None
    }
  }

  /** Whether a compaction is due and none is running; if true, one counts as running now. */
  def mayCompact(): Boolean = synchronized {
    val may = !isClosed && !isCompacting && pending.isEmpty &&
      current.exists(log => log.isComplete && Compaction.isDue(log))
    if (may) isCompacting = true
    may
  }

  def compactionEnded(): Unit = synchronized {
    isCompacting = false
  }

  def isCurrent(log: StateLog): Boolean = synchronized(!isClosed && current.exists(_ eq log))

  /**
   * Keeps a finished copy until no task uses the store. `follow` is called when there are more
   * records to replay.
   */
  def offer(old: StateLog, compaction: Compaction, follow: () => Unit): Unit = synchronized {
    pending.foreach(_._2.abandon())
    pending = None
    if (isCurrent(old)) {
      pending = Some((old, compaction))
      old.followWith(follow)
    } else compaction.abandon()
  }

  /**
   * Replaces the log by its finished copy, if there is little left to replay; false if the copy
   * must follow first. A task waits for it only if garbage exceeds a limit.
   */
  def adoptCompaction(): Boolean = synchronized {
    pending.forall { case (old, compaction) =>
      val isLast = !isCurrent(old)
      val mayAdopt = isLast || compaction.restBytes <= MaxRestBytes || compaction.isOverdue
      if (mayAdopt) pending = None
      if (isLast) compaction.abandon()
      else if (mayAdopt) adopt(old, compaction)
      mayAdopt
    }
  }

  private def adopt(old: StateLog, compaction: Compaction): Unit = {
    val fresh =
      try compaction.catchUp()
      catch {
        case e: Throwable =>
          compaction.abandon()
          throw e
      }
    old.release()
    current = Some(fresh)
  }

  /** Lets a pending copy follow its log. */
  def followUp(): Unit = retainPending().foreach { case (old, compaction) =>
    try while (isCurrent(old) && !compaction.follow()) {}
    catch {
      // A record that was half replayed leaves the copy in an undefined state.
      case e: Throwable =>
        discard(compaction)
        throw e
    } finally old.release()
  }

  private def discard(compaction: Compaction): Unit = synchronized {
    pending = pending.filterNot(_._2 eq compaction)
    compaction.abandon()
  }

  private def retainPending(): Option[(StateLog, Compaction)] =
    synchronized(pending.filter(_._1.retain()))

  def close(): Unit = synchronized {
    isClosed = true
    current.foreach(_.release())
    current = None
    pending.foreach(_._2.abandon())
    pending = None
  }

  private def inMemory(number: Long, id: Option[String]): Option[(StateLog, StateLog.Version)] =
    synchronized {
      val served = current.flatMap(open => open.find(number, id).map(open -> _))
      served.foreach { case (open, _) =>
        hold(open)
        context.metrics.memoryHits.incrementAndGet()
      }
      served
    }

  /** The log at this version, or None if another thread reads later records. */
  private def rewound(open: StateLog, version: StateLog.Version): Option[StateLog] = {
    var isRewound = false
    try isRewound = open.tryRewindTo(version)
    catch {
      case e: Throwable =>
        // Part of it has been rewound: the next attempt loads the version from its files.
        drop(open)
        throw e
    } finally if (!isRewound) open.release()
    if (isRewound) Some(open) else None
  }

  private def hold(open: StateLog): Unit =
    require(open.retain(), s"the log of ${context.store} has been freed")

  private def become(opened: StateLog): StateLog = synchronized {
    if (isClosed) {
      opened.release()
      throw Errors.storeClosed(context.store.toString, "load")
    }
    current.foreach(_.release())
    current = Some(opened)
    hold(opened)
    opened
  }

  private def load(number: Long, id: Option[String]): StateLog = {
    val log = context.newLog()
    val watch = new LoadWatch.Running(context.clock)
    releasing(log) {
      if (number > 0) {
        context.files.checkRoot()
        val listing = context.files.list(number, number, watch)
        loadInto(log, number, Chain.to(listing, number, id, parentOf), watch)
      }
    }
    become(log)
  }

  /** Frees the log if `body` fails. */
  private def releasing(log: StateLog)(body: => Unit): Unit =
    try body
    catch {
      case e: Throwable =>
        log.release()
        throw e
    }

  private def loadInto(
      log: StateLog,
      number: Long,
      listed: Either[Chain.Broken, Chain],
      watch: LoadWatch.Running
  ): Unit = {
    val chain = orMissing(number, listed)
    watch.enter(LoadPhase.Index)
    synchronized {
      baseVersion = 0L
      baseSizeBytes = 0L
      deltaSizeBytes = 0L
    }
    def readThrough() = ReadThrough.consider(context, this)
    val load = new ChainLoad(context, watch)
    load(log, chain, loaded, () => readThrough())
    synchronized {
      hasForeignRows = load.hasForeignRows
    }
    log.seal(chain.target, keep = 1)
    context.validateLoaded(log)
    watch.enter(LoadPhase.Find)
    context.metrics.loaded(watch, log)
    chain.base.foreach(version => context.reportBase(version.number))
  }

  private def loaded(version: StateVersion, kind: FrameKind, sizeBytes: Long): Unit = {
    context.metrics.loadedFrames.incrementAndGet()
    context.metrics.loadedBytes.addAndGet(sizeBytes)
    synchronized {
      if (kind == FrameKind.Base) {
        baseVersion = version.number
        baseSizeBytes = sizeBytes
        deltaSizeBytes = 0L
      } else deltaSizeBytes += sizeBytes
    }
  }

  private def parentOf(version: StateVersion): Parent =
    identityOf(version, FrameKind.Delta).parent.get

  private def identityOf(version: StateVersion, kind: FrameKind): FrameIdentity =
    context.files.read(version, kind)((reader, _) => reader.identity)

  private def orMissing[A](number: Long, result: Either[Chain.Broken, A]): A =
    result.fold(broken => throw missing(number, broken), identity)

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

  /** Limit of the bytes that a leaving task may replay, about a millisecond. */
  private val MaxRestBytes = 256L << 10
}
