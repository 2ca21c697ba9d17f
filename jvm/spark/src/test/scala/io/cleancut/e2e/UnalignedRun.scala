package io.cleancut.e2e

import java.nio.file.Path
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue, TimeUnit}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.{Path => HadoopPath}

import org.apache.spark.sql.execution.streaming.runtime._
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.DriverCuts
import org.apache.spark.sql.execution.streaming.state.cleancut.session.{TestedSpark, TriggerClock}
import org.apache.spark.sql.streaming.{StreamingQuery, StreamingQueryException, Trigger}
import org.apache.spark.sql.{Dataset, Encoders, Row, SparkSession}

import io.cleancut.CleancutSeal
import io.cleancut.base.Clock
import io.cleancut.conf.Keys
import io.cleancut.cutstore.CutArchive
import io.cleancut.objectstore.hadoop.HadoopStore
import io.cleancut.testkit.QueryWaits

/**
 * The result and statistics of a run with failures and restarts.
 *
 * @param inFlight
 *   number of in-flight rows in the cut of each epoch
 * @param differing
 *   epochs with other rows when they ran again after their seal, or in a second action
 * @param secondActions
 *   number of second actions
 * @param repeated
 *   number of epochs that ran again after their seal
 * @param struck
 *   number of failures
 */
final case class CutRun(
    gave: QueryOutput,
    inFlight: Map[Long, Long],
    differing: Seq[Long],
    secondActions: Int,
    repeated: Int,
    struck: Int,
    starts: Int
)

/**
 * Runs a randomized query with cuts at random times, failures and restarts.
 *
 * @param session
 *   session with the settings of the run
 */
final class UnalignedRun(session: SparkSession, fate: UnalignedFate, root: Path) {
  import UnalignedRun._

