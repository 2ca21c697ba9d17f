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

/** With what a checkpoint begins that is made for a query, beside the rows that are given. */
private[operations] trait Beginning {

  /** For messages. */
  def act: String

  /** The location of the checkpoint that it goes on from, if it does. */
  def from: Option[String]

  /** The epoch that is made. */
  def epoch: Long

  /** The epoch whose result is gone on from; -1 if there is none. */
  def source: Long

  /** The settings that Spark keeps for the query. */
  def recorded: EpochLogs.Recorded

  /** Those under which it is planned, and its stores are written. */
  def conf: SQLConf

  def offsets(query: PlannedStart): EpochLogs.Offsets

  def commit: EpochLogs.Commit

  /** Has the stores that are carried over stay meanwhile, if there are any. */
  def keeping[A](body: Option[StoresAt] => A): A

  /** Which of them go where. */
  def carried(
      operators: Seq[StoredOperator],
      filled: Set[StateRows],
      refused: String => Nothing
  ): Seq[StateRewrite.Way]

  /** What one has to know before it is done. */
  def notes(operators: Seq[StoredOperator], filled: Set[StateRows]): Seq[String]

  /** Whether a query can begin with it. */
  def check(query: PlannedStart, refused: String => Nothing): Unit

  /** The published epochs that count after it. */
  def sinks: SinkEpochs

  /** Writes whose checkpoint it is, and what its sources have noted. */
  def identify(place: OfflinePlace): Unit
}

/** A query that has not run: it reads its sources from the beginning. */
final private[operations] class Anew(place: OfflinePlace) extends Beginning {
  override val act: String = "bootstrap"
  override val from: Option[String] = None
  override val epoch: Long = 1L
  override val source: Long = -1L
  override def keeping[A](body: Option[StoresAt] => A): A = body(None)

  override val recorded: OffsetSeqMetadata = {
    val own = place.session
    // As a run does, which keeps this number of partitions whatever is set later.
    val partitions = own.sessionState.conf.numShufflePartitions
    own.sessionState.conf.setConfString(SparkCalls.PartitionsKey, partitions.toString)
    OffsetSeqMetadata(batchWatermarkMs = 0L, batchTimestampMs = Clock.System.wallMs(), own.conf)
  }

  override def conf: SQLConf = place.session.sessionState.conf.clone()

  override def offsets(query: PlannedStart): EpochLogs.Offsets =
    EpochLogs.unread(query.sources, query.namesSources, recorded)

  override def commit: EpochLogs.Commit =
    EpochLogs.firstCommit(
      withIds = conf.getConf(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION) >= Anew.WithIds
    )

  override def carried(
      operators: Seq[StoredOperator],
      filled: Set[StateRows],
      refused: String => Nothing
  ): Seq[StateRewrite.Way] = Nil

  override def notes(operators: Seq[StoredOperator], filled: Set[StateRows]): Seq[String] = Nil

  override def check(query: PlannedStart, refused: String => Nothing): Unit = ()

  override val sinks: SinkEpochs = SinkEpochs.Empty

  override def identify(place: OfflinePlace): Unit =
    NewCheckpoint.identify(place, OfflinePlace.newId().toString)
}

private object Anew {
  private val WithIds = 2
}

/**
 * A query that has run in another form: it goes on with the source offsets, the watermark and the
 * settings that it had, and with the state of what is as it was.
 */
final private[operations] class Migrated(
    old: OfflinePlace,
    stored: StoredQuery,
    place: OfflinePlace,
    isOtherQuery: Boolean
) extends Beginning {
  override val act: String = Migrated.Act
  override val from: Option[String] = Some(old.location)

  // After all that sinks may have seen of the query.
  override val epoch: Long = stored.begun + 2
  override val source: Long = stored.epoch
  override val recorded: EpochLogs.Recorded = stored.recorded
  override def conf: SQLConf = stored.confOf(place.session)
  override def offsets(query: PlannedStart): EpochLogs.Offsets = stored.offsets
  override def commit: EpochLogs.Commit = stored.commit

  override def keeping[A](body: Option[StoresAt] => A): A = old.pinned(stored.epoch) { savepoint =>
    body(Some(old.stores(stored.confOf(old.session), savepoint)))
  }

  override def carried(
      operators: Seq[StoredOperator],
      filled: Set[StateRows],
      refused: String => Nothing
  ): Seq[StateRewrite.Way] = for {
    of <- operators
    before <- stored.operators.filter(old => old.id == of.id && old.name == of.name)
    left = leftOf(before, of, filled, refused)
    task <- StateRewrite.tasksOf(stored).filter(_.operator.id == of.id)
  } yield StateRewrite.Way(task, of, left)

  /** The families of an operator that are not carried over. */
  private def leftOf(
      before: StoredOperator,
      now: StoredOperator,
      filled: Set[StateRows],
      refused: String => Nothing
  ): Set[StateRows] = {
    val own = now.families.toMap
    val left = before.families.filterNot { case (rows, family) =>
      own.get(rows).exists { now =>
        val isGiven = filled(rows)
        if (!isGiven && !isAlike(family, now)) refused(difference(rows, family, now))
        !isGiven
      }
    }
    left.map(_._1).toSet
  }

  override def notes(operators: Seq[StoredOperator], filled: Set[StateRows]): Seq[String] = {
    val before = stored.operators.map(of => of.id -> of).toMap
    val now = operators.map(of => of.id -> of).toMap
    val gone = stored.operators.filterNot(of => now.get(of.id).exists(_.name == of.name))
    val fresh = operators.filterNot(of => before.get(of.id).exists(_.name == of.name))
    gone.map(of => s"The state of operator ${of.id} (${of.name}) is not carried over.") ++
      fresh
        .filterNot(of => filled.exists(_.operator == of.id))
        .map(of => s"Operator ${of.id} (${of.name}) begins without state.")
  }

  override def check(query: PlannedStart, refused: String => Nothing): Unit = {
    SourceChanges
      .between(stored.offsets, query)
      .find(_.kind == StartFinding.Refused)
      .foreach(finding => refused(finding.what))
    stored.checkInFlight(old, refused)(_ => Some("whose columns may be others now"))
    if (!old.isWithCuts) OfflineOperation.checkStopped(old, refused)
  }

  override def sinks: SinkEpochs =
    if (isOtherQuery) SinkEpochs.Empty else CarriedRecords.of(old, stored)

  override def identify(place: OfflinePlace): Unit = {
    NewCheckpoint.identify(place, old, act, isOtherQuery)
    CarriedRecords.continue(place, old, stored, isOtherQuery)
    NewCheckpoint.copySources(place, old, stored.offsets)
  }

  private def isAlike(before: StoredFamily, now: StoredFamily): Boolean =
    before.holdsLists == now.holdsLists && before.differences(now).isEmpty

  private def difference(place: StateRows, before: StoredFamily, now: StoredFamily): String = {
    def ddl(of: StoredFamily) = s"${of.schema.keySchema.toDDL} -> ${of.schema.valueSchema.toDDL}"
    s"the rows of $place have to be given: they are ${ddl(before)}, and are to be ${ddl(now)}"
  }
}

private[operations] object Migrated {
  val Act = "migrate"
}
