package org.apache.spark.sql.execution.streaming.state.cleancut.operations.start

import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.{
  CarriedRecords,
  OfflineOperation,
  StateRewrite
}
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored._
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.SparkCalls
import org.apache.spark.sql.internal.SQLConf

import io.cleancut.base.Clock
import io.cleancut.format.cut.SinkEpochs

/** The start of a checkpoint that is created for a query, in addition to the given rows. */
private[operations] trait CheckpointOrigin {

  /** Name of the operation for messages. */
  def operation: String

  /** The location of the checkpoint that it continues, if any. */
  def from: Option[String]

  /** The epoch that is created. */
  def epoch: Long

  /** The epoch whose state is continued; -1 if there is none. */
  def source: Long

  /** The settings that Spark records for the query. */
  def recorded: EpochLogs.Recorded

  /** The settings under which the query is planned and its stores are written. */
  def conf: SQLConf

  def offsets(query: PlannedStart): EpochLogs.Offsets

  def commit: EpochLogs.Commit

  /** Runs `body` with the stores to carry over, which a savepoint retains; None for a new query. */
  def withRetainedStores[A](body: Option[StoresAt] => A): A

  /** The stores to carry over, with their targets. */
  def carried(
      operators: Seq[StoredOperator],
      filled: Set[StateRows],
      refused: String => Nothing
  ): Seq[StateRewrite.StoreMigration]

  /** Facts that the user must know before the operation runs. */
  def notes(operators: Seq[StoredOperator], filled: Set[StateRows]): Seq[String]

  /** Checks whether a query can start with this origin. */
  def check(query: PlannedStart, refused: String => Nothing): Unit

  /** The published epochs that count after the epoch. */
  def sinks: SinkEpochs

  /** Writes the query ID of the checkpoint and the logs of its sources. */
  def identify(place: OfflinePlace): Unit
}

/** The origin of a query that has not run: it reads its sources from the beginning. */
final private[operations] class NewQueryOrigin(place: OfflinePlace) extends CheckpointOrigin {
  override val operation: String = "bootstrap"
  override val from: Option[String] = None
  override val epoch: Long = 1L
  override val source: Long = -1L
  override def withRetainedStores[A](body: Option[StoresAt] => A): A = body(None)

  override val recorded: OffsetSeqMetadata = {
    val session = place.session
    // A run does the same: it keeps this number of partitions after later changes of the setting.
    val partitions = session.sessionState.conf.numShufflePartitions
    session.sessionState.conf.setConfString(SparkCalls.PartitionsKey, partitions.toString)
    OffsetSeqMetadata(batchWatermarkMs = 0L, batchTimestampMs = Clock.System.wallMs(), session.conf)
  }

  override def conf: SQLConf = place.session.sessionState.conf.clone()

  override def offsets(query: PlannedStart): EpochLogs.Offsets =
    EpochLogs.unread(query.sources, query.namesSources, recorded)

  override def commit: EpochLogs.Commit =
    EpochLogs.firstCommit(
      withIds =
        conf.getConf(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION) >= NewQueryOrigin.WithIds
    )

  override def carried(
      operators: Seq[StoredOperator],
      filled: Set[StateRows],
      refused: String => Nothing
  ): Seq[StateRewrite.StoreMigration] = Nil

  override def notes(operators: Seq[StoredOperator], filled: Set[StateRows]): Seq[String] = Nil

  override def check(query: PlannedStart, refused: String => Nothing): Unit = ()

  override val sinks: SinkEpochs = SinkEpochs.Empty

  override def identify(place: OfflinePlace): Unit =
    NewCheckpoint.identify(place, OfflinePlace.newId().toString)
}

private object NewQueryOrigin {
  private val WithIds = 2
}

/**
 * The origin of a query that has run in another form: it continues with its source offsets,
 * watermark and settings, and with the state of unchanged operators.
 */
