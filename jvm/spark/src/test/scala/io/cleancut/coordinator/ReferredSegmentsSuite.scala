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

/** Retention of the segments that the bases of an operation refer to. */
class ReferredSegmentsSuite extends AnyFunSuite with CutsOnDisk with Patience {
  private val Stores = Seq(part(0), part(1))

  /** Rolls back to an epoch; returns the epoch of the rollback. */
  private def rollBack(to: Long): Long = {
    val operation = driver()
    val last = operation.begin("operation").committed
    val epoch = last + 2
    val cut = archive.cuts.read(to).get
    operation.replace("operation", epoch, Stores.toSet)
    operation.refer("operation", epoch, bases(cut, epoch), cut.segments.toSet)
    operation.settle("operation", epoch)
    operation.commit("operation", epoch, "v1\n{}")
    operation.endRun("operation")
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

  /** Writes a base of the last version of each store, which the next cut references. */
  private def writeBases(query: QueryCoordinator, run: String): Unit =
    for (chain <- query.lastCut.get.stores) {
      val name = FrameName(chain.store, chain.version, FrameKind.Base)
      assert(
        submit(query, run, SealedFrame(name, SealedFrame.Maintenance, "base".getBytes)) ==
          Ack.Accepted
      )
    }

  test("cuts list referred segments while a chain or a retained cut requires them") {
    val query = driver()
    for (e <- 0L until 40L) epoch(query, "r1", e)
    val sources = sourcesOf(39)
    query.endRun("r1")
    val rolledBack = rollBack(39)
    val listed = Seq(Referred(rolledBack + 1, sources.sorted))
    assert(referredBy(rolledBack) == listed)
    val next = driver(keep = 10)
    for (e <- rolledBack + 1 until rolledBack + 40) {
      epoch(next, "r2", e)
      assert(referredBy(e) == listed, s"at $e")
    }
    eventually(assert(archive.cuts.epochs().head > rolledBack))
    assert(areThere(sources))
    writeBases(next, "r2")
    val last = rolledBack + 40
    // Chains of the retained cuts still begin with the referring bases.
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

  test("garbage collection with retained cuts from before a rollback keeps referred segments") {
    val query = driver()
    for (e <- 0L until 30L) epoch(query, "r1", e)
    val sources = sourcesOf(4)
    writeBases(query, "r1")
    for (e <- 30L until 60L) epoch(query, "r1", e)
    query.endRun("r1")
    // Only cut 4 and the cuts from the rollback on require these segments.
    assert(sources.toSet.intersect(sourcesOf(59).toSet).isEmpty)
    val rolledBack = rollBack(4)
    val next = driver(keep = 50)
    epoch(next, "r2", rolledBack + 1)
    writeBases(next, "r2")
    for (e <- rolledBack + 2 until rolledBack + 12) epoch(next, "r2", e)
    // No current chain begins with a referring base, but chains of retained cuts do.
    assert(referredBy(rolledBack + 11).map(_.version) == Seq(rolledBack + 1))
    val retainedSegments = archive.cuts.head(rolledBack + 11).get.retainedSegments(oldest = 55)
    val swept = new CutSweep(archive, QueryLedger.BaseMargin, () => false).run(55, retainedSegments)
    assert(swept.cuts == 55 && swept.segments > 0)
    assert(areThere(sources))
  }

  test("two rollbacks to the same state list the referred segments twice") {
    val query = driver()
    for (e <- 0L until 5L) epoch(query, "r1", e)
    query.endRun("r1")
    val first = rollBack(3)
    val second = rollBack(first)
    assert(referredBy(second).map(_.version) == Seq(first + 1, second + 1))
  }

  test("garbage collection of a fenced run deletes cuts, and no segments that they reference") {
    val query = driver()
    for (e <- 0L until 60L) epoch(query, "r1", e)
    writeBases(query, "r1")
    for (e <- 60L until 90L) epoch(query, "r1", e)
    val sources = sourcesOf(50)
    assert(sources.toSet.intersect(sourcesOf(88).toSet).isEmpty)
    // The collection has listed the cuts when the rollback finds its source. Then both continue.
    var isBegun = false
    val slow = new CutArchive(
      new ForwardingStore(store) {
        override def delete(keys: Seq[ObjectKey]): Unit = {
          if (!isBegun) {
            isBegun = true
            rollBack(50)
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
