package org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators

import org.scalatest.funsuite.AnyFunSuite

class OvertakeWatchSuite extends AnyFunSuite {
  import OvertakeWatch._

  test("ended attempts are forgotten after a delay, running ones are not") {
    val known = Map(1L -> 0L, 2L -> 0L, 3L -> 1L)
    assert(retain(known, Set(1L), RetainNs - 1) == known)
    assert(retain(known, Set(1L), RetainNs) == Map(1L -> 0L, 3L -> 1L))
    assert(retain(known, Set.empty[Long], RetainNs + 1) == Map.empty)
  }
}
