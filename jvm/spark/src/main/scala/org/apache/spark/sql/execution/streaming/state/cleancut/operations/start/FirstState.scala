package org.apache.spark.sql.execution.streaming.state.cleancut.operations.start

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.cleancut.operations._
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.rows.{
  EditableRows,
  OfflineEdit
}
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored._

import io.cleancut.error.Errors

/**
 * A checkpoint of a query that has not run in this form: its first epoch has no input, and has the
 * given rows and the rows that are carried over from another checkpoint. The query continues after
 * it.
 *
 * @param rows
 *   rows of each column family, at most once
 * @param isWithCuts
 *   whether cuts commit its epochs
 * @param fileSink
 *   see [[OfflineOperation]]
 */
final private[operations] class FirstState(
    session: SparkSession,
    location: String,
    operation: String,
    query: PlannedStart,
    rows: Seq[OfflineEdit],
    isWithCuts: Boolean,
    fileSink: Option[String],
    beginning: OfflinePlace => CheckpointOrigin
) {
  private val place = OfflinePlace.to(session, location, operation, isWithCuts)
  private val begins = beginning(place)
  private val target = OfflineTarget(place, last = -1L, begins.epoch, isNew = true)

  def plan(): OfflinePlan = {
    check()
    val planned = stored(described)
    planned.checkPartitioning(refused)
    val edited = edits(planned)
    begins.carried(planned.operators, filled(edited), refused)
    planOf(planned, edited)
  }

  /**
   * Creates the checkpoint. If it is killed, it can be run again. Until then a query that is
   * started there stops with an error, and does not start from the beginning, because the epoch has
   * begun and has no state before it.
   */
  def run(): OfflinePlan = {
    check()
    // All refusals come before anything is written.
    val planned = stored(described)
    planned.checkPartitioning(refused)
    val edited = edits(planned)
    edited.foreach { case (rows, df) => rows.checkRows(df, planned, refused) }
    begins.carried(planned.operators, filled(edited), refused)
    begins.withRetainedStores(from => made(from, begin()))
  }

  private def made(from: Option[StoresAt], begun: StoredQuery): OfflinePlan =
    OfflineRun.using(target, begins.operation, OfflinePlace.newId()) { run =>
      run(s"cleancut: ${begins.operation} ${place.location}") {
        run.replace(target, begun, None, place, begins.sinks)
        val to = place.stores(begins.conf)
        val rewrite =
          new StateRewrite(place.session, begun, target, from.getOrElse(to), to, run)
        val changes = edits(begun)
        val edited = changes.map { case (of, df) => StateRewrite.Edited.of(of, df) }
        val written =
          rewrite.fill(edited, begins.carried(begun.operators, filled(changes), refused))
        OfflineEpoch.commit(target, begun, run, begins.operation, Map.empty, written)
        sinkOfFiles.foreach(_.follow(begins.source, begins.epoch))
        planOf(begun, changes).withRows(written)
      }
    }

  private def sinkOfFiles = fileSink.map(new SparkFileSink(place.session, _))

  /** The column families of the given rows. */
  private def filled(edited: Seq[(EditableRows, DataFrame)]): Set[StateRows] =
    edited.flatMap(_._1.places).toSet

  /**
   * Writes the parts that precede the state: an entry of the epoch, the query's ID, and its
   * descriptions.
   */
  private def begin(): StoredQuery = {
    val nothing = stored(Nil)
    OfflineEpoch.revertIncomplete(target, nothing)
    place.files.createCheckpointDirectory()
    // An incomplete operation of another query may have written here.
    place.files.delete(new Path(place.stateRoot))
    OfflineEpoch.announce(target, nothing, begins.operation, Map.empty)
    OfflineEpoch.precede(target, nothing, begins.operation, Map.empty)
    begins.identify(place)
    query.run(place, epoch = 0L, begins.recorded, begins.conf)
    // Spark reads only descriptions whose epochs have an entry.
    NewCheckpoint.redescribe(place, 0L, begins.epoch - 1)
    stored(
      StoredQuery.operators(place.location, begins.epoch, begins.recorded, place.hadoopConf)
    )
  }

  private def check(): Unit = {
    if (!query.isStreaming) refused("the DataFrame is not streaming")
    begins.check(query, refused)
    target.check(stored(Nil).providerClass, begins.from, refused)
    sinkOfFiles.foreach { sink =>
      // Output of another query would become invisible.
      if (begins.from.isEmpty && sink.isWritten) refused(s"${fileSink.mkString} was written to")
      if (begins.from.nonEmpty) sink.problem(begins.source).foreach(refused)
    }
  }

  private def described: Seq[StoredOperator] = {
    val operators =
      try query.operators(session, begins.recorded, begins.conf)
      catch { case NonFatal(e) => refused(s"Spark does not plan the query: ${e.getMessage}") }
    if (operators.isEmpty) refused("the query has no stateful operator")
    operators
  }

  private def edits(begun: StoredQuery): Seq[(EditableRows, DataFrame)] = {
    rows.groupBy(_.target).collectFirst { case (family, all) if all.size > 1 => family }.foreach {
      twice =>
        refused(s"the rows of $twice are given twice")
    }
    rows.map { one =>
      val editable = OfflineEdit
        .rowsOf(begun, one.target, refused)
        .refine(_ => session.sparkContext.emptyRDD, refused)
      editable.check(one.rows, refused)
      editable -> one.rows
    }
  }

  private def stored(operators: Seq[StoredOperator]): StoredQuery = StoredQuery(
    place.location,
    begins.source,
    begins.source,
    begins.source,
    begins.source,
    begins.offsets(query),
    begins.commit,
    operators,
    isHalfDone = false,
    isBack = false,
    cut = None,
    place.access
  )

  private def planOf(begun: StoredQuery, edited: Seq[(EditableRows, DataFrame)]) = OfflinePlan(
    begins.operation,
    begins.from.getOrElse(place.location),
    begins.from.map(_ => place.location),
    begins.epoch,
    begins.source,
    begins.source,
    begun.providerClass,
    begun.providerClass,
    begun.partitions,
    begun.partitions,
    begun.operators.map(one => OfflinePlan.Operator.of(one, one.partitions.size)),
    begins.notes(begun.operators, filled(edited))
  )

  private def refused(reason: String): Nothing =
    throw Errors.operationRefused(begins.operation, begins.from.getOrElse(place.location), reason)
}