  private val query = fate.query
  private val name = fate.seed.toString
  private val source = MemoryStream(Reading.encoder, session)
  private val seen = new ConcurrentHashMap[Long, Seq[Row]]
  private val differing = new ConcurrentLinkedQueue[Long]
  private val repeated = new ConcurrentLinkedQueue[Long]
  private val secondActions = new AtomicInteger
  private val clock = Option.when(query.hasProcessingTime)(new TriggerClock)
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
      drain()
      stop()
      CutRun(
        QueryOutput(
          columns,
          seen.asScala.toSeq.sortBy(_._1).map(_._2),
          if (query.hasComparableState) StoredState.readUndivided(session, root) else Map.empty,
          fed
        ),
        inFlight,
        differing.asScala.toSeq,
        secondActions.get,
        repeated.size,
        struck,
        starts
      )
    } finally {
      isDone = true
      cutter.join()
      stop()
    }
  }

  /**
   * Positions of epochs that have processed, or may have processed, in-flight rows of the previous
   * epoch.
   */
  private def fed: Set[Int] = {
    val rows = inFlight
    seen.keySet.asScala.toSeq.sorted.zipWithIndex.collect {
      case (epoch, at) if epoch > 0 && !rows.get(epoch - 1).contains(0L) => at
    }.toSet
  }

  /** Processes the input of a step; returns whether its incident struck. */
  private def take(step: UnalignedStep, rows: Seq[Reading]): Boolean = {
    if (step.restart) stop()
    source.addData(rows)
    added += 1
    val armed = step.incident.map(Incidents.arm(name, _))
    try
      if (step.once) runOnce()
      else if (step.stopsBetween) cutAndStop()
      else if (step.drain) drain()
      else awaitInput()
    catch {
      case e: StreamingQueryException if armed.exists(_.struck) && RandomRuns.isInjected(e) =>
        running = None
    }
    Incidents.disarm(name)
    armed.exists(_.struck)
  }

  private def drain(): Unit =
    if (!query.hasProcessingTime) QueryWaits.drain(started())
    else {
      // `processAllAvailable` does not return: processing time makes Spark run empty epochs.
      awaitInput()
      QueryWaits.until(started(), "no row is in flight") {
        coordinator.exists(_.status.channels.forall(_.deferred.rows == 0))
      }
    }

  // Deprecated, but scheduled jobs still use this trigger.
  @annotation.nowarn("cat=deprecation")
  private def once: Trigger = Trigger.Once()

  /** Runs one epoch, which must process the new input unless an epoch is planned already. */
  private def runOnce(): Unit = {
    stop()
    val isPlanned = lastOf("offsets") > lastOf("commits")
    val running = started(Some(once))
    try QueryWaits.end(running)
    finally this.running = None
    if (!isPlanned && !hasInput(running))
      throw new IllegalStateException("the trigger Once left new input unprocessed")
  }

  /** Cuts the epoch of the new input if it still runs, and stops before another one begins. */
  private def cutAndStop(): Unit = {
    val running = started()
    QueryWaits.until(running, "an epoch has begun or ended") {
      lastOf("offsets") > lastOf("commits") || hasInput(running)
    }
    for (checkpoint <- location) {
      val starts = DriverCuts.starts(checkpoint)
      try {
        starts.hold()
        coordinator.foreach(_.cutNow())
        QueryWaits.until(running, "all epochs are committed")(DriverCuts.isBetween(checkpoint))
      } finally {
        stop()
        starts.release()
      }
    }
  }

  private def hasInput(running: StreamingQuery): Boolean = Option(running.lastProgress)
    .flatMap(progress => Option(progress.sources.head.endOffset))
    .exists(_.trim.toLong >= added - 1)

  /** Last entry of a log of the checkpoint; -1 for none. */
  private def lastOf(log: String): Long = {
    val names = Option(root.resolve(log).toFile.list()).toSeq.flatten
    names.flatMap(_.toLongOption).maxOption.getOrElse(-1L)
  }

  /** Waits until the last input is in a committed epoch. */
  private def awaitInput(): Unit = {
    val running = started()
    QueryWaits.until(running, "an epoch has the new input")(hasInput(running))
  }

  private def cutAtRandom(): Unit = {
    val random = RandomRuns.random(fate.seed)
    val advances = RandomRuns.random(fate.seed + (1L << 33))
    var cut = Set.empty[Long]
    while (!isDone && (cut.size < fate.cuts || clock.isDefined)) {
      Thread.sleep(random.nextInt(fate.pauseMs).toLong)
      clock.foreach(_.advance(RandomQuery.oneOf(advances, Advances: _*)))
      for {
        cuts <- coordinator if random.nextBoolean() && cut.size < fate.cuts
        epoch <- cuts.status.epoch.map(_.epoch) if !cut(epoch) && cuts.cutNow()
      } cut += epoch
    }
  }

  private def coordinator = location.flatMap(DriverCuts.of)

  private def location: Option[String] = running
    .collect { case wrapper: StreamingQueryWrapper => wrapper.streamingQuery }
    .flatMap(query => Option(query.resolvedCheckpointRoot))

  private def started(trigger: Option[Trigger] = None): StreamingQuery = running.getOrElse {
    session.conf.set(Keys.Mode.name, fate.mode(starts))
    val begun = start(trigger)
    running = Some(begun)
    starts += 1
    begun
  }

  private def stop(): Unit = {
    running.foreach(_.stop())
    running = None
  }

  private def start(trigger: Option[Trigger]): StreamingQuery = {
    val run = name
    val rows = if (fate.isNamed) TestedSpark.named(source.toDS(), "readings") else source.toDS()
    val input = rows
      .mapPartitions(Incidents.within(run, Place.Source, _))
    val divided = query(input)
    val output = if (fate.isCoalesced) divided.coalesce(1) else divided
    columns = output.columns.toSeq
    val struck =
      output.mapPartitions(Incidents.within(run, Place.State, _))(Encoders.row(output.schema))
    val mode = query.operator.mode
    clock match {
      case Some(clock) => clock.start(struck, root.toString, mode, trigger)(sink(run))
      case None        =>
        val writer = struck.writeStream
          .outputMode(mode)
          .option("checkpointLocation", root.toString)
          .foreachBatch(sink(run) _)
        trigger.fold(writer)(writer.trigger).start()
    }
  }

  private def sink(run: String)(batch: Dataset[Row], epoch: Long): Unit = {
    val before = Option.when(fate.action == Action.BeforeSeal)(runSecondAction(batch))
    val kept = CleancutSeal.seal(batch, epoch)
    try {
      val rows = kept.collect().toSeq
      val after = Option.when(fate.action == Action.AfterSeal) {
        // Otherwise Spark reads the persisted rows and runs no task.
        kept.unpersist(blocking = true)
        runSecondAction(batch)
      }
      val sealedBefore = Option(seen.put(epoch, rows))
      if (sealedBefore.isDefined) repeated.add(epoch)
      val others = (before ++ after ++ sealedBefore).map(QueryOutput.texts(_).sorted)
      if (others.exists(_ != QueryOutput.texts(rows).sorted)) differing.add(epoch)
    } finally {
      kept.unpersist()
      ()
    }
    Incidents.inSink(run, epoch)
  }

  /** Runs all tasks of the epoch again. */
  private def runSecondAction(batch: Dataset[Row]): Seq[Row] = {
    secondActions.incrementAndGet()
    batch.collect().toSeq
  }

  private def inFlight: Map[Long, Long] = {
    val at = new HadoopPath(root.resolve("cleancut").toUri)
    val conf = session.sparkContext.hadoopConfiguration
    val archive = new CutArchive(HadoopStore.open(at, conf, Clock.System), Clock.System)
    archive.cuts
      .epochs()
      .flatMap(archive.cuts.read)
      .map(cut => cut.epoch -> cut.channels.map(_.deferred.rows).sum)
      .toMap
  }
}

object UnalignedRun {

  /** Clock advances in milliseconds. The last one is longer than all timeouts. */
  private val Advances = Seq(0L, 1L, 1000L, TimeUnit.HOURS.toMillis(2))
}
