package io.cleancut.engine

import scala.util.Random

import org.scalatest.Assertions

import io.cleancut.base.StateVersion
import io.cleancut.engine.memory.{HashLimit, SeededHash}
import io.cleancut.error.CleancutException
import io.cleancut.format.frame.FamilySchema
import io.cleancut.testkit.inputs.StepLog
import io.cleancut.testkit.{Blob, Frames, TestMemory}
import io.cleancut.engine.OneFamily._
import io.cleancut.testkit.Blob.Lists

/**
 * Applies random steps to a [[StateLog]] and to a plain map for each version, and compares them
 * after each step. The log is used as by a provider: versions are sealed with a delta, and tasks
 * abort, are retried on older versions, or use another log that was loaded from frames.
 */
final private[engine] class LogMachine(random: Random, owned: TestMemory.Owned) extends Assertions {
  import LogInputs._
  import LogMachine._
  import owned.{account, memory}

  private val isOrdered = random.nextInt(3) > 0
  private val hasLists = random.nextBoolean()
  private val order: FamilySchema => Option[KeyOrder] =
    _ => if (isOrdered) Some(new FirstByteRank(memory)) else None
  private val isChosen = random.nextBoolean()
  // Some runs have each step equally often, so that each follows each.
  private val isEven = random.nextInt(4) == 0
  private val limit =
    HashLimit(new SeededHash(random.nextLong(), random.nextLong()), maxChain = random.nextInt(2))
  private val pool = Vector.tabulate(48) { i =>
    if (isChosen) Blob.of(ChosenKeys.key(random.nextLong()).toSeq: _*)
    else Blob.random(random, KeyLengths(i % KeyLengths.size))
  }
  private val files = new LogFiles(memory)
  private var log = newLog()
  private var rows: Lists = Map.empty
  private var served = Vector(Served(0L, None, Map.empty))
  private var scans = List.empty[OpenScan]
  private var compaction = Option.empty[Compaction]
  private var attempts = 0

  /** Number of logs whose base was not read yet. */
  var attached = 0

  /** Number of reads that loaded a key without the other keys of its block. */
  var readAlone = 0

  /** Whether the index of the last log has a seeded hash. */
  var isSeeded = false

  private var delta = newDelta()
  private val inputs =
    new StepLog(LogInputs.Space, LogInputs.settings(owned.name, isOrdered, hasLists, isChosen))

  def run(steps: Int): Unit = {
    for (_ <- 0 until steps) step()
    verify()
    settle()
    isSeeded = log.contents.isSeeded
    free()
  }

  private def step(): Unit = {
    val step = drawStep()
    if (hasEffect(step)) inputs.add(step, state)
    perform(step)
  }

  private def drawStep(): String =
    if (isEven) Steps(random.nextInt(Steps.size)) else drawUsualStep()

  private def drawUsualStep(): String = random.nextInt(100) match {
    case n if n < 45 => Change
    case n if n < 60 => Get
    case n if n < 64 => StartScan
    case n if n < 72 => Scan
    case n if n < 82 => Seal
    case n if n < 86 => Abort
    case n if n < 89 => Retry
    case n if n < 90 => Pin
    case n if n < 92 => WriteBase
    case n if n < 94 => if (random.nextBoolean()) Reload else ReadBase
    case n if n < 95 => Compact
    case n if n < 96 => if (random.nextBoolean()) Follow else Restart
    case n if n < 98 => Settle
    case _           => Verify
  }

  private def perform(step: String): Unit = step match {
    case Change    => change()
    case Get       => verifyGet()
    case StartScan => openScan()
    case Scan      => scans.headOption.foreach(continue)
    case Seal      => seal()
    case Abort     => rewind(served.size - 1)
    case Retry     => rewind(random.nextInt(served.size))
    case Pin       => verifyPin()
    case WriteBase => verifyBase()
    case Reload    => reload()
    case ReadBase  => readBase()
    case Compact   => startCompaction()
    case Follow    => follow()
    case Restart   => restart()
    case Settle    => settle()
    case _         => verify()
  }

  private def hasEffect(step: String): Boolean = step match {
    case Scan    => scans.nonEmpty
    case Compact => compaction.isEmpty
    case Follow  => compaction.nonEmpty
    case Reload  => served.last.id.isDefined
    case _       => true
  }

  private def state: Map[String, Set[String]] = LogInputs.state(
    versions = served.size,
    hasScan = scans.nonEmpty,
    isCopied = compaction.nonEmpty,
    isUnread = log.family(OneFamily.Schema.name).exists(_.table.unreadBlocks > 0)
  )

  /** Reads part of the base, as a background thread does while no task uses the store. */
  private def readBase(): Unit = {
    log.readNext(random.nextInt(3))
    verifySizes()
  }

  private def change(): Unit = {
    val key = pool(random.nextInt(pool.size))
    if (random.nextInt(4) == 0) {
      // Sometimes more than a purge handles together.
      if (random.nextInt(20) == 0) random.shuffle(pool).take(32).foreach(remove)
      else remove(key)
    } else if (hasLists && random.nextBoolean()) {
      // Some lists of shorter values become longer than a slot of the log.
      if (random.nextInt(60) == 0) append(key, Seq.fill(12)(70000 + random.nextInt(60000)))
      else append(key, Seq.fill(random.nextInt(4))(valueLength()))
    } else {
      val value = Blob.random(random, valueLength())
      log.put(Blob.bytes(key), Blob.bytes(value))
      rows += key -> Vector(value)
    }
    if (random.nextBoolean()) delta.keepUp()
    if (random.nextInt(4) == 0) log.publish()
    if (random.nextInt(4) == 0) follow()
  }

  private def remove(key: Blob.Blob): Unit = {
    assert(countingAlone(log.remove(Blob.bytes(key))) == rows.contains(key))
    rows -= key
  }

  /** Adds values to a list, one at a time or together, or sets the list to them. */
  private def append(key: Blob.Blob, lengths: Seq[Int]): Unit = {
    val values = lengths.map(Blob.random(random, _)).toVector
    val replaces = random.nextInt(4) == 0
    if (replaces || random.nextBoolean()) {
      log.contents.mergeList(Blob.bytes(key), values.size, replaces)(i => Blob.bytes(values(i)))
    } else values.foreach(value => log.merge(Blob.bytes(key), Blob.bytes(value)))
    val before = if (replaces) Vector.empty else rows.getOrElse(key, Vector.empty)
    val after = before ++ values
    if (after.isEmpty) rows -= key else rows += key -> after
  }

  /** Runs steps of the copy, after changes that the task may still abort. */
  private def follow(): Unit = compaction.foreach { copy =>
    val steps = random.nextInt(6)
    if ((0 until steps).exists(_ => copy.follow()) && random.nextBoolean()) {
      rewind(served.size - 1)
      while (!copy.follow()) {}
      assert(copy.restBytes == 0L)
      ()
    }
  }

  private def valueLength(): Int = random.nextInt(500) match {
    case 0           => (1 << 20) + random.nextInt(300000)
    case n if n < 9  => 100000 + random.nextInt(200000)
    case n if n < 60 => 0
    case _           => random.nextInt(70)
  }

  private def verifyGet(): Unit = {
    val key = pool(random.nextInt(pool.size))
    val (version, bound) = anyVersion()
    if (random.nextBoolean()) prefetchSome(key)
    val record = countingAlone(log.find(Blob.bytes(key), bound))
    val row =
      if (record == 0L) None else Some(Blob.keyAt(memory, record) -> log.values(memory, record))
    assert(row == version.get(key).map(key -> _))
    ()
  }

  private def prefetchSome(key: Blob.Blob): Unit = {
    val keys = key +: Seq.fill(random.nextInt(16))(pool(random.nextInt(pool.size)))
    val hashes = keys.map(k => log.contents.hashOf(Blob.bytes(k))).toArray
    log.contents.prefetch(hashes, random.nextInt(keys.size + 1))
  }

  private def countingAlone[A](read: => A): A = {
    val (blocks, keys) = (log.contents.unreadBlocks, log.contents.keysInLog)
    val result = read
    if (log.contents.unreadBlocks == blocks && log.contents.keysInLog == keys + 1) readAlone += 1
    result
  }

  /** The current rows or those of a served version, with the limit of its readers. */
  private def anyVersion(): (Lists, Int) =
    if (random.nextBoolean()) (rows, Record.NoBound)
    else {
      val version = served(random.nextInt(served.size))
      (version.rows, markOf(version).end)
    }

  private def markOf(version: Served): Table.Mark =
    log.find(version.number, version.id).getOrElse(fail(s"$version is not served")).mark

  private def openScan(): Unit = {
    val (version, bound) = anyVersion()
    val ranks = FirstByteRank.all
    val scan =
      if (!isOrdered || random.nextBoolean()) new OpenFullScan(memory, log, version, bound)
      else {
        val wanted = ranks(random.nextInt(ranks.size))
        new OpenRankScan(memory, log, version, wanted, bound)
      }
    scans = scans :+ scan
  }

  private def continue(scan: OpenScan): Unit =
    if (!scan.take(random.nextInt(40))) {
      scan.close()
      scans = scans.filterNot(_ eq scan)
    } else scans = scans.tail :+ scan

  private def seal(): Unit = {
    val version = delta.target
    delta.finish()
    if (random.nextInt(4) == 0) files.verifyLoads(files.chain(version.id), rows, newLog())
    val keep = random.nextInt(5)
    val before = log.latest
    log.seal(version, keep)
    // Keys that were removed before the oldest version are purged, and ordered scans no longer
    // return them. A task has no older scan open.
    val oldest = if (log.versions.head.number < before.number) log.versions.head else before
    val (gone, kept) = scans.partition { scan =>
      (scan.log eq log) && scan.isOrdered &&
      Integer.compareUnsigned(scan.end, oldest.mark.end) < 0
    }
    gone.foreach(_.close())
    scans = kept
    served = (served :+ Served(version.number, Some(version.id), rows)).takeRight(Math.max(keep, 1))
    assert(log.versions.map(v => (v.number, v.id)) == served.map(v => (v.number, v.id)))
    begin()
  }

  private def begin(): Unit = delta = newDelta()

  private def newDelta(): LogFiles#Delta = {
    attempts += 1
    new files.Delta(log, Frames.version(log.latest.number + 1, attempts))
  }

  /** Rewinds to a version: the last one for an abort, an older one for a retried task. */
  private def rewind(to: Int): Unit = {
    val version = served(to)
    val mark = markOf(version)
    val (gone, kept) = scans.partition { scan =>
      (scan.log eq log) && Integer.compareUnsigned(scan.end, mark.end) > 0
    }
    gone.foreach(_.close())
    scans = kept
    assert(log.tryRewindTo(log.find(version.number, version.id).get))
    served = served.take(to + 1)
    rows = version.rows
    begin()
  }

  /** Checks that the log cannot be rewound beyond a version that another thread reads. */
  private def verifyPin(): Unit = {
    val pinned = served(random.nextInt(served.size))
    val read = log.pin(pinned.number) { version =>
      assert(version.id == pinned.id)
      for (older <- log.versions.filter(_.number < version.number))
        assert(!log.tryRewindTo(older), "rows that are read were rewound")
      log.versions.size
    }
    assert(read.contains(served.size))
    assert(log.pin(served.last.number + 1)(_ => ()).isEmpty)
    verifySizes()
  }

  private def verifyBase(): Unit = {
    val version = served(random.nextInt(served.size))
    version.stateVersion.foreach { target =>
      val base = files.base(log, target, 1 << random.nextInt(18), maxBlockBytes())
      files.verifyLoads(Seq(base), version.rows, newLog())
      if (random.nextBoolean()) files.replaceBy(base)
    }
  }

  private def maxBlockBytes(): Int =
    if (random.nextBoolean()) BlockEncoder.MaxBytes else 1 << (6 + random.nextInt(16))

  /** Loads the last version from frames, as another executor or a new process does. */
  private def reload(): Unit = {
    rewind(served.size - 1)
    val version = served.last
    version.stateVersion.foreach { target =>
      compaction.foreach(_.abandon())
      compaction = None
      val loaded = newLog()
      if (random.nextInt(4) == 0) files.load(files.chain(target.id), loaded)
      else if (files.attach(files.chain(target.id), loaded, anySparse())) attached += 1
      loaded.seal(target, keep = 1)
      log.release()
      log = loaded
      served = Vector(version)
      if (random.nextInt(8) == 0) verifyWrongTotals(target)
      begin()
      for (_ <- 0 until random.nextInt(24)) if (random.nextBoolean()) change() else verifyGet()
      // The rest of a base is read by later steps, or here.
      verifySizes()
      if (random.nextInt(3) == 0) verify()
    }
  }

  private def anySparse(): SparseReads =
    if (random.nextInt(4) == 0) SparseReads.Default
    else SparseReads(requestsPerBlock = random.nextInt(20), share = random.nextInt(20).toDouble)

  /** Starts a new process that finds a base of the last version. */
  private def restart(): Unit = {
    seal()
    served.last.stateVersion.foreach { target =>
      files.replaceBy(files.base(log, target, 1 << random.nextInt(18), maxBlockBytes()))
    }
    reload()
  }

  /** Checks that wrong totals are detected at the latest with the last block. */
  private def verifyWrongTotals(target: StateVersion): Unit = {
    val right = log.contents.totals
    val wrong =
      if (random.nextBoolean()) right.copy(keys = right.keys + 1)
      else right.copy(bytes = right.bytes + 8)
    for ((totals, isRight) <- Seq(right -> true, wrong -> false)) {
      val loaded = newLog()
      val error =
        try {
          val frames = files.chain(target.id) :+ files.emptyDelta(target, totals)
          files.attach(frames, loaded, anySparse())
          for (_ <- 0 until random.nextInt(3))
            if (random.nextBoolean()) loaded.readNext(1)
            else loaded.find(Blob.bytes(pool(random.nextInt(pool.size))), Record.NoBound)
          loaded.complete()
          None
        } catch { case e: CleancutException => Some(e.getErrorId) }
        finally loaded.release()
      assert(error == (if (isRight) None else Some("CLEANCUT_FRAME_CORRUPTED")))
    }
  }

  private def startCompaction(): Unit = if (compaction.isEmpty) {
    log.complete()
    val copy = new Compaction(log, order, memory, account, stepRecords = 1 + random.nextInt(20))
    log.followWith(() => ())
    // The writer continues during the copy.
    val isDone = copy.copyOldest { () =>
      for (_ <- 0 until random.nextInt(30)) change()
      true
    }
    assert(isDone)
    if (random.nextInt(8) == 0) copy.abandon() else compaction = Some(copy)
  }

  /** Replaces the log by its copy, because no task uses the store. */
  private def settle(): Unit = {
    rewind(served.size - 1)
    compaction.foreach { copy =>
      val fresh = copy.catchUp()
      assert(fresh.versions.map(v => (v.number, v.id)) == log.versions.map(v => (v.number, v.id)))
      log.release()
      log = fresh
      compaction = None
      begin()
      verify()
    }
  }

  private def verify(): Unit = {
    verifySizes()
    verifyLists(rows, Record.NoBound)
    served.foreach(version => verifyLists(version.rows, markOf(version).end))
  }

  private def verifyLists(expected: Lists, bound: Int): Unit = {
    val scan = new OpenFullScan(memory, log, expected, bound)
    assert(!scan.take(Int.MaxValue))
    scan.close()
  }

  private def verifySizes(): Unit = {
    assert(log.keys == rows.size)
    val needed =
      for ((key, values) <- rows.toSeq; value <- values)
        yield Record.sizeBytes(key.length, value.length).toLong
    assert(log.liveBytes == needed.sum)
    assert(log.deadBytes >= 0L)
    ()
  }

  private def free(): Unit = {
    scans.foreach(_.close())
    compaction.foreach(_.abandon())
    log.release()
  }

  private def newLog(): StateLog = OneFamily.newLog(owned, order, limit)
}

private[engine] object LogMachine {

  // Lengths that are no multiple of eight, zero, and one that exceeds the first page.
  private val KeyLengths = Vector(8, 1, 3, 7, 9, 15, 16, 24, 33, 100, 0) ++ Vector.fill(11)(20) ++
    Vector(70003) ++ Vector.fill(25)(12)

  /** A version that the log must serve, and its rows. */
  final case class Served(number: Long, id: Option[String], rows: Lists) {
    def stateVersion: Option[StateVersion] = id.map(StateVersion(number, _))
    override def toString: String = s"version $number"
  }
}
