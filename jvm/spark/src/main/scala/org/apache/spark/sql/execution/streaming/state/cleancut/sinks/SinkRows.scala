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

/** Writes the rows of an epoch with Spark's writers, for the Python package. */
object SinkRows extends AdaptiveSparkPlanHelper {

  /** Name of Spark's metric of a write (`BasicWriteJobStatsTracker`). */
  private val RowsKey = "numOutputRows"

  /** A directory with the current settings of a session. */
  def directory(session: SparkSession, path: String): SinkDirectory =
    new SinkDirectory(path, session.sessionState.newHadoopConf())

  /**
   * Writes rows to a separate directory.
   *
   * Uses a copy of the rows' session, because the commit protocol is a session setting, and other
   * writers of the query may be active. The rows are read once, and counted by the tasks whose
   * files count.
   *
   * @param directory
   *   absolute path that must not exist
   * @return
   *   number of rows, then a line for each file: its size in bytes and its name below the directory
   */
  def write(
      rows: ClassicDataset[_],
      format: String,
      options: JMap[String, String],
      partitionBy: JList[String],
      directory: String
  ): String = {
    val session = rows.sparkSession.cloneSession()
    val settings = AttemptFileSystem.settings(session.sessionState.newHadoopConf()) +
      (SQLConf.FILE_COMMIT_PROTOCOL_CLASS.key -> classOf[AttemptCommits].getName)
    settings.foreach { case (key, value) => session.conf.set(key, value) }
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
    require(written.nonEmpty, s"the format $format uses another commit protocol")
    val lines = written.get.map(file => s"${file.bytes} ${file.name}")
    (rowsWritten(execution.commandExecuted).toString +: lines).mkString("\n")
  }

  private def rowsWritten(ran: LogicalPlan): Long = ran match {
    case result: CommandResult =>
      // Spark may plan the write while it runs, in stages that hide their plans.
      val plan = result.commandPhysicalPlan
      collectFirst(plan) { case writing: DataWritingCommandExec => writing }
        .flatMap(_.metrics.get(RowsKey))
        .getOrElse(throw new IllegalStateException(s"Spark has not counted rows in $plan"))
        .value
    case other => throw new IllegalStateException(s"Spark has not run ${other.nodeName}")
  }
}
