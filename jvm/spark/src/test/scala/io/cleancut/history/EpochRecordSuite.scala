package io.cleancut.history

import java.nio.file.{Files, Path}

import com.fasterxml.jackson.databind.ObjectMapper
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.format.{FrameKind, FramePlace, Proof, StoreCut}
import io.cleancut.format.cut.{Cut, RunId}
import io.cleancut.history.Records._

class EpochRecordSuite extends AnyFunSuite {
  private def cut(partitions: Int, epoch: Long): Cut = {
    val stores = for (partition <- 0 until partitions; name <- Seq("left", "right")) yield {
      val written = if (name == "left") epoch + 1 else epoch
      val place = FramePlace("segment", 0, 100L + partition, 0)
      StoreCut(
        StoreId(4, partition, name),
        Seq((FrameKind.Base, StateVersion(written, "0" * 32), place))
      )
    }
    Cut(epoch, RunId(None, "run", 3), "token", 1L, "", "", stores, Map("epochMs" -> 7L))
  }

  private def recordOf(partitions: Int): EpochRecord = {
    val tasks = (0 until partitions).map(p => (p.toLong, StoreId(4, p, "left")))
    val took = tasks.map { case (attempt, store) =>
      (attempt, store) -> (attempt + 1) * 1_000_000L
    }.toMap
    val rows = tasks.map { case (attempt, _) => attempt -> attempt * 10 }.toMap
    val opened = took.keySet + ((99L, StoreId(4, 0, "left")))
    val epochTasks = new EpochTasks(took, rows, opened)
    EpochRecord.of(
      "location",
      Some("name"),
      cut(partitions, 5),
      Some(2),
      epochTasks,
      Map.empty,
      EpochHealth.Calm
    )
  }

  test("a task has the time of its slowest store, and only the bytes that its epoch has written") {
    val record = recordOf(3)
    val operator = record.operators.head
    assert(operator.perCell == 1 && operator.ms == Seq(1L, 2L, 3L))
    assert(operator.rows == Seq(0L, 10L, 20L))
    assert(operator.bytes == Seq(100L, 101L, 102L), "the frames of the right side are older")
    assert(record.health.repeatedTasks == 1 && record.timings("cutMs") == 2)
  }

  test("the lag of a cut is known if both of its parts are") {
    assert(record(3, gateMs = 5, phases = Map("cutMs" -> 2L)).cutLagMs.contains(7L))
    assert(record(3, gateMs = 5).cutLagMs.isEmpty && recordOf(1).cutLagMs.isEmpty)
  }

  test("many partitions are aggregated into cells without loss") {
    val operator = recordOf(OperatorRecord.MaxCells * 2 + 1).operators.head
    assert(operator.perCell == 3 && operator.ms.size <= OperatorRecord.MaxCells)
    val partitions = OperatorRecord.MaxCells * 2 + 1
    assert(operator.ms.last == partitions)
    assert(operator.rows.sum == (0 until partitions).map(_ * 10L).sum)
  }

  test("a record is read as it was written, with or without its tasks") {
    val judged = record(3, health = EpochHealth(4, Seq("1" -> "gone"), 2))
      .copy(slow = Some(SlowReason(7, SlowEpochs.Commit, "why")), aligned = Map(0L -> "why"))
      .copy(storedBytes = Some(1L << 40), proven = Some(Proof(2, 99)))
      .copy(
        stages = EpochStages(
          Seq(StageRecord(7, "map side", Seq("Scan", "Exchange"), 4, 10, 90)),
          Map(0L -> "stateStoreSave")
        ),
        growth = Some(InFlightGrowth(8, 100, 900))
      )
    assert(EpochRecordJson.read(EpochRecordJson.write(judged)) == Right(judged))
    val short = EpochRecordJson.write(judged, withCells = false)
    val names = judged.stages.copy(stages = Nil)
    assert(EpochRecordJson.read(short) == Right(judged.copy(operators = Nil, stages = names)))
  }

  test("a record of a later version is refused, and fields of a later release are ignored") {
    val text = EpochRecordJson.write(record(3))
    val later = text.replace("\"version\":1", "\"version\":2")
    assert(EpochRecordJson.read(later).left.exists(_.contains("version 2")))
    val more = text.replace("\"version\":1", "\"version\":1,\"further\":[1]")
    assert(EpochRecordJson.read(more) == Right(record(3)))
    assert(EpochRecordJson.read("{").isLeft && EpochRecordJson.read("[]").isLeft)
  }

  test("a slow commit is stored under the name that records have for it") {
    val slow = record(3).copy(slow = Some(SlowReason(90, SlowEpochs.Commit, "its commit")))
    val text = EpochRecordJson.write(slow)
    assert(text.contains("\"kind\":\"gate\"") && !text.contains("\"kind\":\"commit\""))
    assert(EpochRecordJson.read(text) == Right(slow))
  }

  test("a record of the test vectors is read, and written unchanged") {
    val text = Files.readString(Path.of("tests", "vectors", "history", "record.json"))
    val record = EpochRecordJson.read(text).fold(fail(_), identity)
    assert(record.operators.head.rows == Seq(10L, 11L, 12L, 10L, 901L))
    assert(record.operators.head.rowsInFlight.forall(_ == 0L))
    assert(record.slow.exists(_.kind == SlowEpochs.Straggler))
    val mapper = new ObjectMapper
    assert(mapper.readTree(EpochRecordJson.write(record)) == mapper.readTree(text))
  }
}
