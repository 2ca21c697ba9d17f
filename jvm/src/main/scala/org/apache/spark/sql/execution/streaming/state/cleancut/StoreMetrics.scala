package org.apache.spark.sql.execution.streaming.state.cleancut

import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.sql.execution.streaming.state.{
  StateStoreCustomMetric,
  StateStoreCustomSizeMetric,
  StateStoreCustomSumMetric,
  StateStoreCustomTimingMetric
}

import io.cleancut.engine.StateLog

/**
 * What a provider counts. Spark sums each metric over the partitions of an operator and shows it in
 * the query's progress. Counts and times cover what happened since the last report; sizes are those
 * of the moment.
 */
final private[cleancut] class StoreMetrics {
  import StoreMetrics._

  val commitNs = new AtomicLong
  val commitBytes = new AtomicLong
  val baseBytes = new AtomicLong
  val basesWritten = new AtomicLong
  val loads = new AtomicLong
  val loadNs = new AtomicLong
  val loadedFrames = new AtomicLong
  val loadedBytes = new AtomicLong
  val memoryHits = new AtomicLong
  val waitNs = new AtomicLong
  private val compactions = new AtomicLong
  private val compactionNs = new AtomicLong

  def compacted(ns: Long): Unit = {
    compactions.incrementAndGet()
    compactionNs.addAndGet(ns)
    ()
  }

  /** Takes what was counted since the last call. */
  def drain(): Map[StateStoreCustomMetric, Long] = Map(
    CommitTime -> drainMs(commitNs),
    CommitBytes -> commitBytes.getAndSet(0L),
    BaseBytes -> baseBytes.getAndSet(0L),
    BasesWritten -> basesWritten.getAndSet(0L),
    Loads -> loads.getAndSet(0L),
    LoadTime -> drainMs(loadNs),
    LoadedFrames -> loadedFrames.getAndSet(0L),
    LoadedBytes -> loadedBytes.getAndSet(0L),
    MemoryHits -> memoryHits.getAndSet(0L),
    WaitTime -> drainMs(waitNs),
    Compactions -> compactions.getAndSet(0L),
    CompactionTime -> drainMs(compactionNs)
  )

  // The remainder stays, so that many short waits add up instead of being cut to 0 one by one.
  private def drainMs(counter: AtomicLong): Long = {
    val ms = counter.get() / NsPerMs
    counter.addAndGet(-ms * NsPerMs)
    ms
  }
}

private[cleancut] object StoreMetrics {
  private val NsPerMs = 1000000L

  val LiveBytes: StateStoreCustomMetric =
    StateStoreCustomSizeMetric("cleancutLiveBytes", "bytes of rows that the state holds")
  val DeadBytes: StateStoreCustomMetric = StateStoreCustomSizeMetric(
    "cleancutDeadBytes",
    "bytes of replaced and removed rows that wait for compaction"
  )

  val MappedBytes: StateStoreCustomMetric =
    StateStoreCustomSizeMetric("cleancutMappedBytes", "bytes of state in memory-mapped files")

  /** Sizes of the moment. */
  def sizes(log: StateLog): Map[StateStoreCustomMetric, Long] =
    Map(
      LiveBytes -> log.liveBytes,
      DeadBytes -> log.deadBytes,
      MappedBytes -> log.mappedBytes
    )

  private val CommitTime =
    StateStoreCustomTimingMetric("cleancutCommitMs", "time to write deltas at commit")
  private val CommitBytes =
    StateStoreCustomSizeMetric("cleancutCommitBytes", "bytes of deltas written")
  private val BaseBytes = StateStoreCustomSizeMetric("cleancutBaseBytes", "bytes of bases written")
  private val BasesWritten = StateStoreCustomSumMetric("cleancutBases", "bases written")
  private val Loads =
    StateStoreCustomSumMetric("cleancutLoads", "versions loaded from the checkpoint")
  private val LoadTime = StateStoreCustomTimingMetric("cleancutLoadMs", "time to load versions")
  private val LoadedFrames = StateStoreCustomSumMetric("cleancutLoadedFrames", "frames loaded")
  private val LoadedBytes =
    StateStoreCustomSizeMetric("cleancutLoadedBytes", "bytes of frames loaded")
  private val MemoryHits =
    StateStoreCustomSumMetric("cleancutMemoryHits", "versions that were still in memory")
  private val WaitTime = StateStoreCustomTimingMetric(
    "cleancutWaitMs",
    "time that tasks waited for a store that another attempt held"
  )
  private val Compactions = StateStoreCustomSumMetric("cleancutCompactions", "logs compacted")
  private val CompactionTime =
    StateStoreCustomTimingMetric("cleancutCompactionMs", "background time spent compacting logs")

  val all: Seq[StateStoreCustomMetric] = Seq(
    LiveBytes,
    DeadBytes,
    MappedBytes,
    CommitTime,
    CommitBytes,
    BaseBytes,
    BasesWritten,
    Loads,
    LoadTime,
    LoadedFrames,
    LoadedBytes,
    MemoryHits,
    WaitTime,
    Compactions,
    CompactionTime
  )
}
