package io.cleancut.coordinator

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{Clock, StoreId}
import io.cleancut.objectstore.ObjectKey
import io.cleancut.protocol.Ack
import io.cleancut.format.{CutLayout, FrameKind}
import io.cleancut.coordinator.SingleRegistrations._

/** An epoch that replaces the state of a query, in a new set of stores. */
class ReplacedEpochSuite extends AnyFunSuite with CutsOnDisk {
  private val Epochs = 12L

  /** A driver that writes pages in the thread of the query, not in the background. */
  private def driverWithoutBackground(): QueryCoordinator = {
    val runtime = CutsRuntime.onThreads(archive.store, Clock.System)
    new QueryCoordinator(archive, new Logs(None, 100), "host", runtime.copy(background = _.run()))
  }

  /** An operation on a query whose cuts have pages. */
  private def begun(stores: Set[StoreId]): QueryCoordinator = {
    val query = driverWithoutBackground()
    for (e <- 0L until Epochs) epoch(query, "r1", e)
    assert(archive.cuts.last().get.head.paged.pages.nonEmpty)
    query.endRun("r1")
    val operation = driver()
    assert(operation.begin("operation").committed == Epochs - 1)
    operation.replace("operation", Epochs, stores)
    operation
  }

  private def write(operation: QueryCoordinator, store: StoreId, attempt: Long): Ack = {
    assert(operation.open("operation", attempt, store, Epochs).isRight)
    submit(operation, "operation", frame(store, Epochs + 1, attempt, FrameKind.Base))
  }

  test("an operation that ends before its cut writes no end marker") {
    val query = driverWithoutBackground()
    for (e <- 0L until Epochs) epoch(query, "r1", e)
    // The query still runs, and may commit its next epoch.
    val operation = driver()
    operation.begin("operation")
    operation.replace("operation", Epochs + 1, Set(part(0)))
    operation.endRun("operation")
    assert(store.head(ObjectKey(CutLayout.endMarker(2))).isEmpty)
    assert(!driver().begin("r2").isAlone)
  }

  test("its cut has the new stores and none of the previous cut, also through its pages") {
    val stores = Set(part(0), part(2), part(3))
    val operation = begun(stores)
    for ((store, at) <- stores.toSeq.zipWithIndex)
      assert(write(operation, store, 900L + at) == Ack.Accepted)
    operation.settle("operation", Epochs)
    operation.commit("operation", Epochs, "v1\n{}")
    val replaced = archive.cuts.last().get
    assert(replaced.head.epoch == Epochs && replaced.head.paged.pages.isEmpty)
    assert(replaced.head.paged.window.map(_.epoch).distinct == Seq(Epochs))
    assert(replaced.whole.stores.map(_.store).toSet == stores)
    assert(replaced.whole.stores.forall(_.frames.map(_._1) == Seq(FrameKind.Base)))
    assert(replaced.of(part(1)).isEmpty && replaced.of(part(3)).isDefined)
    // The query continues, and later cuts have pages.
    operation.endRun("operation")
    val next = driverWithoutBackground()
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

  test("chains are available after settle and before the cut") {
    val operation = begun(Set(part(0), part(2)))
    for ((store, at) <- Seq(part(0), part(2)).zipWithIndex) write(operation, store, 900L + at)
    def chainOf(store: StoreId) =
      operation.chain("operation", store, Epochs + 1).fold(_ => None, identity)
    assert(chainOf(part(2)).isEmpty)
    operation.settle("operation", Epochs)
    val (kind, version, place) = chainOf(part(2)).get.frames.head
    assert(kind == FrameKind.Base && version.number == Epochs + 1)
    assert(
      archive.segments.framesIn(place.segment).map(_.name.store).toSet == Set(part(0), part(2))
    )
    assert(chainOf(part(1)).isEmpty && archive.cuts.epochs().last == Epochs - 1)
  }

  test("frames that the driver holds are durable after settle") {
    val operation = begun(Set(part(0)))
    operation.hold("operation", Epochs)
    write(operation, part(0), 900L)
    assert(segments(Epochs).isEmpty)
    operation.settle("operation", Epochs)
    assert(segments(Epochs).size == 1)
  }

  test("it is not committed without a frame of each store") {
    val operation = begun(Set(part(0), part(2)))
    write(operation, part(0), 900L)
    for (
      request <- Seq(
        () => operation.settle("operation", Epochs),
        () => operation.commit("operation", Epochs, "v1\n{}")
      )
    ) {
      val error = errorOf(request())
      assert(error.getErrorId == "CLEANCUT_EPOCH_INCOMPLETE")
      assert(error.getMessage.contains(part(2).toString))
    }
    assert(archive.cuts.epochs().last == Epochs - 1)
  }

  test("a running query replaces its state, and drops pages of the state before") {
    // Writes the pages of a cut later.
    val waiting = new java.util.ArrayDeque[Runnable]
    val runtime = CutsRuntime.onThreads(archive.store, Clock.System)
    val late = runtime.copy(background = task => waiting.add(task): Unit)
    val query = new QueryCoordinator(archive, new Logs(None, 100), "host", late)
    for (e <- 0L until Epochs) epoch(query, "r1", e)
    assert(!waiting.isEmpty)
    query.replace("r1", Epochs, Set(part(0), part(2)))
    waiting.forEach(_.run())
    for (store <- Seq(part(0), part(2))) {
      assert(query.open("r1", 900L + store.partition, store, Epochs).isRight)
      val base = frame(store, Epochs + 1, 900L + store.partition, FrameKind.Base)
      assert(submit(query, "r1", base) == Ack.Accepted)
    }
    query.settle("r1", Epochs)
    query.commit("r1", Epochs, "v1\n{}")
    val replaced = archive.cuts.last().get
    assert(replaced.head.paged.pages.isEmpty)
    assert(replaced.whole.stores.map(_.store).toSet == Set(part(0), part(2)))
    assert(replaced.head.run.generation == 1L)
  }

  test("a query whose operation has failed continues with its own epoch") {
    val query = driverWithoutBackground()
    for (e <- 0L until Epochs) epoch(query, "r1", e)
    val before = archive.cuts.last().get.whole.stores.map(_.store).toSet
    query.replace("r1", Epochs, Set(part(0), part(2), part(7)))
    query.cancel("r1")
    for (e <- Epochs until 2 * Epochs) epoch(query, "r1", e)
    assert(archive.cuts.epochs().last == 2 * Epochs - 1)
    val last = archive.cuts.last().get
    assert(last.head.paged.pages.nonEmpty)
    assert(last.whole.stores.map(_.store).toSet == before)
    assert(driver().begin("r2").committed == 2 * Epochs - 1)
  }

  test("an operation fences the query, and a later run fences the operation") {
    val query = driver()
    for (e <- 0L until Epochs) epoch(query, "r1", e)
    val operation = driver()
    operation.begin("operation")
    operation.replace("operation", Epochs, Set(part(0)))
    assert(errorOf(query.checkOwner("r1")).getErrorId == "CLEANCUT_FENCED")
    write(operation, part(0), 900L)
    driver().begin("r2")
    assert(errorOf(operation.commit("operation", Epochs, "v1\n{}")).getErrorId == "CLEANCUT_FENCED")
    assert(archive.cuts.epochs().last == Epochs - 1)
  }
}
