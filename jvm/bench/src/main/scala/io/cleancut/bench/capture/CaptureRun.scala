package io.cleancut.bench.capture

import java.lang.management.ManagementFactory
import java.nio.file.{Files, Path}
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, Row, SparkSession}
import org.apache.spark.sql.streaming.{
  OutputMode,
  StateOperatorProgress,
  StreamingQuery,
  StreamingQueryProgress
}

import io.cleancut.CleancutSeal
import io.cleancut.bench.base.Directories

/**
 * One query on one subject, with a sink that seals where there is something to seal.
 *
 * @param keepsRows
 *   whether it keeps all that it is given, for [[output]]; of many large epochs no heap is left
 */
final class CaptureRun(
    session: SparkSession,
    subject: CaptureSubject,
    mode: OutputMode,
    partitions: Int,
    keepsRows: Boolean
) {
  private val checkpoint = CaptureRun.temporary()
  private val rows = new ConcurrentLinkedQueue[Row]
  // A query has one of its own.
  @volatile private var running = session
  (subject.confs + ("spark.sql.shuffle.partitions" -> partitions.toString))
    .foreach { case (key, value) => session.conf.set(key, value) }

  def start(build: SparkSession => DataFrame): StreamingQuery = build(session).writeStream
    .outputMode(mode)
    .option("checkpointLocation", checkpoint.toString)
    .foreachBatch(sink _)
    .start()

  /** All rows that came out, in no order. */
  def output: Seq[Row] = rows.asScala.toSeq

  /** Changes a setting of the query that runs, for its epochs to come. */
  def set(key: String, value: String): Unit = running.conf.set(key, value)

  def close(): Unit = Directories.deleteBelow(checkpoint)

  private def sink(batch: DataFrame, epoch: Long): Unit = {
    running = batch.sparkSession
    val kept = if (subject.isCleancut) CleancutSeal.seal(batch, epoch) else batch.persist()
    if (keepsRows) rows.addAll(kept.collect().toSeq.asJava)
    else kept.write.format("noop").mode("append").save()
    kept.unpersist()
    ()
  }
}

object CaptureRun {

  /** Rows that the cut of an epoch left in flight. */
  def inFlight(progress: StreamingQueryProgress): Long =
    progress.stateOperators.filter(isOfChannels).map(_.numRowsTotal).sum

  /** Whether rows might have stayed in flight, or some were from before. */
  def hasChannels(progress: StreamingQueryProgress): Boolean =
    progress.stateOperators.exists(isOfChannels)

  private def isOfChannels(operator: StateOperatorProgress): Boolean =
    operator.operatorName == "cleancutInFlight"

  /** How long it took at most from the order that a task be overtaken until its rows were kept. */
  def barrierToCaptureMs(progress: StreamingQueryProgress): Long = progress.stateOperators
    .flatMap(_.customMetrics.asScala.collect {
      case (name, ms) if name.startsWith("barrierToCaptureMs") => ms.toLong
    })
    .maxOption
    .getOrElse(0L)

  /** What the sessions of these runs have in common. */
  def session(master: String): SparkSession.Builder = SparkSession
    .builder()
    .master(master)
    .config("spark.driver.host", "127.0.0.1")
    // Where there are executors: the functions of these queries.
    .config("spark.executor.extraClassPath", ManagementFactory.getRuntimeMXBean.getClassPath)
    .config("spark.ui.enabled", "false")
    .config("spark.sql.adaptive.enabled", "false")

  def temporary(): Path = Files.createTempDirectory("cleancut-bench")
}
