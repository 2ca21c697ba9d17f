package io.cleancut.flow

import java.nio.charset.StandardCharsets.UTF_8

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.error.CleancutException

class SentTopicSuite extends AnyFunSuite {

  /** As tests/unit/test_topic_rows.py has it. */
  private val manifest =
    """{"formatVersion":2,"epoch":7,"attempt":"0123456789abcdef0123456789abcdef","queryId":"q-1",
      |"runId":"r-1","plannedMs":1700,"publishedMs":1800,"rows":5,"files":[],"format":"kafka",
      |"partitionBy":[],"schema":{"type":"struct","fields":[]},"after":null,
      |"topic":{"servers":"broker:9092","name":"orders","ranges":[
      |{"partition":0,"first":12,"last":16,"rows":3,"bytes":90},
      |{"partition":3,"first":4,"last":5,"rows":2,"bytes":61}]}}""".stripMargin

  private def parsed(body: String): SentEpoch =
    SentEpoch.parse(body.getBytes(UTF_8), "/channel/7.json", 7)

  private def refused(id: String, body: String): Unit = {
    val error = intercept[CleancutException](parsed(body))
    assert(error.errorId == id, error.getMessage)
    ()
  }

  test("a manifest of the second version says where the rows lie in a topic") {
    val found = parsed(manifest)
    val ranges = Vector(SentRange(0, 12, 16, 3, 90), SentRange(3, 4, 5, 2, 61))
    assert(found.topic.contains(SentTopic("broker:9092", "orders", ranges)))
    assert((found.rows, found.bytes, found.files) == ((5, 151, Vector.empty)))
  }

  test("a version goes with the place of its rows, and one that comes later is refused") {
    refused(
      "CLEANCUT_FORMAT_UNKNOWN",
      manifest.replace("\"formatVersion\":2", "\"formatVersion\":3")
    )
    refused("CLEANCUT_FLOW_FOREIGN", manifest.replace("\"formatVersion\":2", "\"formatVersion\":1"))
    refused("CLEANCUT_FLOW_FOREIGN", manifest.replace("\"kafka\"", "\"parquet\""))
  }

  test("ranges that cannot be are damage") {
    refused("CLEANCUT_FLOW_DAMAGED", manifest.replace("\"rows\":3", "\"rows\":6"))
    refused("CLEANCUT_FLOW_DAMAGED", manifest.replace("\"rows\":3", "\"rows\":0"))
    refused("CLEANCUT_FLOW_DAMAGED", manifest.replace("\"first\":12,", ""))
    refused("CLEANCUT_FLOW_DAMAGED", manifest.replace("\"topic\":", "\"other\":"))
  }
}
