package io.cleancut.protocol

import org.scalatest.funsuite.AnyFunSuite

class OffsetEntrySuite extends AnyFunSuite {
  private val before =
    """v1
      |{"batchWatermarkMs":4000,"batchTimestampMs":70000,"conf":{"a.b":"3"}}
      |{"logOffset":7}
      |-""".stripMargin

  private def commit(watermarkMs: Long) =
    s"v1\n{\"nextBatchWatermarkMs\":$watermarkMs,\"stateUniqueIds\":{}}"

  test("an entry without input has the sources of the previous epoch and the new watermark") {
    assert(
      OffsetEntry.withoutInput(before, commit(9000), nowMs = 80000) ==
        """v1
          |{"batchWatermarkMs":9000,"batchTimestampMs":80000,"conf":{"a.b":"3"}}
          |{"logOffset":7}
          |-""".stripMargin
    )
  }

  test("neither the watermark nor the time decreases") {
    assert(OffsetEntry.withoutInput(before, commit(0), nowMs = 60000) == before)
  }

  test("the marks of an operation are not copied to the next entry") {
    val marks = OffsetEntry.ActMarks.map(mark => s"\"$mark\":\"1\"").mkString(",")
    val marked = before.replace("\"conf\":{", s"\"conf\":{$marks,")
    assert(marked != before)
    assert(OffsetEntry.withoutInput(marked, commit(0), nowMs = 0) == before)
  }

  test("named sources are unchanged") {
    val named =
      before.replace("v1", "v2").replace("{\"logOffset\":7}\n-", "a:{\"logOffset\":7}\nb:-")
    assert(OffsetEntry.withoutInput(named, commit(0), nowMs = 0) == named)
  }
}
