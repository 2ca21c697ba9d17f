package io.cleancut.coordinator

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.StoreId
import io.cleancut.coordinator.driver.{BaseHomes, Placements, Standbys}
import io.cleancut.cutstore.usage.Place

class StandbysSuite extends AnyFunSuite {
  private val tasks = mutable.Queue.empty[Runnable]
  private val store = StoreId(0L, 0, "default")

  private def placements(executors: Int): Placements = {
    val homes = new BaseHomes
    (0 until executors).foreach(n => homes.follows(Place(n.toString, s"host$n")))
    homes.opened(store, Place("0", "host0"))
    homes.placements
  }

  test("polls do not compute, and start one computation at a time") {
    val standbys = new Standbys(tasks.enqueue(_))
    val two = placements(2)
    assert((1 to 5).forall(_ => standbys.of("1", two, replicas = 1).isEmpty))
    assert(tasks.size == 1)
    tasks.dequeue().run()
    assert(standbys.of("1", two, replicas = 1) == Set(store))
    assert(tasks.isEmpty, "nothing has changed")
    val one = placements(1)
    assert(
      standbys.of("1", one, replicas = 1) == Set(store),
      "the last result until the new one is computed"
    )
    tasks.dequeue().run()
    assert(standbys.of("1", one, replicas = 1).isEmpty && tasks.isEmpty)
  }

  test("a computation that fails is repeated") {
    var failures = 0
    val standbys = new Standbys(task => if (failures > 0) task.run() else tasks.enqueue(task))
    standbys.of("1", Placements(Map.empty, null), replicas = 1)
    intercept[NullPointerException](tasks.dequeue().run())
    failures += 1
    val two = placements(2)
    standbys.of("1", two, replicas = 1)
    assert(standbys.of("1", two, replicas = 1) == Set(store))
  }
}
