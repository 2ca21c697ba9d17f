package io.cleancut.conf

import io.cleancut.error.Errors

/**
 * The validated configuration of one state store provider; see [[Keys]] for the meaning of the
 * values.
 *
 * @param keepsReplaced
 *   whether deltas have all changes of a key, not only the last
 * @param lazyRestore
 *   whether a store opens before its base has been read
 * @param mergedAggregation
 *   whether streaming aggregations merge the state of a group where they read it
 * @param localCacheBytes
 *   size of the snapshot cache on the local disk
 * @param standbyReplicas
 *   number of executors that keep a copy of each base, in addition to the executor that uses it
 * @param checksCompatibility
 *   whether the start of a query compares it with its checkpoint
 * @param requiresProvider
 *   whether queries with state in another provider are refused
 * @param cuts
 *   setting for checkpoint locations on a Hadoop file system; None keeps the mode of the checkpoint
 * @param pipelinedCuts
 *   whether an epoch may begin while the cut of the epoch before is being written; None if the
 *   checkpoint is in an object store
 * @param cutRetentionMs
 *   age up to which cuts are retained, in addition to those of the last epochs
 * @param historyRetentionMs
 *   age up to which the history of epochs is retained
 * @param uiEpochs
 *   number of epochs in Spark's UI
 * @param statePartitions
 *   number of state partitions of started queries; None keeps the number
 */
final case class Settings(
    compressionLevel: Int,
    keepsReplaced: Boolean,
    lazyRestore: Boolean,
    mergedAggregation: Boolean,
    acceleratesPython: Boolean,
    localCacheBytes: Long,
    standbyReplicas: Int,
    lockAcquireTimeoutMs: Long,
    maxOffHeapMemory: Long,
    realTimeMode: Boolean,
    checksCompatibility: Boolean,
    requiresProvider: Boolean,
    cuts: Option[Boolean],
    pipelinedCuts: Option[Boolean],
    handoverTimeoutMs: Long,
    channels: ChannelSettings,
    cutRetentionMs: Long,
    historyRetentionMs: Long,
    uiEpochs: Int,
    statePartitions: Option[Int],
    objectStore: ObjectStoreSettings
) {

  /** Whether `cuts` is true, or `mode` requires it. */
  def wantsCuts: Boolean = cuts.contains(true) || channels.mode != CaptureMode.Aligned

  /** The limit in bytes, in a JVM with this maximum heap. */
  def maxOffHeapBytes(maxHeapBytes: Long): Long =
    if (maxOffHeapMemory == KeyType.Auto) maxHeapBytes / 2 else maxOffHeapMemory
}

object Settings {

  val Default: Settings = from(Map.empty)

  /**
   * Reads all keys below [[Keys.Prefix]] and ignores other keys.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CONF_INVALID, which lists every invalid value, every unknown key, and the successor
   *   of every removed key
   */
  def from(confs: Map[String, String]): Settings = from(confs, Keys.removed)

  private[conf] def from(confs: Map[String, String], removed: Seq[RemovedKey]): Settings = {
    val problems = Keys.all.flatMap(_.read(confs).left.toSeq) ++ unknown(confs, removed)
    read(confs) match {
      case Right(settings) if problems.isEmpty => settings
      case _                                   => throw Errors.confInvalid(problems)
    }
  }

  /** Stops at the first problem, because all problems have been collected before. */
  private def read(confs: Map[String, String]): Either[String, Settings] = for {
    compressionLevel <- Keys.CompressionLevel.read(confs)
    changeFeed <- Keys.ChangeFeed.read(confs)
    lazyRestore <- Keys.LazyRestore.read(confs)
    mergedAggregation <- Keys.MergedAggregation.read(confs)
    acceleratesPython <- Keys.AcceleratePython.read(confs)
    localCacheBytes <- Keys.LocalCacheSize.read(confs)
    standbyReplicas <- Keys.StandbyReplicas.read(confs)
    lockAcquireTimeoutMs <- Keys.LockAcquireTimeout.read(confs)
    maxOffHeapMemory <- Keys.MaxOffHeapMemory.read(confs)
    realTimeMode <- Keys.RealTimeMode.read(confs)
    checksCompatibility <- Keys.CheckCompatibility.read(confs)
    cuts <- Keys.Cuts.read(confs)
    pipelinedCuts <- Keys.PipelinedCuts.read(confs)
    handoverTimeoutMs <- Keys.HandoverTimeout.read(confs)
    require <- Keys.RequireProvider.read(confs)
    mode <- Keys.Mode.read(confs)
    alignmentTimeoutMs <- Keys.AlignmentTimeout.read(confs)
    maxEpochMs <- Keys.MaxEpochDuration.read(confs)
    maxInFlightBytes <- Keys.MaxInFlightBytes.read(confs)
    splitsGroups <- Keys.SplitGroups.read(confs)
    cutRetentionMs <- Keys.CutRetention.read(confs)
    historyRetentionMs <- Keys.HistoryRetention.read(confs)
    uiEpochs <- Keys.UiEpochs.read(confs)
    statePartitions <- Keys.StatePartitions.read(confs)
    objectStore <- objectStore(confs)
  } yield Settings(
    compressionLevel,
    keepsReplaced = changeFeed == "all",
    lazyRestore,
    mergedAggregation,
    acceleratesPython,
    localCacheBytes,
    standbyReplicas,
    lockAcquireTimeoutMs,
    maxOffHeapMemory,
    realTimeMode,
    checksCompatibility,
    require.fold(cuts.contains("true") || mode != Keys.Mode.default)(_.toBoolean),
    cuts.map(_.toBoolean),
    pipelinedCuts.map(_.toBoolean),
    handoverTimeoutMs,
    ChannelSettings(
      CaptureMode.named(mode, alignmentTimeoutMs),
      maxEpochMs,
      maxInFlightBytes,
      splitsGroups,
      objectStore.requestTimeoutMs
    ),
    cutRetentionMs,
    historyRetentionMs,
    uiEpochs,
    statePartitions.map(_.toInt),
    objectStore
  )

  private def objectStore(confs: Map[String, String]): Either[String, ObjectStoreSettings] = for {
    dialect <- Keys.S3Dialect.read(confs)
    endpoint <- Keys.S3Endpoint.read(confs)
    pathStyle <- Keys.S3PathStyle.read(confs)
    region <- Keys.S3Region.read(confs)
    requestTimeoutMs <- Keys.RequestTimeout.read(confs)
    encryption <- Keys.S3Encryption.read(confs)
    requesterPays <- Keys.S3RequesterPays.read(confs)
    accessPoint <- Keys.S3AccessPoint.read(confs)
    maxConnections <- Keys.S3MaxConnections.read(confs)
    trustedScheme <- Keys.TrustedScheme.read(confs)
    profile <- Keys.S3Profile.read(confs)
  } yield ObjectStoreSettings(
    dialect,
    endpoint,
    pathStyle.map(_.toBoolean),
    region,
    requestTimeoutMs,
    encryption,
    requesterPays,
    accessPoint,
    maxConnections,
    trustedScheme,
    profile
  )

  private def unknown(confs: Map[String, String], removed: Seq[RemovedKey]): Seq[String] = {
    val known = Keys.all.map(_.name)
    confs.keys.toSeq.sorted
      .filter(name => name.startsWith(Keys.Prefix) && !known.contains(name))
      .map { name =>
        removed
          .find(_.name == name)
          .fold(s"$name is not a key; the nearest is ${nearest(name, known)}.")(_.refusal)
      }
  }

  private def nearest(name: String, known: Seq[String]): String =
    known.minBy(EditDistance.ignoringCase(name, _))
}
