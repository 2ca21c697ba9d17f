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

  test("it has the sources of the epoch before, and the watermark that this one reached") {
    assert(
      OffsetEntry.withoutInput(before, commit(9000), nowMs = 80000) ==
        """v1
          |{"batchWatermarkMs":9000,"batchTimestampMs":80000,"conf":{"a.b":"3"}}
          |{"logOffset":7}
          |-""".stripMargin
    )
  }

  test("neither the watermark nor the time goes back") {
    assert(OffsetEntry.withoutInput(before, commit(0), nowMs = 60000) == before)
  }

  test("what an act has noted of its epoch is not said of the one after it") {
    val marks = OffsetEntry.ActMarks.map(mark => s"\"$mark\":\"1\"").mkString(",")
    val ofAct = before.replace("\"conf\":{", s"\"conf\":{$marks,")
    assert(ofAct != before)
    assert(OffsetEntry.withoutInput(ofAct, commit(0), nowMs = 0) == before)
  }

  test("sources by name are kept as they are") {
    val named =
      before.replace("v1", "v2").replace("{\"logOffset\":7}\n-", "a:{\"logOffset\":7}\nb:-")
    assert(OffsetEntry.withoutInput(named, commit(0), nowMs = 0) == named)
  }
}
