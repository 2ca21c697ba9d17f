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
 * A checkpoint of a query that has not run in this form: its first epoch took no input, and has the
 * state that is given, and what is carried over from another checkpoint. The query goes on after
 * it.
 *
 * @param rows
 *   at most once for each family
 * @param isWithCuts
 *   whether cuts are to commit its epochs
 * @param fileSink
 *   as of [[OfflineOperation]]
 */
final private[operations] class FirstState(
    session: SparkSession,
    location: String,
    act: String,
    query: PlannedStart,
    rows: Seq[OfflineEdit],
    isWithCuts: Boolean,
    fileSink: Option[String],
    beginning: OfflinePlace => Beginning
) {
  private val place = OfflinePlace.to(session, location, act, isWithCuts)
  private val begins = beginning(place)
  private val target = OfflineTarget(place, last = -1L, begins.epoch, isNew = true)

  def plan(): OfflinePlan = {
    check()
    val of = stored(described)
    of.checkPartitioning(refused)
    val own = edits(of)
    begins.carried(of.operators, filled(own), refused)
    planOf(of, own)
  }

  /**
   * Killed at any moment it can be begun again. Meanwhile a query that is started there stops with
   * an error, and does not begin anew: the epoch has been begun, and there is no state before it.
   */
  def run(): OfflinePlan = {
    check()
    // Before anything is there, whatever there is to refuse.
    val planned = stored(described)
    planned.checkPartitioning(refused)
    val own = edits(planned)
    own.foreach { case (of, df) => of.checkRows(df, planned, refused) }
    begins.carried(planned.operators, filled(own), refused)
    begins.keeping(from => made(from, begin()))
  }

  private def made(from: Option[StoresAt], begun: StoredQuery): OfflinePlan =
    OfflineRun.using(target, begins.act, OfflinePlace.newId()) { run =>
      run(s"cleancut: ${begins.act} ${place.location}") {
        run.replace(target, begun, None, place, begins.sinks)
        val to = place.stores(begins.conf)
        val rewrite =
          new StateRewrite(place.session, begun, target, from.getOrElse(to), to, run)
        val own = edits(begun)
        val edited = own.map { case (of, df) => StateRewrite.Edited.of(of, df) }
        val written =
          rewrite.fill(edited, begins.carried(begun.operators, filled(own), refused))
        OfflineEpoch.commit(target, begun, run, begins.act, Map.empty, written)
        sinkOfFiles.foreach(_.follow(begins.source, begins.epoch))
        planOf(begun, own).done(written)
      }
    }

  private def sinkOfFiles = fileSink.map(new SparkFileSink(place.session, _))

  /** What is stored for rows that are given. */
  private def filled(own: Seq[(EditableRows, DataFrame)]): Set[StateRows] =
    own.flatMap(_._1.places).toSet

  /** What stands before the state: an entry of the epoch, the query's id, and its descriptions. */
  private def begin(): StoredQuery = {
    val nothing = stored(Nil)
    OfflineEpoch.takeBack(target, nothing)
    place.files.createCheckpointDirectory()
    // Another query may have been begun here, and killed.
    place.files.delete(new Path(place.stateRoot))
    OfflineEpoch.announce(target, nothing, begins.act, Map.empty)
    OfflineEpoch.precede(target, nothing, begins.act, Map.empty)
    begins.identify(place)
    query.run(place, epoch = 0L, begins.recorded, begins.conf)
    // Of descriptions Spark counts only those whose epochs have an entry.
    NewCheckpoint.redescribe(place, 0L, begins.epoch - 1)
    stored(
      StoredQuery.operators(place.location, begins.epoch, begins.recorded, place.hadoopConf)
    )
  }

  private def check(): Unit = {
    if (!query.isStreaming) refused("the DataFrame is not a streaming one")
    begins.check(query, refused)
    target.check(stored(Nil).providerClass, begins.from, refused)
    sinkOfFiles.foreach { sink =>
      // What another query has written would not be seen any more.
      if (begins.from.isEmpty && sink.isWritten) refused(s"${fileSink.mkString} was written to")
      if (begins.from.nonEmpty) sink.problem(begins.source).foreach(refused)
    }
  }

  private def described: Seq[StoredOperator] = {
    val found =
      try query.operators(session, begins.recorded, begins.conf)
      catch { case NonFatal(e) => refused(s"Spark does not plan the query: ${e.getMessage}") }
    if (found.isEmpty) refused("the query has no stateful operator")
    found
  }

  private def edits(of: StoredQuery): Seq[(EditableRows, DataFrame)] = {
    rows.groupBy(_.of).collectFirst { case (family, all) if all.size > 1 => family }.foreach { of =>
      refused(s"the rows of $of are given twice")
    }
    rows.map { one =>
      val own = OfflineEdit
        .rowsOf(of, one.of, refused)
        .knowing(_ => session.sparkContext.emptyRDD, refused)
      own.check(one.rows, refused)
      own -> one.rows
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

  private def planOf(of: StoredQuery, own: Seq[(EditableRows, DataFrame)]) = OfflinePlan(
    begins.act,
    begins.from.getOrElse(place.location),
    begins.from.map(_ => place.location),
    begins.epoch,
    begins.source,
    begins.source,
    of.providerClass,
    of.providerClass,
    of.partitions,
    of.partitions,
    of.operators.map(one => OfflinePlan.Operator.of(one, one.partitions.size)),
    begins.notes(of.operators, filled(own))
  )

  private def refused(reason: String): Nothing =
    throw Errors.operationRefused(begins.act, begins.from.getOrElse(place.location), reason)
}

object FirstState {

  /**
   * Of a query that has not run.
   *
   * @param mode
   *   the output mode, in Spark's words
   * @param isApplied
   *   whether it is done, and not only planned
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
      new Anew(_)
    ),
    isApplied
  )

  /**
   * Of a query that goes on in another form, in another place.
   *
   * @param from
   *   where it has run until now; that stays as it is
   * @param isWithCuts
   *   None for as it is there
   * @param isOtherQuery
   *   whether it is to be a query of its own
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
    val old = OfflinePlace.of(session, from, Migrated.Act)
    planned.foreach {
      _.checkLast(
        old,
        reason => {
          val command = s"cleancut.migrate('${old.location}', '$into', …)"
          throw Errors.planOutdated(Migrated.Act, old.location, reason, command)
        }
      )
    }
    val stored = StoredQuery.read(old, Migrated.Act, OfflineSource.Last, isCopied = true)
    done(
      new FirstState(
        session,
        into,
        Migrated.Act,
        new PlannedStart(query, mode),
        rows,
        isWithCuts.getOrElse(old.isWithCuts),
        fileSink,
        place => new Migrated(old, stored, place, isOtherQuery)
      ),
      planned.isDefined
    )
  }

  private def done(of: FirstState, isApplied: Boolean) = if (isApplied) of.run() else of.plan()
}
