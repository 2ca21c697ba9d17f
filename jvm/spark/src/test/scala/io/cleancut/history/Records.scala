package io.cleancut.history

import io.cleancut.base.StoreId
import io.cleancut.format.cut.{EpochCosts, KindCosts, RunId, ShareCosts, StoreTime}

/** Records of epochs for tests. */
object Records {
  private val Nothing = ShareCosts(Map.empty, 0, 0, 0, 0, 0, 0)

  def share(sent: Long = 0, sentMs: Long = 0, waitedMs: Long = 0, retries: Long = 0): ShareCosts =
    Nothing.copy(
      requests = if (retries == 0) Map.empty else Map("put" -> KindCosts(9, retries, 0)),
      bytesSent = sent,
      sentMs = sentMs,
      waitedMs = waitedMs
    )

  /** An epoch of one operator, with the duration of each partition. */
  def record(
      epoch: Long,
      durationMs: Long = 100,
      ms: Seq[Long] = Seq(50, 50, 50, 50),
      rows: Seq[Long] = Seq(10, 10, 10, 10),
      gateMs: Long = 5,
      executors: ShareCosts = share(),
      health: EpochHealth = EpochHealth.Calm,
      run: String = "run",
      generation: Long = 1,
      phases: Map[String, Long] = Map.empty,
      inFlight: Long = 0
  ): EpochRecord = EpochRecord(
    "s3://bucket/query",
    Some("orders"),
    RunId(Some("query"), run, generation),
    epoch,
    writtenMs = 1_000_000 + epoch * 1000,
    stores = ms.size,
    Map("epochMs" -> durationMs, "gateMs" -> gateMs, "ownerMs" -> gateMs) ++ phases,
    Some(
      EpochCosts(
        share(),
        executors,
        2,
        Seq(StoreTime(StoreId(0, ms.indexOf(ms.max), "default"), "7", "host-7", ms.max))
      )
    ),
    rowsInFlight = inFlight,
    bytesInFlight = 0,
    alignmentMs = None,
    barrierToCaptureMs = None,
    aligned = Map.empty,
    rowsBeyondBound = Map.empty,
    Seq(OperatorRecord(0, ms.size, 1, ms, ms.map(_ => 100L), rows, ms.map(_ => 0L))),
    health,
    slow = None
  )
}
