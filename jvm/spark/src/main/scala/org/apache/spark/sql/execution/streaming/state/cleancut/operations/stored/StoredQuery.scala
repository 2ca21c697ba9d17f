package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

import java.io.FileNotFoundException
import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.internal.config.ConfigEntry
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.v2.state.metadata.StateMetadataPartitionReader
import org.apache.spark.sql.execution.streaming.checkpointing._
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.{
  StateVariableType,
  TransformWithStateOperatorProperties,
  TransformWithStateVariableInfo
}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.TimedKeys
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.util.SerializableConfiguration

import io.cleancut.cutstore.StoredCut
import io.cleancut.error.Errors
import io.cleancut.format.cut.Cut

/**
 * A column family as it was stored.
 *
 * @param holdsLists
 *   whether a key may have several values
 */
final private[cleancut] case class StoredFamily(
    schema: StateStoreColFamilySchema,
    holdsLists: Boolean
) {
  def name: String = schema.colFamilyName
  def isDefault: Boolean = name == StateStore.DEFAULT_COL_FAMILY_NAME

  /**
   * Whether Spark maintains it in addition to the families of a function: timers, and time indexes.
   */
  def isInternal: Boolean = name.startsWith("$")

  /** The variable of a function that it stores or indexes. */
  def variable: String =
    FamilyName.Indexes.find(name.startsWith(_)).fold(name)(name.stripPrefix(_))

  /** Whether keys have a time in addition to their columns. */
  def isTimed: Boolean = schema.keyStateEncoderSpec.exists(TimedKeys.is)

  /**
   * Key and value schemas that differ from those of another family, if Spark refuses the
   * difference.
   */
  def differences(now: StoredFamily): Seq[(String, StructType, StructType)] = Seq(
    ("key", schema.keySchema, now.schema.keySchema),
    ("value", schema.valueSchema, now.schema.valueSchema)
  ).filterNot { case (_, before, now) =>
    DataType.equalsIgnoreNameAndCompatibleNullability(now, before)
  }
}

/** The index of a column family in an operator. */
final private[operations] case class FamilyAt(store: Int, family: Int)

/** Spark's names of the column families that it maintains for variables with a time to live. */
private[operations] object FamilyName {
  val Expiry = "$ttl_"
  val FirstExpiry = "$min_"
  val Count = "$count_"
  val Indexes: Seq[String] = Seq(Expiry, FirstExpiry, Count)

  /** Timers of processing time and of event time. */
  val Timers: Seq[String] = Seq("$procTimers", "$eventTimers")

  /** Suffix of the timer family that is ordered by time. */
  val TimersByTime = "_timestampToKey"
}

/**
 * A store of each partition of an operator.
 *
 * @param schemaFiles
 *   schema files, all of which Spark's readers of Avro rows require; empty if the schema has a
 *   fixed location
 */
final private[cleancut] case class StoredStore(
    name: String,
    families: Seq[StoredFamily],
    schemaFiles: Seq[String]
) {

  /** Spark's rule: a store with column families has one that is not the default family. */
  def hasFamilies: Boolean = families.exists(!_.isDefault)
}

/**
 * A stateful operator of a stored query.
 *
 * @param count
 *   number of partitions of its state
 * @param aggregationFormat
 *   Spark's state format of an aggregation without sessions
 */
final private[cleancut] case class StoredOperator(
    id: Long,
    name: String,
    count: Int,
    stores: Seq[StoredStore],
    joinFormat: Option[Int],
    aggregationFormat: Option[Int],
    variables: Map[String, TransformWithStateVariableInfo]
) {

  /** Whether Spark normalizes floating-point numbers of its keys. */
  def normalizesKeys: Boolean = StoredOperator.Normalizing(name)

  /** Whether the values of its state begin with the grouping columns. */
  def repeatsKeys: Boolean = name == StoredOperator.SessionWindow || aggregationFormat.contains(1)

  def families: Seq[(StateRows, StoredFamily)] =
    for (store <- stores; family <- store.families)
      yield StateRows(id, store.name, family.name) -> family

  def familyAt(at: FamilyAt): StoredFamily = stores(at.store).families(at.family)

  def hasSchemaIds: Boolean = StoredOperator.TransformWithState(name)

  /**
   * Whether its state is partitioned by a hash. The state of a limit, and of an aggregation without
   * keys, is in the first partition, regardless of its description.
   */
  def isSpread: Boolean = name != StoredOperator.Limit &&
    stores.exists(_.families.exists(_.schema.keySchema.nonEmpty))

  /** The partitions that have stores. All of them have stores, even if the state is empty. */
  def partitions: Seq[Int] = partitionsOf(count)

  /** The partitions that would have stores with another number of partitions. */
  def partitionsOf(count: Int): Seq[Int] = 0 until (if (isSpread) count else 1)
}

