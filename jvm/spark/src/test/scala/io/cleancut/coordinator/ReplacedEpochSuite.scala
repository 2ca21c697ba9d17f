package io.cleancut.coordinator

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{Clock, StoreId}
import io.cleancut.objectstore.ObjectKey
import io.cleancut.protocol.Ack
import io.cleancut.format.{CutLayout, FrameKind}
import io.cleancut.coordinator.OneByOne._

/** An epoch that makes all of the state anew, in stores of its own choosing. */
class ReplacedEpochSuite extends AnyFunSuite with CutsOnDisk {
  private val Epochs = 12L

  /** Pages are written where the query runs, and not beside it. */
  private def atOnce(): QueryCoordinator = {
    val runtime = CutsRuntime.onThreads(archive.store, Clock.System)
    new QueryCoordinator(archive, new Logs(None, 100), "host", runtime.copy(background = _.run()))
  }

  /** A query whose cuts have pages, followed by an act. */
  private def begun(stores: Set[StoreId]): QueryCoordinator = {
    val query = atOnce()
    for (e <- 0L until Epochs) epoch(query, "r1", e)
    assert(archive.cuts.last().get.head.paged.pages.nonEmpty)
    query.endRun("r1")
    val act = driver()
    assert(act.begin("act").committed == Epochs - 1)
    act.replace("act", Epochs, stores)
    act
  }

  private def write(act: QueryCoordinator, store: StoreId, attempt: Long): Ack = {
    assert(act.open("act", attempt, store, Epochs).isRight)
    submit(act, "act", frame(store, Epochs + 1, attempt, FrameKind.Base))
  }

  test("an act that is broken off before its cut does not say that it has ended") {
    val query = atOnce()
    for (e <- 0L until Epochs) epoch(query, "r1", e)
    // The query still runs, and may commit its next epoch.
    val act = driver()
    act.begin("act")
    act.replace("act", Epochs + 1, Set(part(0)))
    act.endRun("act")
    assert(store.head(ObjectKey(CutLayout.endMarker(2))).isEmpty)
    assert(!driver().begin("r2").isAlone)
  }

  test("it has its own stores and none of the cut before, also for whoever reads the pages") {
    val stores = Set(part(0), part(2), part(3))
    val act = begun(stores)
    for ((store, at) <- stores.toSeq.zipWithIndex)
      assert(write(act, store, 900L + at) == Ack.Accepted)
    act.settle("act", Epochs)
    act.commit("act", Epochs, "v1\n{}")
    val found = archive.cuts.last().get
    assert(found.head.epoch == Epochs && found.head.paged.pages.isEmpty)
    assert(found.head.paged.window.map(_.epoch).distinct == Seq(Epochs))
    assert(found.whole.stores.map(_.store).toSet == stores)
    assert(found.whole.stores.forall(_.frames.map(_._1) == Seq(FrameKind.Base)))
    assert(found.of(part(1)).isEmpty && found.of(part(3)).isDefined)
    // A query goes on, and pages come again.
    act.endRun("act")
    val next = atOnce()
    for (e <- Epochs + 1 to Epochs + 10) {
      for ((store, at) <- stores.toSeq.zipWithIndex) {
        assert(next.open("r2", e * 10 + at, store, e).isRight)
        assert(submit(next, "r2", frame(store, e + 1, e * 10 + at)) == Ack.Accepted)
      }
      next.commit("r2", e, "v1\n{}")
    }
    val last = archive.cuts.last().get
    assert(last.head.paged.pages.nonEmpty && last.whole.stores.map(_.store).toSet == stores)
    assert(archive.cuts.epochs().flatMap(archive.cuts.read(_)).forall(_.stores.nonEmpty))
  }

  test("what is settled can be asked for before the cut, and nothing is before that") {
    val act = begun(Set(part(0), part(2)))
    for ((store, at) <- Seq(part(0), part(2)).zipWithIndex) write(act, store, 900L + at)
    def told(store: StoreId) = act.chain("act", store, Epochs + 1).fold(_ => None, identity)
    assert(told(part(2)).isEmpty)
    act.settle("act", Epochs)
    val (kind, version, place) = told(part(2)).get.frames.head
    assert(kind == FrameKind.Base && version.number == Epochs + 1)
    assert(
      archive.segments.framesIn(place.segment).map(_.name.store).toSet == Set(part(0), part(2))
    )
    assert(told(part(1)).isEmpty && archive.cuts.epochs().last == Epochs - 1)
  }

  test("it is not committed while one of its stores lacks") {
    val act = begun(Set(part(0), part(2)))
    write(act, part(0), 900L)
    for (asked <- Seq(() => act.settle("act", Epochs), () => act.commit("act", Epochs, "v1\n{}"))) {
      val error = errorOf(asked())
      assert(error.getErrorId == "CLEANCUT_EPOCH_INCOMPLETE")
      assert(error.getMessage.contains(part(2).toString))
    }
    assert(archive.cuts.epochs().last == Epochs - 1)
  }

  test("who has run the query is fenced, and so is an act that another run has followed") {
    val query = driver()
    for (e <- 0L until Epochs) epoch(query, "r1", e)
    val act = driver()
    act.begin("act")
    act.replace("act", Epochs, Set(part(0)))
    assert(errorOf(query.checkOwner("r1")).getErrorId == "CLEANCUT_FENCED")
    write(act, part(0), 900L)
    driver().begin("r2")
    assert(errorOf(act.commit("act", Epochs, "v1\n{}")).getErrorId == "CLEANCUT_FENCED")
    assert(archive.cuts.epochs().last == Epochs - 1)
  }
}
