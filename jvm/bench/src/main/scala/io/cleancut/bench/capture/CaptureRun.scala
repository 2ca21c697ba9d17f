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
 * One query on one subject, with a sink that seals if the subject is Cleancut.
 *
 * @param keepsRows
 *   whether the sink keeps all rows for [[output]]; many large epochs would fill the heap
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
  // Each query has a separate directory.
  @volatile private var running = session
  (subject.confs + ("spark.sql.shuffle.partitions" -> partitions.toString))
    .foreach { case (key, value) => session.conf.set(key, value) }

  def start(build: SparkSession => DataFrame): StreamingQuery = build(session).writeStream
    .outputMode(mode)
    .option("checkpointLocation", checkpoint.toString)
    .foreachBatch(sink _)
    .start()

  /** All output rows, unordered. */
  def output: Seq[Row] = rows.asScala.toSeq

  /** Changes a setting of the running query for later epochs. */
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

  /** In-flight rows of an epoch's cut. */
  def inFlight(progress: StreamingQueryProgress): Long =
    progress.stateOperators.filter(isOfChannels).map(_.numRowsTotal).sum

  /** Whether rows could stay in flight, or in-flight rows of an earlier epoch existed. */
  def hasChannels(progress: StreamingQueryProgress): Boolean =
    progress.stateOperators.exists(isOfChannels)

  private def isOfChannels(operator: StateOperatorProgress): Boolean =
    operator.operatorName == "cleancutInFlight"

  /** Longest time from the request to overtake a task until its rows were stored. */
  def barrierToCaptureMs(progress: StreamingQueryProgress): Long = progress.stateOperators
    .flatMap(_.customMetrics.asScala.collect {
      case (name, ms) if name.startsWith("barrierToCaptureMs") => ms.toLong
    })
    .maxOption
    .getOrElse(0L)

  /** Common configuration of the sessions. */
  def session(master: String): SparkSession.Builder = SparkSession
    .builder()
    .master(master)
    .config("spark.driver.host", "127.0.0.1")
    // Executors load the functions of these queries from here.
    .config("spark.executor.extraClassPath", ManagementFactory.getRuntimeMXBean.getClassPath)
    .config("spark.ui.enabled", "false")
    .config("spark.sql.adaptive.enabled", "false")

  def temporary(): Path = Files.createTempDirectory("cleancut-bench")
}
