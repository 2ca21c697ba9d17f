package io.cleancut.conf

import io.cleancut.error.Errors

/**
 * The checked configuration of one state store provider; see [[Keys]] for what each value does.
 *
 * @param keepsReplaced
 *   whether deltas hold all changes of a key, not only the last
 * @param lazyRestore
 *   whether a store is opened before its base has been read
 * @param mergedAggregation
 *   whether streaming aggregations merge the state of a group where they read it
 * @param localBasesBytes
 *   how much of the local disk the bases take that are kept there
 * @param standbyReplicas
 *   how many executors keep a copy of each base, beside that which works on it
 * @param checksCompatible
 *   whether a query is compared with its checkpoint when it is started
 * @param requiresProvider
 *   whether no query may have its state in another provider
 * @param cuts
 *   for checkpoint locations on a file system of Hadoop; None leaves it to the checkpoint
 * @param retentionMs
 *   how old cuts may be that are kept beside those of the last epochs
 * @param historyMs
 *   how long it is kept what epochs took
 * @param uiEpochs
 *   how many epochs Spark's pages show
 * @param statePartitions
 *   over how many partitions a query that is started is to be spread; None for as it is
 */
final case class Settings(
    compressionLevel: Int,
    keepsReplaced: Boolean,
    lazyRestore: Boolean,
    mergedAggregation: Boolean,
    localBasesBytes: Long,
    standbyReplicas: Int,
    acquireTimeoutMs: Long,
    memoryBound: Long,
    realTimeMode: Boolean,
    checksCompatible: Boolean,
    requiresProvider: Boolean,
    cuts: Option[Boolean],
    channels: ChannelSettings,
    retentionMs: Long,
    historyMs: Long,
    uiEpochs: Int,
    statePartitions: Option[Int],
    objectStore: ObjectStoreSettings
) {

  /** Whether `cuts` is true, or `mode` requires it. */
  def wantsCuts: Boolean = cuts.contains(true) || channels.mode != CaptureMode.Aligned

  /** The bound in bytes, in a JVM that may have a heap of so many. */
  def memoryBoundBytes(maxHeapBytes: Long): Long =
    if (memoryBound == KeyType.Auto) maxHeapBytes / 2 else memoryBound
}

object Settings {

  val Default: Settings = from(Map.empty)

  /**
   * Reads what lies below [[Keys.Prefix]] and leaves all other keys alone.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CONF_INVALID, which names every wrong value and every unknown key at once, and of
   *   keys that are gone those that have come in their place
   */
  def from(confs: Map[String, String]): Settings = from(confs, Keys.removed)

  private[conf] def from(confs: Map[String, String], removed: Seq[RemovedKey]): Settings = {
    val problems = Keys.all.flatMap(_.read(confs).left.toSeq) ++ unknown(confs, removed)
    read(confs) match {
      case Right(settings) if problems.isEmpty => settings
      case _                                   => throw Errors.confInvalid(problems)
    }
  }

  /** Stops at the first problem, which is enough once all have been collected. */
  private def read(confs: Map[String, String]): Either[String, Settings] = for {
    compressionLevel <- Keys.CompressionLevel.read(confs)
    changeFeed <- Keys.ChangeFeed.read(confs)
    lazyRestore <- Keys.LazyRestore.read(confs)
    mergedAggregation <- Keys.MergedAggregation.read(confs)
    localBasesBytes <- Keys.LocalBases.read(confs)
    standbyReplicas <- Keys.StandbyReplicas.read(confs)
    acquireTimeoutMs <- Keys.AcquireTimeout.read(confs)
    memoryBound <- Keys.MemoryBound.read(confs)
    realTimeMode <- Keys.RealTimeMode.read(confs)
    checksCompatible <- Keys.CheckCompatible.read(confs)
    cuts <- Keys.Cuts.read(confs)
    require <- Keys.Require.read(confs)
    mode <- Keys.Mode.read(confs)
    alignmentTimeoutMs <- Keys.AlignmentTimeout.read(confs)
    maxEpochMs <- Keys.MaxEpochDuration.read(confs)
    maxInFlightBytes <- Keys.MaxInFlightBytes.read(confs)
    splitsGroups <- Keys.SplitGroups.read(confs)
    retentionMs <- Keys.Retention.read(confs)
    historyMs <- Keys.History.read(confs)
    uiEpochs <- Keys.UiEpochs.read(confs)
    statePartitions <- Keys.StatePartitions.read(confs)
    objectStore <- objectStore(confs)
  } yield Settings(
    compressionLevel,
    keepsReplaced = changeFeed == "all",
    lazyRestore,
    mergedAggregation,
    localBasesBytes,
    standbyReplicas,
    acquireTimeoutMs,
    memoryBound,
    realTimeMode,
    checksCompatible,
    require.fold(cuts.contains("true") || mode != Keys.Mode.default)(_.toBoolean),
    cuts.map(_.toBoolean),
    ChannelSettings(
      CaptureMode.named(mode, alignmentTimeoutMs),
      maxEpochMs,
      maxInFlightBytes,
      splitsGroups,
      objectStore.requestTimeoutMs
    ),
    retentionMs,
    historyMs,
    uiEpochs,
    statePartitions.map(_.toInt),
    objectStore
  )

  private def objectStore(confs: Map[String, String]): Either[String, ObjectStoreSettings] = for {
    dialect <- Keys.Dialect.read(confs)
    endpoint <- Keys.Endpoint.read(confs)
    pathStyle <- Keys.PathStyle.read(confs)
    region <- Keys.Region.read(confs)
    requestTimeoutMs <- Keys.RequestTimeout.read(confs)
    encryption <- Keys.Encryption.read(confs)
    requesterPays <- Keys.RequesterPays.read(confs)
    accessPoint <- Keys.AccessPoint.read(confs)
    connections <- Keys.Connections.read(confs)
    trustedScheme <- Keys.TrustedScheme.read(confs)
    profile <- Keys.Profile.read(confs)
  } yield ObjectStoreSettings(
    dialect,
    endpoint,
    pathStyle.map(_.toBoolean),
    region,
    requestTimeoutMs,
    encryption,
    requesterPays,
    accessPoint,
    connections,
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
