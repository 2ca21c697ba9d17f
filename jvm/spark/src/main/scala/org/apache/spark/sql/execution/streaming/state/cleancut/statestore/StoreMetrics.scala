package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable

import org.apache.spark.sql.execution.streaming.state.{
  StateStoreCustomMetric,
  StateStoreCustomSizeMetric,
  StateStoreCustomSumMetric,
  StateStoreCustomTimingMetric
}

import io.cleancut.engine.StateLog
import io.cleancut.format.frame.{LoadPhase, LoadWatch}

/**
 * Counters of a provider. Spark sums each metric over the partitions of an operator and shows it in
 * the query's progress. Counts and times cover the time since the last report; sizes are current.
 */
final private[cleancut] class StoreMetrics {
  import StoreMetrics._

  private val counters = mutable.ArrayBuffer.empty[Counter]
  val commitNs: AtomicLong = counter(CommitTime)
  val commitBytes: AtomicLong = counter(CommitBytes)
  val baseBytes: AtomicLong = counter(BaseBytes)
  val basesWritten: AtomicLong = counter(BasesWritten)
  private val loads = counter(Loads)
  private val localCacheHits = counter(LocalCacheHits)
  private val loadNs = counter(LoadTime)
  private val findNs = counter(FindTime)
  private val findBytes = counter(FindBytes)
  private val downloadNs = counter(DownloadTime)
  private val decodeNs = counter(DecodeTime)
  private val decodedBytes = counter(DecodedBytes)
  private val indexNs = counter(IndexTime)
  private val indexedBytes = counter(IndexedBytes)
  val loadedFrames: AtomicLong = counter(LoadedFrames)
  val loadedBytes: AtomicLong = counter(LoadedBytes)
  val memoryHits: AtomicLong = counter(MemoryHits)
  val waitNs: AtomicLong = counter(WaitTime)
  private val compactions = counter(Compactions)
  private val compactionNs = counter(CompactionTime)
  private val lastBase = new AtomicLong(SparkStoreReports.NoBase)

  /** A base of this version is durable: it was written here, or a version was loaded from it. */
  def baseIsThere(version: Long): Unit = {
    lastBase.accumulateAndGet(version, Math.max(_, _))
    ()
  }

  /** The version of the last base, which Spark shows for the stores that lag most. */
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
    localCacheHits.addAndGet(watch.basesFoundHere)
    findBytes.addAndGet(watch.cutBytes)
    decodedBytes.addAndGet(watch.decodedBytes)
    indexedBytes.addAndGet(log.liveBytes + log.deadBytes)
    ()
  }

  def compacted(ns: Long): Unit = {
    compactions.incrementAndGet()
    compactionNs.addAndGet(ns)
    ()
  }

  /** Returns and resets the counts since the last call. */
  def drain(): Map[StateStoreCustomMetric, Long] =
    counters.iterator.map(each => each.metric -> each.drain()).toMap

  private def counter(metric: StateStoreCustomMetric): AtomicLong = {
    val added = new Counter(metric)
    counters += added
    added
  }
}

private[cleancut] object StoreMetrics {
  private val NsPerMs = 1000000L

  /** A count since the last report; times are counted in nanoseconds. */
  final private class Counter(val metric: StateStoreCustomMetric) extends AtomicLong {
    def drain(): Long = metric match {
      case _: StateStoreCustomTimingMetric =>
        // The remainder stays, otherwise many short waits would count as 0.
        val ms = get() / NsPerMs
        addAndGet(-ms * NsPerMs)
        ms
      case _ => getAndSet(0L)
    }
  }

  val LiveBytes: StateStoreCustomMetric =
    StateStoreCustomSizeMetric("cleancutLiveBytes", "bytes of live rows in the state")
  val DeadBytes: StateStoreCustomMetric = StateStoreCustomSizeMetric(
    "cleancutDeadBytes",
    "bytes of replaced and removed rows before compaction"
  )

  val MappedBytes: StateStoreCustomMetric =
    StateStoreCustomSizeMetric("cleancutMappedBytes", "bytes of state in memory-mapped files")

  /** Current sizes. */
  def sizes(log: StateLog): Map[StateStoreCustomMetric, Long] =
    Map(
      LiveBytes -> log.liveBytes,
      DeadBytes -> log.deadBytes,
      MappedBytes -> log.mappedBytes
    )

  private val CommitTime =
    StateStoreCustomTimingMetric("cleancutCommitMs", "time to write changelogs at commit")
  private val CommitBytes =
    StateStoreCustomSizeMetric("cleancutCommitBytes", "bytes of changelogs written")
  private val BaseBytes =
    StateStoreCustomSizeMetric("cleancutSnapshotBytes", "bytes of snapshots written")
  private val BasesWritten = StateStoreCustomSumMetric("cleancutSnapshots", "snapshots written")
  private val Loads =
    StateStoreCustomSumMetric("cleancutLoads", "versions loaded from the checkpoint")
  private val LocalCacheHits = StateStoreCustomSumMetric(
    "cleancutLocalCacheHits",
    "loads from a bucket whose snapshot was in the local cache"
  )
  private val LoadTime = StateStoreCustomTimingMetric("cleancutLoadMs", "time to load versions")
  private val FindTime = StateStoreCustomTimingMetric(
    "cleancutFindMs",
    "time to find the frames of versions to load"
  )
  private val FindBytes =
    StateStoreCustomSizeMetric("cleancutFindBytes", "bytes of cuts that were read to find frames")
  private val DownloadTime = StateStoreCustomTimingMetric(
    "cleancutDownloadMs",
    "time that loads waited for bytes of frames"
  )
  private val DecodeTime =
    StateStoreCustomTimingMetric("cleancutDecodeMs", "time to check and decompress loaded frames")
  private val DecodedBytes =
    StateStoreCustomSizeMetric("cleancutDecodedBytes", "bytes of records in loaded frames")
  private val IndexTime =
    StateStoreCustomTimingMetric(
      "cleancutIndexMs",
      "time to insert loaded records into the indexes"
    )
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

  val all: Seq[StateStoreCustomMetric] =
    Seq(LiveBytes, DeadBytes, MappedBytes) ++ (new StoreMetrics).counters.map(_.metric)
}
