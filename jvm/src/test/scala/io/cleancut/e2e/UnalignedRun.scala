package io.cleancut.e2e

import java.nio.file.Path
import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue}

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.spark.sql.{Dataset, Encoders, Row, SparkSession}
import org.apache.spark.sql.execution.streaming.runtime._
import org.apache.spark.sql.execution.streaming.state.cleancut.DriverCuts
import org.apache.spark.sql.streaming.{StreamingQuery, StreamingQueryException}

import io.cleancut.CleancutSeal

/**
 * What a run gave.
 *
 * @param unlike
 *   epochs that ran again behind their seal, and had other rows then
 * @param inFlight
 *   rows in flight behind each epoch
 */
final case class Uncut(
    epochs: Seq[(Long, Seq[String])],
    columns: Seq[String],
    state: Map[String, Seq[String]],
    unlike: Seq[Long],
    again: Int,
    inFlight: Seq[Long],
    struck: Int
)

/**
 * Runs a drawn query, cut at moments that nobody chose if it is to be cut at all, through its
 * failures and restarts.
 */
final class UnalignedRun(spark: SparkSession, query: UnalignedQuery, root: Path, isCut: Boolean) {
  import UnalignedRun._

  private val name = s"${query.seed} $isCut"
  private val session = spark.newSession()
  (query.settings ++ (if (isCut) query.cutSettings else Plain)).foreach { case (key, value) =>
    session.conf.set(key, value)
  }
  private val source = MemoryStream(Encoders.product[Reading], session)
  private val seen = new ConcurrentHashMap[Long, Seq[String]]
  private val unlike = new ConcurrentLinkedQueue[Long]
  private val again = new ConcurrentLinkedQueue[Long]
  private val inFlight = new ConcurrentHashMap[Long, Long]
  private var columns = Seq.empty[String]
  private var running: Option[StreamingQuery] = None
  private var added = 0
  @volatile private var isDone = false

  def apply(): Uncut = {
    val cutter = new Thread(() => cutAtRandom())
    cutter.start()
    try {
      val struck = query.steps.count(take)
      isDone = true
      started().processAllAvailable()
      stop()
      val rows = seen.asScala.toSeq.sortBy(_._1)
      Uncut(
        rows,
        columns,
        if (query.hasComparableState) StoredState.read(session, root) else Map.empty,
        unlike.asScala.toSeq,
        again.size,
        inFlight.asScala.toSeq.sortBy(_._1).map(_._2),
        struck
      )
    } finally {
      isDone = true
      cutter.join()
      stop()
    }
  }

  /** Whether its incident struck. */
  private def take(step: UnalignedStep): Boolean = {
    if (step.restart) stop()
    source.addData(step.rows)
    added += 1
    val armed = if (isCut) step.incident.map(Incidents.arm(name, _)) else None
    try if (step.drain || !isCut) started().processAllAvailable() else awaitInput()
    catch {
      case e: StreamingQueryException if armed.exists(_.struck) && DrawnRuns.isInjected(e) =>
        running = None
    }
    Incidents.disarm(name)
    armed.exists(_.struck)
  }

  /** Until the last input is in an epoch that is committed. */
  private def awaitInput(): Unit = {
    val query = started()
    val end = System.nanoTime + PatienceNs
    def reached = Option(query.lastProgress).map(_.sources.head.endOffset).filter(_ != null)
    while (query.isActive && !reached.exists(_.trim.toLong >= added - 1)) {
      if (System.nanoTime > end) throw new IllegalStateException("no epoch took the input")
      Thread.sleep(2)
    }
    query.exception.foreach(throw _)
  }

  private def cutAtRandom(): Unit = {
    val random = new Random(query.seed)
    while (isCut && !isDone) {
      Thread.sleep(random.nextInt(MaxPauseMs).toLong)
      coordinator.foreach(_.cutNow())
    }
  }

  private def coordinator = running
    .collect { case wrapper: StreamingQueryWrapper => wrapper.streamingQuery }
    .flatMap(query => Option(query.resolvedCheckpointRoot))
    .flatMap(DriverCuts.of)

  private def started(): StreamingQuery = running.getOrElse {
    val begun = start()
    running = Some(begun)
    begun
  }

  private def stop(): Unit = {
    running.foreach(_.stop())
    running = None
  }

  private def start(): StreamingQuery = {
    val run = name
    val input = source
      .toDS()
      .mapPartitions(Incidents.within(run, Place.Source, _))(Encoders.product[Reading])
    val output = query(input)
    columns = output.columns.toSeq
    val watched = output
      .mapPartitions(Incidents.within(run, Place.State, _))(
        org.apache.spark.sql.Encoders.row(output.schema)
      )
    watched.writeStream
      .outputMode(query.operator.mode)
      .option("checkpointLocation", root.toString)
      .foreachBatch(sink(run) _)
      .start()
  }

  private def sink(run: String)(batch: Dataset[Row], epoch: Long): Unit = {
    if (isCut) CleancutSeal.seal(batch, epoch)
    val rows = batch.collect().map(_.toString).sorted.toSeq
    Option(seen.put(epoch, rows)).foreach { before =>
      again.add(epoch)
      if (before != rows) unlike.add(epoch)
    }
    if (isCut) batch.unpersist()
    coordinator.foreach { cuts =>
      inFlight.put(epoch, cuts.status.channels.map(_.deferred.rows).sum)
    }
    Incidents.inSink(run, epoch)
  }
}

object UnalignedRun {
  private val MaxPauseMs = 120
  private val PatienceNs = 60L * 1000000000L

  private val Plain = Map(
    "spark.sql.streaming.stateStore.providerClass" -> AgainstRocksDb.RocksDb,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled" -> "true"
  )
}
