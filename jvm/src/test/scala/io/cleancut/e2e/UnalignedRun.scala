package io.cleancut.e2e

import java.nio.file.Path
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue, TimeUnit}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.{Path => HadoopPath}

import org.apache.spark.sql.{Dataset, Encoders, Row, SparkSession}
import org.apache.spark.sql.execution.streaming.runtime._
import org.apache.spark.sql.execution.streaming.state.cleancut.cuts.DriverCuts
import org.apache.spark.sql.streaming.{StreamingQuery, StreamingQueryException}

import io.cleancut.{CleancutSeal, Clock}
import io.cleancut.conf.Keys
import io.cleancut.cuts.CutArchive
import io.cleancut.objects.HadoopStore
import io.cleancut.testkit.Patience

/**
 * What a run through failures and restarts was like, beside what it gave.
 *
 * @param inFlight
 *   rows in flight behind each epoch
 * @param unlike
 *   epochs that had other rows when they ran again behind their seal, or in a second action
 * @param acted
 *   how many second actions there were
 * @param again
 *   how many epochs ran again behind their seal
 * @param struck
 *   how many failures did
 */
final case class CutRun(
    gave: GivenRows,
    inFlight: Seq[Long],
    unlike: Seq[Long],
    acted: Int,
    again: Int,
    struck: Int,
    starts: Int
)

/**
 * Runs a drawn query, cut at moments that nobody chose, through its failures and restarts.
 *
 * @param session
 *   with the settings of its fate
 */
final class UnalignedRun(session: SparkSession, fate: UnalignedFate, root: Path) {
  import UnalignedRun._

  private val query = fate.query
  private val name = fate.seed.toString
  private val source = MemoryStream(Reading.encoder, session)
  private val seen = new ConcurrentHashMap[Long, Seq[Row]]
  private val unlike = new ConcurrentLinkedQueue[Long]
  private val again = new ConcurrentLinkedQueue[Long]
  private val acted = new AtomicInteger
  private var columns = Seq.empty[String]
  @volatile private var running: Option[StreamingQuery] = None
  private var starts = 0
  private var added = 0
  @volatile private var isDone = false

  def apply(): CutRun = {
    val cutter = new Thread(() => cutAtRandom())
    cutter.start()
    try {
      val struck = fate.steps.zip(query.steps).count { case (step, rows) => take(step, rows) }
      isDone = true
      started().processAllAvailable()
      stop()
      CutRun(
        GivenRows(
          columns,
          seen.asScala.toSeq.sortBy(_._1).map(_._2),
          if (query.hasComparableState) StoredState.readUndivided(session, root) else Map.empty
        ),
        inFlight,
        unlike.asScala.toSeq,
        acted.get,
        again.size,
        struck,
        starts
      )
    } finally {
      isDone = true
      cutter.join()
      stop()
    }
  }

  /** Whether its incident struck. */
  private def take(step: UnalignedStep, rows: Seq[Reading]): Boolean = {
    if (step.restart) stop()
    source.addData(rows)
    added += 1
    val armed = step.incident.map(Incidents.arm(name, _))
    try if (step.drain) started().processAllAvailable() else awaitInput()
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
    val random = DrawnRuns.random(fate.seed)
    var cut = Set.empty[Long]
    while (!isDone && cut.size < fate.cuts) {
      Thread.sleep(random.nextInt(fate.pauseMs).toLong)
      for {
        cuts <- coordinator if random.nextBoolean()
        epoch <- cuts.status.epoch.map(_.epoch) if !cut(epoch) && cuts.cutNow()
      } cut += epoch
    }
  }

  private def coordinator = running
    .collect { case wrapper: StreamingQueryWrapper => wrapper.streamingQuery }
    .flatMap(query => Option(query.resolvedCheckpointRoot))
    .flatMap(DriverCuts.of)

  private def started(): StreamingQuery = running.getOrElse {
    session.conf.set(Keys.Mode.name, fate.mode(starts))
    val begun = start()
    running = Some(begun)
    starts += 1
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
      .mapPartitions(Incidents.within(run, Place.Source, _))
    val divided = query(input)
    val output = if (fate.isCoalesced) divided.coalesce(1) else divided
    columns = output.columns.toSeq
    output
      .mapPartitions(Incidents.within(run, Place.State, _))(Encoders.row(output.schema))
      .writeStream
      .outputMode(query.operator.mode)
      .option("checkpointLocation", root.toString)
      .foreachBatch(sink(run) _)
      .start()
  }

  private def sink(run: String)(batch: Dataset[Row], epoch: Long): Unit = {
    val before = Option.when(fate.action == Action.BeforeSeal)(act(batch))
    val kept = CleancutSeal.seal(batch, epoch)
    try {
      val rows = kept.collect().toSeq
      val after = Option.when(fate.action == Action.BehindSeal)(act(batch))
      val sealedBefore = Option(seen.put(epoch, rows))
      if (sealedBefore.isDefined) again.add(epoch)
      val others = (before ++ after ++ sealedBefore).map(GivenRows.texts(_).sorted)
      if (others.exists(_ != GivenRows.texts(rows).sorted)) unlike.add(epoch)
    } finally {
      kept.unpersist()
      ()
    }
    Incidents.inSink(run, epoch)
  }

  /** Runs all tasks of the epoch, also those that have run. */
  private def act(batch: Dataset[Row]): Seq[Row] = {
    acted.incrementAndGet()
    batch.collect().toSeq
  }

  private def inFlight: Seq[Long] = {
    val at = new HadoopPath(root.resolve("cleancut").toUri)
    val conf = session.sparkContext.hadoopConfiguration
    val archive = new CutArchive(HadoopStore.open(at, conf, Clock.System), Clock.System)
    archive.epochs().flatMap(archive.read).map(_.channels.map(_.deferred.rows).sum)
  }
}

object UnalignedRun {
  private val PatienceNs = TimeUnit.SECONDS.toNanos(Patience.Seconds)
}
