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
 * A query that is not started, planned as Spark plans the first epoch of a run. Its sources return
 * no rows, and the plan is not executed.
 *
 * @param mode
 *   Spark's name of the output mode
 */
final private[operations] class PlannedStart(query: DataFrame, mode: String) {
  private val analyzed = query.asInstanceOf[Dataset[_]].queryExecution.analyzed
  private val outputMode = InternalOutputModes(mode)

  def isStreaming: Boolean = query.isStreaming

  private val relations: Seq[LogicalPlan] = analyzed.collect { case PlannedStart.Source(one) =>
    one
  }

  private val names: Seq[Option[String]] = relations.map(SourceNames.of)

  /**
   * The names of its sources, or the indexes of the places where it reads a source. Spark records
   * an offset for each.
   */
  def sources: Seq[String] =
    names.zipWithIndex.map { case (name, number) => name.getOrElse(number.toString) }.distinct

  /** The number of its sources; a self-join can read one source in two places. */
  def sourceCount: Int = relations.distinct.size

  /** Whether Spark identifies its sources by their names. */
  def namesSources: Boolean = names.exists(_.isDefined)

  def hasWatermark: Boolean = analyzed.exists(_.isInstanceOf[EventTimeWatermark])

  /**
   * The descriptions that its operators would have in a new checkpoint.
   *
   * @throws Throwable
   *   the error with which Spark refuses the query
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
   * Plans the query with all checks of Spark, and writes the descriptions of its operators.
   *
   * @param place
   *   checkpoint with the descriptions of earlier epochs, to which the new ones are added
   * @param recorded
   *   settings that Spark records for the query
   * @throws Throwable
   *   the error with which Spark refuses the query
   */
  def run(
      place: OfflinePlace,
      epoch: Long,
      recorded: EpochLogs.Recorded,
      conf: SQLConf
  ): Unit = {
    val session = place.session
    val sessionConf = session.sessionState.conf
    conf.getAllConfs.foreach { case (key, value) => sessionConf.setConfString(key, value) }
    // The same as for each run of a query.
    sessionConf.setConf(SQLConf.ADAPTIVE_EXECUTION_ENABLED, false)
    sessionConf.setConf(SQLConf.CBO_ENABLED, false)
    val plan = analyzed.transform { case PlannedStart.Source(source) =>
      LocalRelation(source.output, Nil, isStreaming = true)
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

  /** Runs `use` on a temporary checkpoint on the driver's disk with entries of these epochs. */
  def inScratch[A](session: SparkSession, epochs: Seq[String])(use: OfflinePlace => A): A = {
    val directory = Files.createTempDirectory("cleancut-start")
    try {
      // Spark reads only descriptions whose epochs have an entry there.
      val entries = Files.createDirectory(directory.resolve("offsets"))
      epochs.foreach(epoch => Files.createFile(entries.resolve(epoch)))
      use(OfflinePlace.to(session, directory.toUri.toString, "plan", isWithCuts = false))
    } finally Utils.deleteRecursively(directory.toFile)
  }

  private object Source {
    def unapply(plan: LogicalPlan): Option[LogicalPlan] = plan match {
      case relation: StreamingRelation   => Some(relation)
      case relation: StreamingRelationV2 => Some(relation)
      case _                             => None
    }
  }
}
