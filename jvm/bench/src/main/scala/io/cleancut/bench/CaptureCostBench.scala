package io.cleancut.bench

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.LongAdder

import org.apache.spark.scheduler.{SparkListener, SparkListenerStageSubmitted, SparkListenerTaskEnd}
import org.apache.spark.sql.{DataFrame, Encoders, SparkSession}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.{col, count, sum}
import org.apache.spark.sql.streaming.{OutputMode, StreamingQuery}

import io.cleancut.CleancutExtensions

/**
 * What the modes cost a query that no task holds up, in CPU time of its tasks: against the same
 * query in a session that cannot capture. All queries run beside each other, and take turns, an
 * epoch of the same rows each.
 *
 * Prints `subject<TAB>turn<TAB>nanoseconds`, and `<subject>, rows in flight<TAB>0<TAB>rows` at the
 * most behind any epoch.
 *
 * Arguments: partitions, slots, rows of an epoch, keys, turns.
 */
object CaptureCostBench {
  private val WarmUps = 8
  private val BusPauseMs = 2000L
  val Off = "off"

  def main(args: Array[String]): Unit = {
    val Array(partitions, slots, rows, keys, turns) = args.map(_.toInt): @unchecked
    val plain = CaptureRun.session(s"local[$slots]").getOrCreate()
    val cpu = new CpuByEpoch
    plain.sparkContext.addSparkListener(cpu)
    val capturing = extended()
    val subjects = (Off, plain) +: CaptureSubject.modes.map(_ -> capturing)
    val queries = subjects.map { case (name, session) =>
      new TurnQuery(name, session.newSession(), partitions, keys)
    }
    for (turn <- 0 until WarmUps + turns) {
      // Nobody always comes behind the same one.
      val (before, after) = queries.splitAt(turn % queries.size)
      (after ++ before).foreach(_.epoch(turn, rows))
    }
    // Spark tells its listeners later.
    Thread.sleep(BusPauseMs)
    for (query <- queries) {
      for (turn <- WarmUps until WarmUps + turns)
        println(s"${query.name}\t${turn - WarmUps}\t${cpu.of(query.runId, turn)}")
      println(s"${query.name}, rows in flight\t0\t${query.inFlight}")
    }
    queries.foreach(_.close())
    plain.stop()
    System.exit(0)
  }

  /** Another session of the same Spark, with the extension that the first has not. */
  private def extended(): SparkSession = {
    SparkSession.clearActiveSession()
    SparkSession.clearDefaultSession()
    val made = SparkSession.builder().withExtensions(new CleancutExtensions).getOrCreate()
    SparkSession.clearActiveSession()
    made
  }
}

/** An aggregation that waits for its turn. */
final private class TurnQuery(
    val name: String,
    session: SparkSession,
    partitions: Int,
    keys: Int
) {
  import TurnQuery._

  private val input = MemoryStream(Encoders.scalaLong, session)
  private val subject =
    CaptureSubject.mode(if (name == CaptureCostBench.Off) "aligned" else name, "10s")
  private val run =
    new CaptureRun(session, subject, OutputMode.Update(), partitions, keepsRows = false)
  private val query: StreamingQuery = run.start(_ => totals)

  def runId: String = query.runId.toString

  def inFlight: Long = query.recentProgress.map(CaptureRun.inFlight).maxOption.getOrElse(0L)

  def epoch(turn: Int, rows: Int): Unit = {
    input.addData((0 until rows).map(i => turn.toLong * rows + i))
    query.processAllAvailable()
  }

  def close(): Unit = {
    query.stop()
    run.close()
  }

  private def totals: DataFrame = input
    .toDF()
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
    for (of <- Option(epochs.get(task.stageId)); metrics <- Option(task.taskMetrics))
      spent.computeIfAbsent(of, _ => new LongAdder).add(metrics.executorCpuTime)

  private val BatchKey = "streaming.sql.batchId"
}
