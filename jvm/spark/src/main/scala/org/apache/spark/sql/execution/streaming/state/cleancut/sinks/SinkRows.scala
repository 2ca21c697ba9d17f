package org.apache.spark.sql.execution.streaming.state.cleancut.sinks

import java.util.{List => JList, Map => JMap}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SaveMode
import org.apache.spark.sql.catalyst.plans.logical.{CommandResult, LogicalPlan}
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession}
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanHelper
import org.apache.spark.sql.execution.command.DataWritingCommandExec
import org.apache.spark.sql.execution.datasources.DataSource
import org.apache.spark.sql.internal.SQLConf

/** Writes the rows of an epoch by Spark's own writers, for the Python package. */
object SinkRows extends AdaptiveSparkPlanHelper {

  /** Spark's, of its figures of a write (`BasicWriteJobStatsTracker`). */
  private val RowsKey = "numOutputRows"

  /** A path as a session reaches it, with the settings that the session has now. */
  def directory(session: SparkSession, path: String): SinkDirectory =
    new SinkDirectory(path, session.sessionState.newHadoopConf())

  /**
   * Writes rows into a directory of their own.
   *
   * In a session that is a copy of the rows' own, because how a job commits is a setting of its
   * session, and other writers of the query may be at work. The rows are read once, and counted by
   * the tasks whose files count.
   *
   * @param directory
   *   a whole path that is not there
   * @return
   *   how many rows these are, then a line for each file: its size in bytes and its name below the
   *   directory
   */
  def write(
      rows: ClassicDataset[_],
      format: String,
      options: JMap[String, String],
      partitionBy: JList[String],
      directory: String
  ): String = {
    val session = rows.sparkSession.cloneSession()
    val own = AttemptFileSystem.settings(session.sessionState.newHadoopConf()) +
      (SQLConf.FILE_COMMIT_PROTOCOL_CLASS.key -> classOf[AttemptCommits].getName)
    own.foreach { case (key, value) => session.conf.set(key, value) }
    val target = DataSource(
      session,
      className = format,
      partitionColumns = partitionBy.asScala.toSeq,
      options = options.asScala.toMap + ("path" -> directory)
    )
    val command = target.planForWriting(SaveMode.ErrorIfExists, rows.logicalPlan)
    val execution = session.sessionState.executePlan(command)
    execution.assertCommandExecuted()
    val written = AttemptCommits.take(new Path(directory).toString)
    require(written.nonEmpty, s"the format $format commits its files in a way of its own")
    val lines = written.get.map(file => s"${file.bytes} ${file.name}")
    (rowsWritten(execution.commandExecuted).toString +: lines).mkString("\n")
  }

  private def rowsWritten(ran: LogicalPlan): Long = ran match {
    case result: CommandResult =>
      // Spark may plan it while it runs, in stages that hide what is in them.
      val plan = result.commandPhysicalPlan
      collectFirst(plan) { case writing: DataWritingCommandExec => writing }
        .flatMap(_.metrics.get(RowsKey))
        .getOrElse(throw new IllegalStateException(s"Spark has not counted rows in $plan"))
        .value
    case other => throw new IllegalStateException(s"Spark has not run ${other.nodeName}")
  }
}
