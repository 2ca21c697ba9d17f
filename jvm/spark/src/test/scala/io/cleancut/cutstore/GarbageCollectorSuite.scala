package io.cleancut.cutstore

import java.nio.file.Files
import java.nio.file.attribute.FileTime
import java.util.concurrent.{CountDownLatch, TimeUnit}
import java.util.concurrent.atomic.AtomicInteger

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{Clock, StateVersion}
import io.cleancut.coordinator.{CutsOnDisk, CutsRuntime, ForwardingStore, QueryCoordinator}
import io.cleancut.cutstore.gc.SavepointIndex
import io.cleancut.objectstore.{
  ObjectInfo,
  ObjectKey,
  ObjectPrefix,
  ObjectRange,
  ObjectStore,
  WriterToken
}
import io.cleancut.testkit.{ManualClock, Patience}
import io.cleancut.coordinator.SingleRegistrations._
import io.cleancut.format.{CutLayout, FrameKind, FrameName}
import io.cleancut.format.cut.SealedFrame

/** Garbage collections of one run: their number, listings and limits. */
class GarbageCollectorSuite extends AnyFunSuite with CutsOnDisk with Patience {
  import GarbageCollectorSuite._

  private def driverOn(
      under: ObjectStore,
      keep: Int = 10,
      keptMs: Long = 0L,
      runtime: CutsRuntime => CutsRuntime = identity
  ): QueryCoordinator = {
    val usual = CutsRuntime.onThreads(under, Clock.System)
    val archive = new CutArchive(under, Clock.System)
    new QueryCoordinator(archive, new Logs(None, keep, keptMs), "host", runtime(usual))
  }

  private def inline(usual: CutsRuntime) = usual.copy(background = _.run())

  private def windowOf(cuts: QueryCoordinator) = cuts.lastCut.get.paged.window.size

  private def directories(name: String) =
    Option(directory.resolve(name).toFile.list).fold(0)(_.length)

  test("a garbage collection waits for the previous one, and pages wait for neither") {
    val listings = new AtomicInteger
    val isReleased = new CountDownLatch(1)
    val slow = new ForwardingStore(store) {
      private def await(prefix: ObjectPrefix): Unit =
        if (prefix.name == CutLayout.Segments) {
          listings.incrementAndGet()
          isReleased.await(Patience.Seconds, TimeUnit.SECONDS)
          ()
        }

      override def list(prefix: ObjectPrefix): Iterator[ObjectInfo] = {
        await(prefix)
        super.list(prefix)
      }

      override def listRange(range: ObjectRange): Iterator[ObjectInfo] = {
        await(range.prefix)
        super.listRange(range)
      }
    }
    val cuts = driverOn(slow)
    for (e <- 0L until 120L) epoch(cuts, "r1", e)
    var next = 120L
    eventually {
      epoch(cuts, "r1", next)
      next += 1
      assert(windowOf(cuts) <= 16)
    }
    assert(listings.get == 1)
    isReleased.countDown()
    eventually {
      epoch(cuts, "r1", next)
      next += 1
      assert(listings.get >= 2 && archive.cuts.epochs().head > 120L)
    }
  }

  test("the listings of a garbage collection do not grow with the retention") {
    for ((keep, keptMs) <- Seq(10 -> 0L, 10 -> TimeUnit.HOURS.toMillis(168), 150 -> 0L)) {
      val listings = new CountedListings(storeAt(s"$keep-$keptMs"))
      val cuts = driverOn(listings, keep, keptMs, inline)
      val warm = keep + 50L
      val sweeps = 5
      for (e <- 0L until warm) epoch(cuts, "r1", e)
      val before = (listings.pages.get, listings.deleted.get)
      for (e <- warm until warm + 20L * sweeps) epoch(cuts, "r1", e)
      val pages = listings.pages.get - before._1
      val deleted = listings.deleted.get - before._2
      info(
        s"keep $keep, $keptMs ms: $pages LIST requests in $sweeps collections, $deleted deleted"
      )
      // A page has ten keys here; each collection can begin one in each of three directories.
      assert(pages <= 2 * sweeps + deleted / CountedListings.PageKeys + 3 * sweeps)
      if (keptMs > 0) assert(deleted == 0 && pages <= sweeps)
    }
  }

