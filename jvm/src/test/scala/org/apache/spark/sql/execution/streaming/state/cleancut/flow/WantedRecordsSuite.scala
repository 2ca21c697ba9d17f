package org.apache.spark.sql.execution.streaming.state.cleancut.flow

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.GenericRowWithSchema
import org.apache.spark.sql.types._

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.error.CleancutException

class WantedRecordsSuite extends AnyFunSuite {
  import WantedRecords.{Attempt, Sequence}

  /** Of what Spark's connector gives, that which is looked at. */
  private val schema = new StructType()
    .add("value", BinaryType)
    .add("partition", IntegerType)
    .add(
      "headers",
      ArrayType(new StructType().add("key", StringType).add("value", BinaryType))
    )

  private def record(partition: Int, value: String, headers: Option[Seq[(String, String)]]): Row = {
    val told = headers.map(_.map { case (key, text) =>
      Row(key, if (text == null) null else text.getBytes(UTF_8))
    })
    new GenericRowWithSchema(Array(value.getBytes(UTF_8), partition, told.orNull), schema)
  }

  private def sent(partition: Int, attempt: String, sequence: Int): Row =
    record(
      partition,
      s"$attempt-$sequence",
      Some(Seq("other" -> null, Attempt -> attempt, Sequence -> sequence.toString))
    )

  private def wanted(attempt: String, epoch: Long, rows: Long) =
    ChannelTopic.Wanted(attempt, epoch, "q", 0, 99, rows)

  private val both = Map(
    0 -> Seq(wanted("a", 1, 2), wanted("b", 2, 1)),
    1 -> Seq(wanted("a", 1, 1))
  )

  private def read(records: Row*): Seq[(String, Row)] =
    new WantedRecords(records.iterator, both, "/c", "t").toSeq.map { row =>
      new String(row.getAs[Array[Byte]](0), UTF_8) -> row.getStruct(1)
    }

  private def gone(records: Row*): String = {
    val error = intercept[CleancutException](read(records: _*))
    assert(error.errorId == "CLEANCUT_FLOW_ROWS_GONE")
    error.getMessage
  }

  test("records of the attempts that are wanted are taken, with where they are from") {
    val found = read(
      record(0, "none", None),
      sent(0, "a", 0),
      record(0, "others", Some(Seq("x" -> "y"))),
      sent(0, "a", 1),
      sent(0, "left", 0),
      sent(0, "b", 0)
    )
    val tags = Seq(Row("q", 1L, 0, 0L), Row("q", 1L, 0, 1L), Row("q", 2L, 0, 0L))
    assert(found == Seq("a-0", "a-1", "b-0").zip(tags))
    assert(read(sent(1, "a", 0)).size == 1)
  }

  test("what is not there is told, wherever it is missing") {
    assert(gone(sent(0, "a", 1), sent(0, "b", 0)).contains("epoch 1"))
    assert(gone(sent(0, "a", 0), sent(0, "b", 0)).contains("t-0 of Kafka has the first 1 of 2"))
    assert(gone(sent(0, "a", 0), sent(0, "a", 1)).contains("epoch 2"))
    assert(gone(sent(0, "a", 0), sent(0, "a", 0), sent(0, "a", 1)).contains("epoch 1"))
    assert(gone(record(1, "others", None)).contains("t-1"))
  }

  test("a task that finds nothing at all does not take it for nothing to read") {
    assert(gone().contains("the topic t of Kafka has the first 0 of"))
  }
}
