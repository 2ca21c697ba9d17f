package io.cleancut.format

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.error.CleancutException
import io.cleancut.format.cut.{SinkEpochs, StoredSinkEpochs}

class SinkEpochsSuite extends AnyFunSuite {

  private def of(sink: String, epochs: Long*): SinkEpochs =
    epochs.foldLeft(SinkEpochs.Empty)((known, epoch) => known.published(Set(sink), epoch))

  test("successive epochs are one range, and a repeated epoch changes nothing") {
    val sinks = of("a", 0, 1, 2, 2, 5, 6)
    assert(sinks.ranges == Map("a" -> Vector(0L -> 2L, 5L -> 6L)))
    val both = sinks.published(Set("a", "b"), 7)
    assert(both.ranges == Map("a" -> Vector(0L -> 2L, 5L -> 7L), "b" -> Vector(7L -> 7L)))
    assert(both.published(Nil, 8) == both)
  }

  test("the last ranges of a sink, and the sinks that have published last, are recorded") {
    val alternating = of("a", (0L until 200L by 2L): _*).ranges("a")
    assert(alternating.size == SinkEpochs.MaxRanges && alternating.last == (198L -> 198L))
    val many = (0 until 200).foldLeft(SinkEpochs.Empty) { (known, number) =>
      known.published(Set(s"sink $number"), number.toLong)
    }
    assert(many.ranges.size == SinkEpochs.MaxSinks)
    assert(many.ranges.contains("sink 199") && !many.ranges.contains("sink 99"))
  }

  test("epochs that operations have rolled back do not count") {
    val sinks = of("a", 0, 1, 2, 3, 4, 5).published(Set("b"), 5)
    assert(sinks.after(Nil) == sinks)
    // Rolled back from epoch 5 to epoch 3, then by a second operation to epoch 4, or to epoch 1.
    assert(sinks.after(Seq(7L -> 3L)).ranges == Map("a" -> Vector(0L -> 3L)))
    assert(sinks.after(Seq(7L -> 3L, 9L -> 4L)).ranges == Map("a" -> Vector(0L -> 4L)))
    assert(sinks.after(Seq(7L -> 3L, 9L -> 7L)).ranges == Map("a" -> Vector(0L -> 3L)))
    assert(sinks.after(Seq(7L -> 3L, 9L -> 1L)).ranges == Map("a" -> Vector(0L -> 1L)))
    assert(sinks.after(Seq(6L -> 5L)) == sinks)
  }

  test("a record without cuts is read as it was written, and a damaged one is named") {
    val record = StoredSinkEpochs(6, of("größen", 0, 1, 6))
    assert(StoredSinkEpochs.parse("sinks.json", record.toBytes) == record)
    val text = new String(record.toBytes, "UTF-8")
    val damaged = Seq(
      text.dropRight(3),
      text.replace("\"formatVersion\":1", "\"formatVersion\":2"),
      text.replace("[0,1]", "[1,0]")
    )
    damaged.foreach { body =>
      val error = intercept[CleancutException] {
        StoredSinkEpochs.parse("sinks.json", body.getBytes("UTF-8"))
      }
      assert(
        error.getErrorId == "CLEANCUT_CUT_CORRUPTED" && error.getMessage.contains("sinks.json")
      )
    }
  }
}