  test("unreferenced segments are deleted, also if they were referenced when they were listed") {
    val cuts = driverOn(store, runtime = inline)
    for (e <- 0L until 100L) {
      epoch(cuts, "r1", e)
      if (e == 19) cuts.pin("early", 15)
    }
    val pinned = archive.savepoints.all()("early").segments
    // Each chain begins with a new base, so that cuts do not reference the old deltas.
    def writeBases(): Unit = for (chain <- cuts.lastCut.get.stores) {
      val name = FrameName(chain.store, chain.version, FrameKind.Base)
      submit(cuts, "r1", SealedFrame(name, SealedFrame.Maintenance, "base".getBytes))
    }
    writeBases()
    for (e <- 100L until 160L) epoch(cuts, "r1", e)
    val epochs = archive.segments.keys().map(_._1).distinct
    assert(pinned.forall(name => store.head(ObjectKey(name)).isDefined))
    assert(!epochs.exists(e => e > 15 && e < 99))
    assert(cuts.unpin("early"))
    for (e <- 160L until 180L) epoch(cuts, "r1", e)
    assert(!pinned.exists(name => store.head(ObjectKey(name)).isDefined))
  }

  test("an unreadable savepoint stops deletions only up to its creation") {
    val cuts = driverOn(store, runtime = inline)
    var next = 0L
    def runUntil(end: Long): Unit = while (next < end) {
      for (p <- 0 to 1) {
        cuts.open("r1", next * 10 + p, part(p), next)
        val kind = if (next % 15 == 0) FrameKind.Base else FrameKind.Delta
        submit(cuts, "r1", frame(part(p), next + 1, next * 10 + p, kind))
      }
      cuts.commit("r1", next, "v1\n{}")
      next += 1
    }
    runUntil(41)
    val bytes = store.get(ObjectKey(CutLayout.cut(40))).get
    runUntil(120)
    val before = directories("segments")
    // As by a process that was stopped between its read of the cut and its check.
    store.create(ObjectKey(CutLayout.savepoint("x")), bytes, WriterToken.fresh(Clock.System))
    val atCreation = archive.segments.keys().map(_._2.name).toSet
    // The write time of the next cut must be later.
    eventually(assert(isLater(CutLayout.savepoint("x"))))
    runUntil(300)
    assert(cuts.status.unreadableSavepoints.size == 1)
    val unreadable = cuts.status.unreadableSavepoints.head
    assert(unreadable.name == "x" && unreadable.lastEpoch.exists(e => e >= 119 && e < 140))
    assert(unreadable.detail.contains("CLEANCUT_CUT_CORRUPTED"))
    assert(directories("segments") <= before + 40)
    val left = archive.segments.keys().map(_._2.name).toSet
    assert(atCreation.subsetOf(left), "segments from before the savepoint are deleted")
    cuts.unpin("x")
    runUntil(340)
    assert(cuts.status.unreadableSavepoints.isEmpty && directories("segments") <= before + 5)
  }

  private def isLater(name: String) = {
    val probe = directory.resolve("probe")
    Files.deleteIfExists(probe)
    Files.createFile(probe)
    val now = Files.getLastModifiedTime(probe)
    now.toMillis > Files.getLastModifiedTime(directory.resolve(name)).toMillis
  }

  test("the last epoch before a savepoint is derived from write times, not from gaps") {
    import SavepointIndex.lastBefore
    def cuts(times: (Int, Int)*) = times.map { case (epoch, ms) => epoch.toLong -> ms.toLong }
    val regular = cuts(5 -> 50, 6 -> 60, 7 -> 70, 8 -> 80)
    assert(lastBefore(65, regular).contains(6L))
    assert(lastBefore(60, regular).contains(6L) && lastBefore(59, regular).contains(5L))
    assert(lastBefore(80, regular).isEmpty && lastBefore(90, regular).isEmpty)
    // All remaining cuts are newer.
    assert(lastBefore(40, regular).contains(4L))
    // A fenced run wrote a cut late.
    assert(lastBefore(40, cuts(2 -> 55) ++ regular).contains(4L))
    assert(lastBefore(65, cuts(2 -> 66) ++ regular).contains(6L))
    assert(lastBefore(1, Nil).isEmpty)
  }

