package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.format.Proof
import io.cleancut.format.cut.{Cut, EpochCosts, KindCosts, RunId, ShareCosts}
import io.cleancut.history.{EpochRecord, EpochRecordJson, StorePrices}

/** The costs per day and the restore tests that pages show. */
class DailyPaceSuite extends AnyFunSuite {
  private val s3 = "s3://bucket/query"

  // Nine requests of class A each, an epoch a second.
  private val used = ShareCosts(Map("put" -> KindCosts(9, 0, 0)), 0, 0, 0, 0, 0, 0)
  private val unused = ShareCosts(Map.empty, 0, 0, 0, 0, 0, 0)

  private def record(epoch: Long): EpochRecord = {
    val cut = Cut(epoch, RunId(None, "run", 1), "token", epoch * 1000, "", "", Nil, Map.empty)
    EpochRecord.of(s3, cut.copy(costs = Some(EpochCosts(unused, used, 2, Nil))))
  }

  private def entry(record: EpochRecord) =
    EpochEntry.of(s3, record, EpochRecordJson.write(record))

  private def epochs(storedBytes: Option[Long]) =
    (0L until 10L).map(epoch => entry(record(epoch).copy(storedBytes = storedBytes)))

  test("the costs of a day are those of requests and of storage") {
    val gigabytes = 3000L * 1000 * 1000 * 1000
    val pace = DailyPace.of(s3, epochs(Some(gigabytes))).get
    assert(pace.requests == 9 * 86400)
    assert(pace.requestDollars.exists(dollars => Math.abs(dollars - 9 * 86400 * 5.0 / 1e6) < 1e-9))
    assert(pace.storageDollars.exists(dollars => Math.abs(dollars - 3000 * 0.023 / 30) < 1e-9))
    assert(pace.dollars == "$6.19")
    val wanted =
      "777,600 requests per day, $3.89 for these at the prices of S3 Standard, and $2.30 " +
        "for storage"
    assert(pace.explained == wanted)
  }

  test("unknown storage costs are reported as unknown") {
    val pace = DailyPace.of(s3, epochs(None)).get
    assert(pace.storageDollars.isEmpty && pace.dollars == "$3.89 without storage")
    assert(pace.explained.endsWith("without storage"))
  }

  test("other stores have no prices, and one epoch has no rate") {
    val pace = DailyPace.of("file:/query", epochs(Some(1L << 40))).get
    assert(pace.dollars == "–" && pace.storageDollars.isEmpty)
    assert(pace.explained == "777,600 requests per day")
    assert(DailyPace.of(s3, epochs(None).take(1)).isEmpty)
    assert(StorePrices.storedADay(0) == 0.0)
  }

  test("an entry has the proof of its record, if there is one") {
    val proof = Proof(7, 99)
    assert(entry(record(9).copy(proven = Some(proof))).proven.contains(proof))
    assert(entry(record(9)).proven.isEmpty)
  }
}
