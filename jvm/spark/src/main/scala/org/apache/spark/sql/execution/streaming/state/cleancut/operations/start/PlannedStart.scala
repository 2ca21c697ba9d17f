package org.apache.spark.sql.execution.streaming.state.cleancut.operations.start

import java.nio.file.Files

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LocalRelation, LogicalPlan}
import org.apache.spark.sql.catalyst.streaming.{InternalOutputModes, StreamingRelationV2}
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.execution.streaming.runtime.{
  IncrementalExecution,
  StreamingRelation,
  WatermarkPropagator
}
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.{
  EpochLogs,
  OfflinePlace,
  StoredOperator,
  StoredQuery
}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.Utils

/**
 * A query that is not started, planned as Spark plans the first epoch of a run: its sources give no
 * rows, and nobody executes the plan.
 *
 * @param mode
 *   Spark's name of the output mode
 */
final private[operations] class PlannedStart(query: DataFrame, mode: String) {
  private val analyzed = query.asInstanceOf[Dataset[_]].queryExecution.analyzed
  private val outputMode = InternalOutputModes(mode)

  def isStreaming: Boolean = query.isStreaming

  private val names: Seq[Option[String]] =
    analyzed.collect { case PlannedStart.Source(source) => source }.distinct.map(SourceNames.of)

  /** The names of its sources, or their numbers. Spark keeps an offset of each. */
  def sources: Seq[String] =
    names.zipWithIndex.map { case (name, number) => name.getOrElse(number.toString) }

  /** Whether Spark identifies its sources by their names. */
  def namesSources: Boolean = names.exists(_.isDefined)

  def hasWatermark: Boolean = analyzed.exists(_.isInstanceOf[EventTimeWatermark])

  /**
   * What its operators would be described to be in a checkpoint of its own.
   *
   * @throws Throwable
   *   whatever Spark refuses it with
   */
  def operators(
      session: SparkSession,
      recorded: EpochLogs.Recorded,
      conf: SQLConf
  ): Seq[StoredOperator] = PlannedStart.inScratch(session, Seq("0")) { place =>
    run(place, epoch = 0L, recorded, conf)
    StoredQuery.operators(place.location, 0L, recorded, place.hadoopConf)
  }

  /**
   * Plans it, with all that Spark checks then, and writes how its operators are described.
   *
   * @param place
   *   a checkpoint with the descriptions of the epochs before, which gets those of this one
   * @param recorded
   *   the settings that Spark keeps for the query
   * @throws Throwable
   *   whatever Spark refuses it with
   */
  def run(
      place: OfflinePlace,
      epoch: Long,
      recorded: EpochLogs.Recorded,
      conf: SQLConf
  ): Unit = {
    val session = place.session
    val own = session.sessionState.conf
    conf.getAllConfs.foreach { case (key, value) => own.setConfString(key, value) }
    // As for each run of a query.
    own.setConf(SQLConf.ADAPTIVE_EXECUTION_ENABLED, false)
    own.setConf(SQLConf.CBO_ENABLED, false)
    val plan = analyzed.transform { case PlannedStart.Source(of) =>
      LocalRelation(of.output, Nil, isStreaming = true)
    }
    UnsupportedOperationChecker.checkForStreaming(plan, outputMode)
    val planned = new IncrementalExecution(
      session,
      plan,
      outputMode,
      place.stateRoot,
      OfflinePlace.newId(),
      OfflinePlace.newId(),
      epoch,
      Option.when(epoch > 0)(recorded),
      recorded,
      WatermarkPropagator(session.sessionState.conf),
      isFirstBatch = true
    )
    planned.executedPlan
    OperatorDescriptions.write(planned)
  }
}

private[operations] object PlannedStart {

  /** A checkpoint on the driver's disk that is gone after `use`, with entries of these epochs. */
  def inScratch[A](session: SparkSession, epochs: Seq[String])(use: OfflinePlace => A): A = {
    val directory = Files.createTempDirectory("cleancut-start")
    try {
      // Of descriptions Spark counts only those whose epochs have an entry there.
      val entries = Files.createDirectory(directory.resolve("offsets"))
      epochs.foreach(of => Files.createFile(entries.resolve(of)))
      use(OfflinePlace.to(session, directory.toUri.toString, "plan", isWithCuts = false))
    } finally Utils.deleteRecursively(directory.toFile)
  }

  private object Source {
    def unapply(plan: LogicalPlan): Option[LogicalPlan] = plan match {
      case of: StreamingRelation   => Some(of)
      case of: StreamingRelationV2 => Some(of)
      case _                       => None
    }
  }
}
