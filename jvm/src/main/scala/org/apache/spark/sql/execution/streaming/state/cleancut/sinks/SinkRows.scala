package org.apache.spark.sql.execution.streaming.state.cleancut.sinks

import java.util.{List => JList, Map => JMap}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession}
import org.apache.spark.sql.internal.SQLConf

import io.cleancut.sinks.{AttemptCommits, AttemptFileSystem, SinkDirectory}

/** Writes the rows of an epoch by Spark's own writers, for the Python package. */
object SinkRows {

  /** A path as a session reaches it, with the settings that the session has now. */
  def directory(session: SparkSession, path: String): SinkDirectory =
    new SinkDirectory(path, session.sessionState.newHadoopConf())

  /**
   * Writes rows into a directory of their own.
   *
   * In a session that is a copy of the rows' own, because how a job commits is a setting of its
   * session, and other writers of the query may be at work.
   *
   * @param directory
   *   a whole path that is not there
   * @return
   *   a line for each file: its size in bytes and its name below the directory
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
    val writer = ClassicDataset.ofRows(session, rows.logicalPlan).write.format(format)
    writer.options(options).partitionBy(partitionBy.asScala.toSeq: _*).save(directory)
    val written = AttemptCommits.take(new Path(directory).toString)
    require(written.nonEmpty, s"the format $format commits its files in a way of its own")
    written.get.map(file => s"${file.bytes} ${file.name}").mkString("\n")
  }
}