  test("the start of a run keeps young segments by the clock of the object store") {
    val first = driverOn(store)
    for (e <- 0L until 60L) epoch(first, "r1", e)
    val young = CutLayout.segment(3, "7", StateVersion.newId(Clock.System))
    val old = CutLayout.segment(4, "7", StateVersion.newId(Clock.System))
    for (name <- Seq(young, old)) store.put(ObjectKey(name), Array[Byte](1))
    val before = FileTime.fromMillis(Clock.System.wallMs() - 2 * 3600000L)
    Files.setLastModifiedTime(directory.resolve(old), before)
    // The clock of the next driver's host is a day ahead.
    val ahead = new ManualClock
    ahead.advance(Clock.System.wallMs() + TimeUnit.DAYS.toMillis(1), TimeUnit.MILLISECONDS)
    val later = new CutArchive(store, ahead)
    val runtime = CutsRuntime.onThreads(store, Clock.System).copy(clock = ahead)
    val begun = new QueryCoordinator(later, new Logs(None, 10), "host", runtime).begin("r2")
    val collector = begun.collector.get
    assert(collector.isDue(59) && collector.tryStart() && !collector.tryStart())
    collector.runAtStart(begun.cut.get)
    assert(archive.cuts.epochs().head == 49L)
    assert(store.head(ObjectKey(young)).isDefined && store.head(ObjectKey(old)).isEmpty)
    assert(collector.tryStart(), "the next garbage collection may run")
  }

  test("pages whose write failed with a JVM error are written after a later epoch") {
    var isFull = false
    val scarce = new ForwardingStore(store) {
      override def put(key: ObjectKey, body: Array[Byte]): Unit =
        if (isFull && key.name.startsWith(CutLayout.Pages))
          throw new OutOfMemoryError("Cannot reserve direct buffer memory")
        else super.put(key, body)
    }
    val cuts = driverOn(
      scarce,
      runtime = _.copy(background = { task =>
        try task.run()
        catch { case _: OutOfMemoryError => () }
      })
    )
    isFull = true
    for (e <- 0L until 30L) epoch(cuts, "r1", e)
    assert(windowOf(cuts) >= 30)
    isFull = false
    for (e <- 30L until 40L) epoch(cuts, "r1", e)
    assert(windowOf(cuts) <= 16)
  }
}

object GarbageCollectorSuite {

  /** Counts the pages of listings, with few keys per page. */
  final class CountedListings(under: ObjectStore) extends ForwardingStore(under) {
    val pages = new AtomicInteger
    val deleted = new AtomicInteger

    override def list(prefix: ObjectPrefix): Iterator[ObjectInfo] =
      counted(super.list(prefix).toSeq.sortBy(_.key.name).iterator)

    /** Lists as S3 does: from a name on, up to the page with the first name after the range. */
    override def listRange(range: ObjectRange): Iterator[ObjectInfo] = {
      val after = super.list(range.prefix).toSeq.sortBy(_.key.name).filter { info =>
        info.key.name > range.after
      }
      counted(after.iterator).takeWhile(_.key.name < range.until)
    }

    private def counted(infos: Iterator[ObjectInfo]): Iterator[ObjectInfo] = {
      pages.incrementAndGet()
      infos.zipWithIndex.map { case (info, index) =>
        if (index > 0 && index % CountedListings.PageKeys == 0) pages.incrementAndGet()
        info
      }
    }

    override def delete(keys: Seq[ObjectKey]): Unit = {
      deleted.addAndGet(keys.size)
      super.delete(keys)
    }
  }

  object CountedListings {
    val PageKeys = 10
  }
}