private[operations] object StoredOperator {

  // Spark's operator names in the description of a query.
  private val Limit = "globalLimit"
  val Join = "symmetricHashJoin"
  val Aggregation = "stateStoreSave"
  val SessionWindow = "sessionWindowStateStoreSaveExec"

  private val Duplicates = Set("dedupe", "dedupeWithinWatermark")

  /** Other operators do not change the keys of their rows. */
  private val Normalizing = Set(Aggregation, SessionWindow, Join) ++
    Duplicates.filter(_ => DuplicateKeys.AreNormalized)

  val TransformWithState: Set[String] = Set(
    "transformWithStateExec",
    "transformWithStateInPandasExec",
    "transformWithStateInPySparkExec"
  )

  /** Operators that store state under the grouping columns. */
  val ByGroup: Set[String] =
    Duplicates ++ Set(Aggregation, "flatMapGroupsWithState", "applyInPandasWithState")
}

/**
 * The stored parts of a stopped query: the end of one of its epochs, the last one or an earlier
 * one, and its state then.
 *
 * @param location
 *   location as Spark resolves it
 * @param epoch
 *   the committed epoch whose state this is
 * @param last
 *   last committed epoch
 * @param begun
 *   last epoch that the query has planned: `last` or the next one
 * @param planned
 *   last epoch that the query or an operation has planned
 * @param isHalfDone
 *   whether a killed operation has begun the epoch after it; its state is unused
 * @param isBack
 *   whether the query is rolled back to `epoch`, which discards later epochs
 * @param cut
 *   cut of `epoch`, if there are cuts and it is not the last one, or a rollback uses it
 * @param access
 *   access settings of its location
 */
final private[operations] case class StoredQuery(
    location: String,
    epoch: Long,
    last: Long,
    begun: Long,
    planned: Long,
    offsets: EpochLogs.Offsets,
    commit: EpochLogs.Commit,
    operators: Seq[StoredOperator],
    isHalfDone: Boolean,
    isBack: Boolean,
    cut: Option[StoredCut],
    access: PlaceAccess
) {

  /** The cut of its epoch without chains, if there are cuts. */
  def cutIn(place: OfflinePlace): Option[Cut] =
    cut.map(_.head).orElse(place.cuts.flatMap(_._1.cuts.head(epoch)))

  /**
   * Refuses in-flight rows in the cut of its epoch.
   *
   * @param why
   *   the problem with this number of bytes, if any
   */
  def checkInFlight(place: OfflinePlace, refused: String => Nothing)(
      why: Long => Option[String]
  ): Unit = {
    val cut = cutIn(place)
    val rows = cut.fold(0L)(_.channels.map(_.deferred.rows).sum)
    val bytes = cut.fold(0L)(_.inFlight.flatMap(_.frames).map(_._3.length).sum)
    if (rows > 0) why(bytes).foreach { what =>
      refused(
        s"the cut of epoch $epoch has $rows in-flight rows, $what; run the query unchanged with " +
          "trigger(availableNow=True) first, which processes them"
      )
    }
  }

  /** The settings that Spark records for the query. */
  def recorded: EpochLogs.Recorded = EpochLogs.recorded(offsets).get

  def stateRoot: String = StoredQuery.stateRoot(location)

  /** Number of partitions of state that is partitioned by key. */
  def partitions: Int = StoredQuery.partitionsIn(recorded)

  /**
   * Whether Spark partitions the input of each stateful operator by all columns of its keys. Spark
   * takes an absent value for false, as in checkpoints from before Spark 3.3: the state may then be
   * partitioned by fewer columns.
   */
  def isStrictlyDistributed: Boolean = RecordedConf
    .get(recorded, SQLConf.STATEFUL_OPERATOR_USE_STRICT_DISTRIBUTION)
    .contains("true")

  /** Refuses an operation that moves rows to the partitions of their keys if these are unknown. */
  def checkPartitioning(refused: String => Nothing): Unit =
    if (!isStrictlyDistributed && operators.exists(_.isSpread)) {
      refused(
        s"its offset log records ${SQLConf.STATEFUL_OPERATOR_USE_STRICT_DISTRIBUTION.key}=false; " +
          "its state may be partitioned by fewer columns than its keys have, and Spark does not " +
          "record by which ones; start the query with a new checkpoint instead"
      )
    }

  /** The provider class of the state. */
  def providerClass: String =
    RecordedConf
      .get(recorded, SQLConf.STATE_STORE_PROVIDER_CLASS)
      .getOrElse(SQLConf.STATE_STORE_PROVIDER_CLASS.defaultValueString)

  /** The ID of a store's version, in checkpoints that have version IDs. */
  def uniqueId(operator: Long, partition: Int, store: Int): Option[String] =
    commit.stateUniqueIds.flatMap(_.get(operator)).map(_(partition)(store))

  /** The settings under which the query would continue from its last epoch. */
  def confOf(session: SparkSession): SQLConf = {
    val conf = session.sessionState.conf.clone()
    OffsetSeqMetadata.setSessionConf(recorded, conf)
    val format = if (commit.stateUniqueIds.isDefined) 2 else 1
    conf.setConfString(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key, format.toString)
    conf
  }
}

