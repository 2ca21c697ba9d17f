package io.cleancut.bench.capture

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.LongAdder

import scala.util.Random

import org.apache.spark.scheduler.{SparkListener, SparkListenerStageSubmitted, SparkListenerTaskEnd}
import org.apache.spark.sql.{DataFrame, Encoders, SparkSession}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.{col, count, explode, sequence, sum}
import org.apache.spark.sql.streaming.{OutputMode, StreamingQuery}

import io.cleancut.CleancutExtensions
import io.cleancut.conf.Keys

/**
 * CPU time of tasks in each mode for a query without stragglers, compared with the same query in a
 * session without capture. The modes and this session take turns in random order, with one epoch of
 * the same size each. One query runs in all modes: two equal queries in one JVM may differ
 * permanently by more than the effect to measure.
 *
 * Prints `subject<TAB>turn<TAB>nanoseconds`, and `<subject>, in-flight rows<TAB>0<TAB>rows`, the
 * maximum after any epoch.
 *
 * Arguments: partitions, slots, rows per epoch, keys, turns, seed.
 */
object CaptureCostBench {
  private val WarmUps = 8
  private val BusPauseMs = 2000L
  val Off = "off"

  def main(args: Array[String]): Unit = {
    val Array(partitions, slots, rows, keys, turns, seed) = args.map(_.toInt): @unchecked
    val random = new Random(seed)
    val plain = CaptureRun.session(s"local[$slots]").getOrCreate()
    val cpu = new CpuByEpoch
    plain.sparkContext.addSparkListener(cpu)
    val off = new TurnQuery(plain.newSession(), partitions, rows, keys)
    val on = new TurnQuery(extended().newSession(), partitions, rows, keys)
    val subjects = Off +: CaptureSubject.modes
    val ran = for {
      turn <- -WarmUps until turns
      subject <- random.shuffle(subjects)
    } yield (
      subject,
      turn,
      if (subject == Off) off.epoch(CaptureSubject.Aligned) else on.epoch(subject)
    )
    // Spark notifies its listeners asynchronously.
    Thread.sleep(BusPauseMs)
    for ((subject, turn, epoch) <- ran if turn >= 0)
      println(s"$subject\t$turn\t${cpu.of(epoch.runId, epoch.number)}")
    for ((subject, epochs) <- ran.groupMap(_._1)(_._3))
      println(s"$subject, in-flight rows\t0\t${epochs.map(_.inFlight).max}")
    Seq(off, on).foreach(_.close())
    plain.stop()
    System.exit(0)
  }

  /** Another session of the same Spark application, with the extension that the first one lacks. */
  private def extended(): SparkSession = {
    SparkSession.clearActiveSession()
    SparkSession.clearDefaultSession()
    val made = SparkSession.builder().withExtensions(new CleancutExtensions).getOrCreate()
    SparkSession.clearActiveSession()
    made
  }
}

/** A finished epoch with its number of in-flight rows. */
final private case class TurnEpoch(runId: String, number: Int, inFlight: Long)

/** An aggregation that runs one epoch per turn. */
final private class TurnQuery(session: SparkSession, partitions: Int, rows: Int, keys: Int) {
  import TurnQuery._

  private val input = MemoryStream(Encoders.scalaLong, session)
  private val eachHas = rows / partitions
  private val run = new CaptureRun(
    session,
    CaptureSubject.mode(CaptureSubject.Aligned, "10s"),
    OutputMode.Update(),
    partitions,
    keepsRows = false
  )
  private val query: StreamingQuery = run.start(_ => totals)
  private var epochs = 0

  /** Runs an epoch. The tasks generate its rows from their start offsets. */
  def epoch(mode: String): TurnEpoch = {
    // The environment of a query exists from its first epoch on.
    if (epochs > 0) run.set(Keys.Mode.name, mode)
    input.addData((0 until partitions).map(i => epochs.toLong * rows + i * eachHas))
    query.processAllAvailable()
    val ended = query.lastProgress
    require(ended.batchId == epochs, s"epoch ${ended.batchId} ran instead of $epochs")
    val captures = epochs > 0 && mode != CaptureSubject.Aligned
    require(CaptureRun.hasChannels(ended) == captures, s"epoch $epochs did not run in mode $mode")
    epochs += 1
    TurnEpoch(query.runId.toString, epochs - 1, CaptureRun.inFlight(ended))
  }

  def close(): Unit = {
    query.stop()
    run.close()
  }

  private def totals: DataFrame = input
    .toDF()
    .select(explode(sequence(col("value"), col("value") + (eachHas - 1))).as("value"))
    .groupBy((col("value") * Scatter % keys).as("key"))
    .agg(count("*"), sum("value"))
}

private object TurnQuery {
  private val Scatter = 7919
}

/** The CPU time of all tasks of an epoch, by the run of its query. */
final private class CpuByEpoch extends SparkListener {
  private val epochs = new ConcurrentHashMap[Int, (String, String)]
  private val spent = new ConcurrentHashMap[(String, String), LongAdder]

  def of(runId: String, epoch: Int): Long = spent.get((runId, epoch.toString)).sum

  override def onStageSubmitted(stage: SparkListenerStageSubmitted): Unit = {
    val named = stage.properties
    val (run, epoch) = (named.getProperty("spark.jobGroup.id"), named.getProperty(BatchKey))
    if (run != null && epoch != null) epochs.put(stage.stageInfo.stageId, (run, epoch))
    ()
  }

  override def onTaskEnd(task: SparkListenerTaskEnd): Unit =
    for (stage <- Option(epochs.get(task.stageId)); metrics <- Option(task.taskMetrics))
      spent.computeIfAbsent(stage, _ => new LongAdder).add(metrics.executorCpuTime)

  private val BatchKey = "streaming.sql.batchId"
}
