package io.cleancut.protocol

import org.scalatest.funsuite.AnyFunSuite

class BasePlanSuite extends AnyFunSuite {

  test("a base is due by the bytes of the deltas or by their number") {
    for (
      (name, position, isDue) <- Seq(
        ("too few deltas, whatever their bytes", at(9, deltaBytes = 1000, baseBytes = 1), false),
        ("enough deltas of a quarter of the base", at(10, deltaBytes = 25, baseBytes = 100), true),
        ("enough deltas, but small ones", at(10, deltaBytes = 24, baseBytes = 100), false),
        ("four times as many small deltas", at(40, deltaBytes = 1, baseBytes = 100), true),
        ("no base yet", at(10, deltaBytes = 0, baseBytes = 0), true),
        (
          "no deltas required, and none present",
          at(0, 0, baseBytes = 9).copy(minDeltas = 0),
          false
        ),
        ("foreign rows and a small delta", withForeignRows(deltas = 1), true),
        ("foreign rows and no delta", withForeignRows(deltas = 0), false)
      )
    ) assert(BasePlan.isDue(position) == isDue, name)
  }

  private def withForeignRows(deltas: Long) =
    at(deltas, deltaBytes = deltas, baseBytes = 100).copy(hasForeignRows = true)

  private def at(deltas: Long, deltaBytes: Long, baseBytes: Long) =
    BasePlan.Position(latest = 100 + deltas, base = 100, deltaBytes, baseBytes, minDeltas = 10)
}
