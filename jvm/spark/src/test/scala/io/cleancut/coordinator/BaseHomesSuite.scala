package io.cleancut.coordinator

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.StoreId
import io.cleancut.coordinator.driver.BaseHomes
import io.cleancut.cutstore.usage.Place

class BaseHomesSuite extends AnyFunSuite {
  private val places = (0 until 6).map(i => Place(i.toString, s"host${i / 2}"))
  private val stores = (0 until 600).map(p => StoreId(p / 200L, p % 200, "default"))

  test("no executor needs a copy while each store is where it was opened") {
    val homes = started()
    assert(holders(homes, replicas = 0).values.forall(_.isEmpty))
  }

  test("each store has the configured number of copies, none at its home and all spread evenly") {
    val homes = started()
    for (replicas <- 1 to 4) {
      val copies = holders(homes, replicas).toSeq
      for ((store, at) <- copies) {
        assert(at.size == replicas && !at.contains(home(store)))
        assert(at.exists(_.host != home(store).host))
      }
      val loads = copies.flatMap(_._2).groupBy(identity).map(_._2.size)
      val mean = stores.size * replicas / places.size
      assert(loads.size == places.size && loads.forall(load => load > mean / 2 && load < mean * 2))
    }
  }

  test("stores of a lost executor move to their first copy, and all others stay") {
    for (lost <- places) {
      val homes = started()
      val before = holders(homes, replicas = 1)
      val moved = homes.left(lost.executor)
      assert(moved.keySet == stores.filter(home(_) == lost).toSet)
      for ((store, at) <- moved) {
        assert(before(store) == Set(at))
        // The store is expected there even without a copy.
        assert(homes.expectedAt(at.executor)(store))
      }
      homes.opened(moved.head._1, moved.head._2)
      assert(!homes.expectedAt(moved.head._2.executor)(moved.head._1))
      val stay = stores.filter(store => home(store) != lost && !before(store)(lost))
      val after = holders(homes, replicas = 1)
      assert(stay.forall(store => after(store) == before(store)))
    }
  }

  test("a new run finds its stores where they were, or where a copy was") {
    val homes = started()
    val copies = holders(homes, replicas = 1)
    assert(homes.startRun() == stores.map(store => store -> home(store)).toMap)
    val lost = places(3)
    homes.left(lost.executor)
    homes.follows(Place("9", "elsewhere"))
    val homesNow = homes.startRun()
    assert(stores.filter(home(_) == lost).forall(store => copies(store) == Set(homesNow(store))))
    assert(stores.filter(home(_) != lost).forall(store => homesNow(store) == home(store)))
  }

  test("stores of one task have one home") {
    val homes = new BaseHomes
    places.foreach(homes.follows)
    val join =
      for (name <- Seq("a", "b"); partition <- 0 until 20)
        yield StoreId(0, partition, name)
    join.foreach(homes.opened(_, places.head))
    val moved = homes.left(places.head.executor)
    assert(moved.groupMap(_._1.partition)(_._2).values.forall(_.toSet.size == 1))
  }

  test("without executors no store has a home") {
    val homes = started()
    places.foreach(at => homes.left(at.executor))
    assert(homes.startRun().isEmpty)
    stores.foreach(homes.opened(_, places.head))
    assert(homes.startRun().isEmpty, "that executor keeps nothing")
  }

  private def home(store: StoreId) = places(store.partition % places.size)

  private def started(): BaseHomes = {
    val homes = new BaseHomes
    places.foreach(homes.follows)
    stores.foreach(store => homes.opened(store, home(store)))
    homes
  }

  /** The executors at which each store is expected or copied. */
  private def holders(homes: BaseHomes, replicas: Int): Map[StoreId, Set[Place]] = {
    val standbys = homes.placements.standbys(replicas)
    val held = places.map { at =>
      at -> (homes.expectedAt(at.executor) ++ standbys.getOrElse(at.executor, Set.empty))
    }
    stores.map(store => store -> held.collect { case (at, kept) if kept(store) => at }.toSet).toMap
  }
}