final private[operations] class MigratedOrigin(
    old: OfflinePlace,
    stored: StoredQuery,
    place: OfflinePlace,
    isOtherQuery: Boolean
) extends CheckpointOrigin {
  override val operation: String = MigratedOrigin.Act
  override val from: Option[String] = Some(old.location)

  // After all epochs that sinks may have received from the query.
  override val epoch: Long = stored.begun + 2
  override val source: Long = stored.epoch
  override val recorded: EpochLogs.Recorded = stored.recorded
  override def conf: SQLConf = stored.confOf(place.session)
  override def offsets(query: PlannedStart): EpochLogs.Offsets = stored.offsets
  override def commit: EpochLogs.Commit = stored.commit

  override def withRetainedStores[A](body: Option[StoresAt] => A): A =
    old.withSavepoint(stored.epoch) { savepoint =>
      body(Some(old.stores(stored.confOf(old.session), savepoint)))
    }

  override def carried(
      operators: Seq[StoredOperator],
      filled: Set[StateRows],
      refused: String => Nothing
  ): Seq[StateRewrite.StoreMigration] = for {
    operator <- operators
    before <- stored.operators.filter(old => old.id == operator.id && old.name == operator.name)
    left = leftOf(before, operator, filled, refused)
    task <- StateRewrite.tasksOf(stored).filter(_.operator.id == operator.id)
  } yield StateRewrite.StoreMigration(task, operator, left)

  /** The column families of an operator that are not carried over. */
  private def leftOf(
      before: StoredOperator,
      now: StoredOperator,
      filled: Set[StateRows],
      refused: String => Nothing
  ): Set[StateRows] = {
    val currentFamilies = now.families.toMap
    val left = before.families.filterNot { case (rows, family) =>
      currentFamilies.get(rows).exists { now =>
        val isGiven = filled(rows)
        if (!isGiven && !isAlike(family, now)) refused(difference(rows, family, now))
        !isGiven
      }
    }
    left.map(_._1).toSet
  }

  override def notes(operators: Seq[StoredOperator], filled: Set[StateRows]): Seq[String] = {
    val before = stored.operators.map(operator => operator.id -> operator).toMap
    val now = operators.map(operator => operator.id -> operator).toMap
    val gone =
      stored.operators.filterNot(operator => now.get(operator.id).exists(_.name == operator.name))
    val fresh =
      operators.filterNot(operator => before.get(operator.id).exists(_.name == operator.name))
    gone.map(operator =>
      s"The state of operator ${operator.id} (${operator.name}) is not carried over."
    ) ++
      fresh
        .filterNot(operator => filled.exists(_.operator == operator.id))
        .map(operator => s"Operator ${operator.id} (${operator.name}) begins without state.")
  }

  override def check(query: PlannedStart, refused: String => Nothing): Unit = {
    SourceChanges
      .between(stored.offsets, query)
      .find(_.kind == StartFinding.Refused)
      .foreach(finding => refused(finding.what))
    stored.checkInFlight(old, refused)(_ => Some("whose columns may have changed"))
    if (!old.isWithCuts) OfflineOperation.checkStopped(old, refused)
  }

  override def sinks: SinkEpochs =
    if (isOtherQuery) SinkEpochs.Empty else CarriedRecords.of(old, stored)

  override def identify(place: OfflinePlace): Unit = {
    NewCheckpoint.identify(place, old, operation, isOtherQuery)
    CarriedRecords.continue(place, old, stored, isOtherQuery)
    NewCheckpoint.copySources(place, old, stored.offsets)
  }

  private def isAlike(before: StoredFamily, now: StoredFamily): Boolean =
    before.holdsLists == now.holdsLists && before.differences(now).isEmpty

  private def difference(place: StateRows, before: StoredFamily, now: StoredFamily): String = {
    def ddl(family: StoredFamily) =
      s"${family.schema.keySchema.toDDL} -> ${family.schema.valueSchema.toDDL}"
    s"rows are required for $place: its columns were ${ddl(before)}, and are ${ddl(now)} in the " +
      "query"
  }
}

private[operations] object MigratedOrigin {
  val Act = "migrate"
}
