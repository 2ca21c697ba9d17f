package org.apache.spark.sql.execution.streaming.state.cleancut.operations

import org.scalatest.funsuite.AnyFunSuite

/** Recognition of the offsets of Spark's Kafka source. */
class ReplayedInputSuite extends AnyFunSuite {
  private def offsets(json: String) = ReplayedInput.kafkaOffsets(json)

  test("the offsets of a Kafka source are listed by topic and partition") {
    assert(
      offsets("""{"clicks":{"10":7,"2":0},"a.b":{"0":9223372036854775807}}""").contains(
        Seq(("a.b", 0, Long.MaxValue), ("clicks", 2, 0L), ("clicks", 10, 7L))
      )
    )
  }

  test("offsets of other sources are not recognized as Kafka's") {
    Seq(
      """{"logOffset":3}""",
      """{"channel":"/c","epoch":3,"attempt":"a"}""",
      """{"shards":{"shard-1":{"at":5}}}""",
      """{"topic":{"0":"5"}}""",
      """{"topic":{"0":1.5}}""",
      """{"topic":{}}""",
      "{}",
      "[1]",
      "17",
      "none"
    ).foreach(json => assert(offsets(json).isEmpty, json))
  }
}
