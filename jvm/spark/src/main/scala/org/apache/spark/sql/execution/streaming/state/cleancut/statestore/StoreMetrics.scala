package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.sql.execution.streaming.state.{
  StateStoreCustomMetric,
  StateStoreCustomSizeMetric,
  StateStoreCustomSumMetric,
  StateStoreCustomTimingMetric
}

import io.cleancut.engine.StateLog
import io.cleancut.format.frame.{LoadPhase, LoadWatch}

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
  private val loads = new AtomicLong
  private val localBases = new AtomicLong
  private val loadNs = new AtomicLong
  private val findNs = new AtomicLong
  private val findBytes = new AtomicLong
  private val downloadNs = new AtomicLong
  private val decodeNs = new AtomicLong
  private val decodedBytes = new AtomicLong
  private val indexNs = new AtomicLong
  private val indexedBytes = new AtomicLong
  val loadedFrames = new AtomicLong
  val loadedBytes = new AtomicLong
  val memoryHits = new AtomicLong
  val waitNs = new AtomicLong
  private val compactions = new AtomicLong
  private val compactionNs = new AtomicLong
  private val lastBase = new AtomicLong(SparkStoreReports.NoBase)

  /** A base of this version is durable: it was written here, or a version was loaded from it. */
  def baseIsThere(version: Long): Unit = {
    lastBase.accumulateAndGet(version, Math.max(_, _))
    ()
  }

  /** The version of the last base, which Spark shows of those stores that lag most. */
  def newestBase: Long = lastBase.get()

  /** A version was loaded into this log. */
  def loaded(watch: LoadWatch.Running, log: StateLog): Unit = {
    val phases = Seq[(LoadPhase, AtomicLong)](
      LoadPhase.Find -> findNs,
      LoadPhase.Download -> downloadNs,
      LoadPhase.Decode -> decodeNs,
      LoadPhase.Index -> indexNs
    )
    phases.foreach { case (phase, counter) =>
      counter.addAndGet(watch.spent(phase))
      loadNs.addAndGet(watch.spent(phase))
    }
    loads.incrementAndGet()
    localBases.addAndGet(watch.basesFoundHere)
    findBytes.addAndGet(watch.foundBytes)
    decodedBytes.addAndGet(watch.decodedBytes)
    indexedBytes.addAndGet(log.liveBytes + log.deadBytes)
    ()
  }

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
    LocalBases -> localBases.getAndSet(0L),
    LoadTime -> drainMs(loadNs),
    FindTime -> drainMs(findNs),
    FindBytes -> findBytes.getAndSet(0L),
    DownloadTime -> drainMs(downloadNs),
    DecodeTime -> drainMs(decodeNs),
    DecodedBytes -> decodedBytes.getAndSet(0L),
    IndexTime -> drainMs(indexNs),
    IndexedBytes -> indexedBytes.getAndSet(0L),
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
  private val LocalBases = StateStoreCustomSumMetric(
    "cleancutLocalBases",
    "bases of loads from a bucket that lay on the executor's disk"
  )
  private val LoadTime = StateStoreCustomTimingMetric("cleancutLoadMs", "time to load versions")
  private val FindTime = StateStoreCustomTimingMetric(
    "cleancutFindMs",
    "time to find the frames of versions to load"
  )
  private val FindBytes =
    StateStoreCustomSizeMetric("cleancutFindBytes", "bytes of cuts read to find frames")
  private val DownloadTime = StateStoreCustomTimingMetric(
    "cleancutDownloadMs",
    "time that loads waited for bytes of frames"
  )
  private val DecodeTime =
    StateStoreCustomTimingMetric("cleancutDecodeMs", "time to check and decompress loaded frames")
  private val DecodedBytes =
    StateStoreCustomSizeMetric("cleancutDecodedBytes", "bytes of records in loaded frames")
  private val IndexTime =
    StateStoreCustomTimingMetric("cleancutIndexMs", "time to put loaded records in their place")
  private val IndexedBytes =
    StateStoreCustomSizeMetric("cleancutIndexedBytes", "bytes of loaded rows in memory")
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
    LocalBases,
    LoadTime,
    FindTime,
    FindBytes,
    DownloadTime,
    DecodeTime,
    DecodedBytes,
    IndexTime,
    IndexedBytes,
    LoadedFrames,
    LoadedBytes,
    MemoryHits,
    WaitTime,
    Compactions,
    CompactionTime
  )
}
