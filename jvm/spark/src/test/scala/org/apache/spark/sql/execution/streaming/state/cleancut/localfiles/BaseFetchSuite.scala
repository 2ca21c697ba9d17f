package org.apache.spark.sql.execution.streaming.state.cleancut.localfiles

import org.scalatest.funsuite.AnyFunSuite

class BaseFetchSuite extends AnyFunSuite {
  import BaseFetch._
  import BaseFetch.Effect._
  import BaseFetch.Event._

  private val table = Seq(
    (Begun, Opened) -> (Coming(1) -> Nil),
    (Coming(1), Opened) -> (Coming(2) -> Nil),
    (Coming(2), Closed) -> (Coming(1) -> Nil),
    (Coming(1), Closed) -> (Left -> Seq(Delete, Stop)),
    (Coming(2), Completed) -> (Arrived(2) -> Seq(Keep)),
    (Arrived(1), Opened) -> (Arrived(2) -> Nil),
    (Arrived(2), Closed) -> (Arrived(1) -> Nil),
    (Arrived(1), Closed) -> (Over -> Seq(Stop)),
    (Left, Completed) -> (Over -> Seq(Delete))
  )

  for (((state, event), expected) <- table)
    test(s"$event of a fetch that is $state") {
      assert(decide(state, event) == expected)
    }

  test("an ended fetch has no further events") {
    for (event <- Seq(Opened, Closed, Completed))
      intercept[IllegalStateException](decide(Over, event))
    intercept[IllegalStateException](decide(Left, Opened))
  }

  test("every order of events ends once, with the file kept or deleted") {
    def run(state: BaseFetch, readers: Int, hasArrived: Boolean, effects: Seq[Effect]): Unit = {
      if (readers == 0) assert(effects.count(_ == Stop) == 1, effects)
      if (readers == 0 && hasArrived) assert(effects.contains(Keep) != effects.contains(Delete))
      if (readers > 0) step(state, Closed, readers - 1, hasArrived, effects)
      if (!hasArrived) step(state, Completed, readers, hasArrived = true, effects)
    }
    def step(
        state: BaseFetch,
        event: Event,
        readers: Int,
        hasArrived: Boolean,
        effects: Seq[Effect]
    ): Unit = {
      val (next, further) = decide(state, event)
      run(next, readers, hasArrived, effects ++ further)
    }
    for (readers <- 1 to 4) run(Coming(readers), readers, hasArrived = false, Nil)
  }
}