object FirstState {

  /**
   * Bootstraps a query that has not run.
   *
   * @param mode
   *   output mode as in Spark's API
   * @param isApplied
   *   whether the operation runs, and is not only planned
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OPERATION_REFUSED, CLEANCUT_REWRITE_MISMATCH
   */
  def bootstrap(
      session: SparkSession,
      location: String,
      query: DataFrame,
      mode: String,
      rows: Seq[OfflineEdit],
      isWithCuts: Boolean,
      fileSink: Option[String],
      isApplied: Boolean
  ): OfflinePlan = done(
    new FirstState(
      session,
      location,
      "bootstrap",
      new PlannedStart(query, mode),
      rows,
      isWithCuts,
      fileSink,
      new NewQueryOrigin(_)
    ),
    isApplied
  )

  /**
   * Creates a checkpoint for a query that continues in another form, in another location.
   *
   * @param from
   *   location in which it has run until now; it stays unchanged
   * @param isWithCuts
   *   None as in the source checkpoint
   * @param isOtherQuery
   *   whether the new checkpoint belongs to a new query
   * @param planned
   *   the plan that is executed; None to plan
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OPERATION_REFUSED, CLEANCUT_PLAN_OUTDATED, CLEANCUT_REWRITE_MISMATCH
   */
  def migrate(
      session: SparkSession,
      from: String,
      into: String,
      query: DataFrame,
      mode: String,
      rows: Seq[OfflineEdit],
      isWithCuts: Option[Boolean],
      isOtherQuery: Boolean,
      fileSink: Option[String],
      planned: Option[PlannedEpochs]
  ): OfflinePlan = {
    val old = OfflinePlace.of(session, from, MigratedOrigin.Act)
    planned.foreach {
      _.checkLast(
        old,
        reason => {
          val command = s"cleancut.migrate('${old.location}', '$into', …)"
          throw Errors.planOutdated(MigratedOrigin.Act, old.location, reason, command)
        }
      )
    }
    val stored = StoredQuery.read(old, MigratedOrigin.Act, OfflineSource.Last, isCopied = true)
    done(
      new FirstState(
        session,
        into,
        MigratedOrigin.Act,
        new PlannedStart(query, mode),
        rows,
        isWithCuts.getOrElse(old.isWithCuts),
        fileSink,
        place => new MigratedOrigin(old, stored, place, isOtherQuery)
      ),
      planned.isDefined
    )
  }

  private def done(state: FirstState, isApplied: Boolean) =
    if (isApplied) state.run() else state.plan()
}
