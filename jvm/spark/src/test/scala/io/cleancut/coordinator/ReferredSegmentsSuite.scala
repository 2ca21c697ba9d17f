package io.cleancut.coordinator

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{Clock, StateVersion}
import io.cleancut.coordinator.state.QueryLedger
import io.cleancut.cutstore.CutArchive
import io.cleancut.cutstore.gc.CutSweep
import io.cleancut.objectstore.ObjectKey
import io.cleancut.protocol.Ack
import io.cleancut.testkit.Patience
import io.cleancut.format.{FrameKind, FrameName}
import io.cleancut.format.cut.{Cut, Referred, SealedFrame}
import io.cleancut.format.frame.ReferringBase

/** What keeps the segments that bases of an act refer to, and for how long. */
class ReferredSegmentsSuite extends AnyFunSuite with CutsOnDisk with Patience {
  private val Stores = Seq(part(0), part(1))

  /** An act that goes back to an epoch, at once after the query has ended. */
  private def goBack(to: Long): Long = {
    val act = driver()
    val last = act.begin("act").committed
    val epoch = last + 2
    val cut = archive.cuts.read(to).get
    act.replace("act", epoch, Stores.toSet)
    act.refer("act", epoch, bases(cut, epoch), cut.segments.toSet)
    act.settle("act", epoch)
    act.commit("act", epoch, "v1\n{}")
    act.endRun("act")
    epoch
  }

  private def bases(cut: Cut, epoch: Long): Seq[SealedFrame] = Stores.map { store =>
    val version = StateVersion(epoch + 1, StateVersion.newId(Clock.System))
    val source = Seq(cut.of(store).get)
    val bytes = ReferringBase.encode(store, version, source, spread = None)
    SealedFrame(FrameName(store, version, FrameKind.Base), attempt = 0L, bytes)
  }

  private def sourcesOf(epoch: Long) = archive.cuts.read(epoch).get.segments

  private def areThere(names: Seq[String]) =
    names.forall(name => store.head(ObjectKey(name)).isDefined)

  private def referredBy(epoch: Long) = archive.cuts.head(epoch).get.referred

  /** Each store has a base of the last version, which the next cut names. */
  private def writeBases(query: QueryCoordinator, run: String): Unit =
    for (of <- query.lastCut.get.stores) {
      val name = FrameName(of.store, of.version, FrameKind.Base)
      assert(
        submit(query, run, SealedFrame(name, SealedFrame.Maintenance, "base".getBytes)) ==
          Ack.Accepted
      )
    }

  test("each cut lists it as long as a chain or a kept cut may need it, and then it goes") {
    val query = driver()
    for (e <- 0L until 40L) epoch(query, "r1", e)
    val sources = sourcesOf(39)
    query.endRun("r1")
    val act = goBack(39)
    val listed = Seq(Referred(act + 1, sources.sorted))
    assert(referredBy(act) == listed)
    val next = driver(keep = 10)
    for (e <- act + 1 until act + 40) {
      epoch(next, "r2", e)
      assert(referredBy(e) == listed, s"at $e")
    }
    eventually(assert(archive.cuts.epochs().head > act))
    assert(areThere(sources))
    writeBases(next, "r2")
    val last = act + 40
    // Those that are kept still begin with what refers.
    epoch(next, "r2", last)
    assert(areThere(sources))
    for (e <- last + 1 until last + 60) epoch(next, "r2", e)
    assert(referredBy(last + 59).isEmpty)
    eventually(assert(!sources.exists(name => areThere(Seq(name)))))
    // A garbage collection may delete cuts between the listing and the reads.
    eventually {
      val kept = archive.cuts.epochs().flatMap(archive.cuts.read)
      assert(kept.nonEmpty && kept.forall(_.segments.nonEmpty))
    }
  }

  test("a sweep with an oldest cut from before the act leaves it, in whichever run") {
    val query = driver()
    for (e <- 0L until 30L) epoch(query, "r1", e)
    val sources = sourcesOf(4)
    writeBases(query, "r1")
    for (e <- 30L until 60L) epoch(query, "r1", e)
    query.endRun("r1")
    // Of the cuts that are kept only that one and those from the act on need these segments.
    assert(sources.toSet.intersect(sourcesOf(59).toSet).isEmpty)
    val act = goBack(4)
    val next = driver(keep = 50)
    epoch(next, "r2", act + 1)
    writeBases(next, "r2")
    for (e <- act + 2 until act + 12) epoch(next, "r2", e)
    // No chain begins with it any more, but cuts do that are kept.
    assert(referredBy(act + 11).map(_.version) == Seq(act + 1))
    val spared = archive.cuts.head(act + 11).get.retainedSegments(oldest = 55)
    val swept = new CutSweep(archive, QueryLedger.BaseMargin, () => false).run(55, spared)
    assert(swept.cuts == 55 && swept.segments > 0)
    assert(areThere(sources))
  }

  test("what an act refers to that is made of the same state again is listed twice") {
    val query = driver()
    for (e <- 0L until 5L) epoch(query, "r1", e)
    query.endRun("r1")
    val first = goBack(3)
    val second = goBack(first)
    assert(referredBy(second).map(_.version) == Seq(first + 1, second + 1))
  }

  test("a sweep whose run an act has followed takes cuts, and nothing that they lead to") {
    val query = driver()
    for (e <- 0L until 60L) epoch(query, "r1", e)
    writeBases(query, "r1")
    for (e <- 60L until 90L) epoch(query, "r1", e)
    val sources = sourcesOf(50)
    assert(sources.toSet.intersect(sourcesOf(88).toSet).isEmpty)
    // It has listed the cuts, and the act finds the one that it wants; both go on then.
    var isBegun = false
    val slow = new CutArchive(
      new ForwardingStore(store) {
        override def delete(keys: Seq[ObjectKey]): Unit = {
          if (!isBegun) {
            isBegun = true
            goBack(50)
            ()
          }
          super.delete(keys)
        }
      },
      Clock.System
    )
    val generation = archive.cuts.head(89).get.run.generation
    val swept =
      new CutSweep(slow, QueryLedger.BaseMargin, () => archive.owners.isTaken(generation + 1))
        .run(oldest = 88, retained = Set.empty)
    assert(isBegun && swept.cuts == 88 && swept.segments == 0)
    assert(areThere(sources) && archive.cuts.epochs() == Seq(88L, 89L, 91L))
  }
}