private[operations] object StoredQuery {

  def stateRoot(location: String): String = new Path(location, "state").toString

  /**
   * Reads a stored query.
   *
   * @param isCopied
   *   whether the checkpoint stays unchanged; with cuts, the query may even run
   * @param isInspection
   *   whether the result is only inspected
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CHECKPOINT_NOT_FOUND, CLEANCUT_OPERATION_REFUSED
   */
  def read(
      place: OfflinePlace,
      operation: String,
      source: OfflineSource,
      isCopied: Boolean,
      isInspection: Boolean = false
  ): StoredQuery = {
    val location = place.location
    def refused(reason: String) = throw Errors.operationRefused(operation, location, reason)
    val logs = place.logs
    // A cut is complete without the epochs after it, and a rollback discards these.
    val isBack = source != OfflineSource.Last
    val ofCut = if (isBack || isInspection) lastCut(place) else None
    val latest =
      logs.offsetLog.getLatest().filter { case (epoch, _) => ofCut.forall(_.number <= epoch) }
    val (latestEntry, offsets) = latest
      .orElse(ofCut.map(epoch => epoch.number -> epoch.offsets))
      .getOrElse(throw Errors.checkpointNotFound(location, "it has no offset log"))
    val (last, commit) = ofCut
      .map(epoch => epoch.number -> epoch.commit)
      .orElse(logs.commitLog.getLatest())
      .getOrElse(refused("it has no committed epoch"))
    val isHalfDone = latestEntry > last && OfflineMarks.isOne(offsets)
    val begun = (latestEntry until last by -1L)
      .find(number => logs.offsetLog.get(number).exists(!OfflineMarks.isOne(_)))
      .getOrElse(last)
    val isLeft = isInspection || isBack || (isCopied && place.isWithCuts)
    if (begun != last && !isLeft) {
      val what =
        if (isHalfDone) "a rollback was interrupted after that; roll back first"
        else "start the query unchanged, let it complete the epoch, and stop it"
      refused(s"epoch $begun has begun and is not committed; $what")
    }
    val ended =
      if (latestEntry == last) offsets
      else
        ofCut
          .fold(logs.offsetLog.get(last))(cut => Some(cut.offsets))
          .getOrElse(refused(s"its offset log has no entry of epoch $last"))
    val atEnd = StoredEpoch(last, ended, commit)
    val isOneOfThem = isCopied || latestEntry != last || latest.isEmpty
    val selected = new StoredEpochs(place, logs, atEnd, isOneOfThem, refused).find(source)
    val recorded = EpochLogs
      .recorded(selected.offsets)
      .getOrElse(refused("its offset log does not contain the query's settings"))
    val described = DescribedEpoch.of(location, selected.number, place.hadoopConf)
    val operators = describedOperators(place, described, recorded, refused)
    // A query without state can also be rolled back and copied.
    val mayHaveNoState = isBack || isCopied || isInspection
    if (operators.isEmpty && !(mayHaveNoState && hasNoState(location, place.hadoopConf)))
      refused("it has no stateful operator, or an early Spark version wrote no descriptions")
    if (!isInspection) StoredParts.check(place, selected, operators, refused)
    for ((archive, _) <- place.cuts; cut <- selected.cut if described != selected.number)
      DescribedEpoch.check(archive, cut, operators, described, refused)
    StoredQuery(
      location,
      selected.number,
      last,
      begun,
      latestEntry,
      selected.offsets,
      selected.commit,
      operators,
      isHalfDone,
      isBack,
      selected.cut,
      place.access
    )
  }

  private def describedOperators(
      place: OfflinePlace,
      described: Long,
      recorded: EpochLogs.Recorded,
      refused: String => Nothing
  ): Seq[StoredOperator] =
    try operators(place.location, described, recorded, place.hadoopConf)
    catch {
      case e: FileNotFoundException =>
        refused(
          s"a file with a schema of its state is missing (${e.getMessage}). Spark does not write " +
            "the schemas of joins of state format 1; restore other files from a copy"
        )
    }

  /** Log entries may have been deleted; the cut contains both. */
  private def lastCut(place: OfflinePlace): Option[StoredEpoch] =
    place.cuts.flatMap(_._1.cuts.last()).map(StoredEpochs.of(place, _))

  /** Each stateful operator leaves files there, even without a description. */
  private def hasNoState(location: String, hadoopConf: Configuration): Boolean = {
    val root = new Path(stateRoot(location))
    !root.getFileSystem(hadoopConf).exists(root)
  }

  def partitionsIn(recorded: EpochLogs.Recorded): Int =
    valueIn(recorded, SQLConf.SHUFFLE_PARTITIONS).toInt

  private def valueIn(recorded: EpochLogs.Recorded, entry: ConfigEntry[_]): String =
    RecordedConf.get(recorded, entry).getOrElse(entry.defaultValueString)

  /** The operators that are described at an epoch, under the settings of the query. */
  def operators(
      location: String,
      epoch: Long,
      recorded: EpochLogs.Recorded,
      hadoopConf: Configuration
  ): Seq[StoredOperator] = {
    val partitions = partitionsIn(recorded)
    val joinFormat = valueIn(recorded, SQLConf.STREAMING_JOIN_STATE_FORMAT_VERSION).toInt
    val aggregationFormat =
      valueIn(recorded, SQLConf.STREAMING_AGGREGATION_STATE_FORMAT_VERSION).toInt
    val reader =
      new StateMetadataPartitionReader(location, new SerializableConfiguration(hadoopConf), epoch)
    reader.allOperatorStateMetadata.toSeq.map { metadata =>
      val info = metadata.operatorInfo
      val variables = variablesOf(metadata)
      val lists = variables.values
        .filter(_.stateVariableType == StateVariableType.ListState)
        .map(_.stateName)
        .toSet
      val stores = storesOf(metadata).map { store =>
        val files = store match {
          case v2: StateStoreMetadataV2 =>
            v2.stateSchemaFilePaths.map(NewCheckpoint.schemaBelow(location, _, hadoopConf))
          case _ => Nil
        }
        val schemas = schemasOf(stateRoot(location), info.operatorId, store, files, hadoopConf)
        val families =
          schemas.map(schema => StoredFamily(schema, holdsLists(info.operatorName, schema, lists)))
        // `transformWithState` describes a default family that its stores do not have.
        val isOwn =
          !StoredOperator.TransformWithState(info.operatorName)
        StoredStore(store.storeName, families.filter(isOwn || !_.isDefault), files)
      }
      val isJoin = info.operatorName == StoredOperator.Join
      StoredOperator(
        info.operatorId,
        info.operatorName,
        partitions,
        stores,
        Option.when(isJoin)(joinFormat),
        Option.when(info.operatorName == StoredOperator.Aggregation)(aggregationFormat),
        variables
      )
    }
  }

  private def storesOf(metadata: OperatorStateMetadata): Seq[StateStoreMetadata] = metadata match {
    case v1: OperatorStateMetadataV1 => v1.stateStoreInfo.toSeq
    case v2: OperatorStateMetadataV2 => v2.stateStoreInfo.toSeq
    case other => throw new IllegalArgumentException(s"operators of version ${other.version}")
  }

  /** The state variables of `transformWithState`. */
  private def variablesOf(
      metadata: OperatorStateMetadata
  ): Map[String, TransformWithStateVariableInfo] = metadata match {
    case v2: OperatorStateMetadataV2
        if StoredOperator.TransformWithState(v2.operatorInfo.operatorName) =>
      TransformWithStateOperatorProperties
        .fromJson(v2.operatorPropertiesJson)
        .stateVariables
        .map(variable => variable.stateName -> variable)
        .toMap
    case _ => Map.empty
  }

  /** Joins of state format 4 store the rows of a key and a time together. */
  private def holdsLists(
      operator: String,
      schema: StateStoreColFamilySchema,
      lists: Set[String]
  ): Boolean = lists(schema.colFamilyName) ||
    (operator == StoredOperator.Join && schema.keyStateEncoderSpec.exists(TimedKeys.is))

  private def schemasOf(
      stateRoot: String,
      operator: Long,
      store: StateStoreMetadata,
      files: Seq[String],
      hadoopConf: Configuration
  ): Seq[StateStoreColFamilySchema] = {
    val id =
      StateStoreId(stateRoot, operator, StateStore.PARTITION_ID_TO_CHECK_SCHEMA, store.storeName)
    val checker = new StateSchemaCompatibilityChecker(
      StateStoreProviderId(id, new UUID(0L, 0L)),
      hadoopConf,
      oldSchemaFilePaths = files.map(new Path(_)).toList
    )
    checker.readSchemaFile().map { schema =>
      // Descriptions of the first form also describe keys.
      val spec = schema.keyStateEncoderSpec.getOrElse(
        if (store.numColsPrefixKey > 0)
          PrefixKeyScanStateEncoderSpec(schema.keySchema, store.numColsPrefixKey)
        else NoPrefixKeyStateEncoderSpec(schema.keySchema)
      )
      schema.copy(keyStateEncoderSpec = Some(spec))
    }
  }
}
