package org.apache.spark.sql.execution.streaming.state.cleancut.history

import java.util.concurrent.{Executors, RejectedExecutionException, TimeUnit}

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.SparkListenerEvent
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.RunningQueries

import io.cleancut.base.{Clock, DaemonThreads}
import io.cleancut.conf.{Keys, Settings}
import io.cleancut.coordinator.driver.EpochPace
import io.cleancut.cutstore.CutArchive
import io.cleancut.history._

/**
 * Reports the epochs of a query to Spark's listeners, and so to its UI and event log, and to the
 * query's history. Runs on a separate thread; a failure there does not fail an epoch.
 *
 * @param query
 *   the running epoch
 * @param post
 *   posts an event to Spark's listeners
 * @param writer
 *   None if no history is kept
 * @param pace
 *   receives the costs of epochs
 */
final private[cleancut] class EpochFeed(
    facts: RunFacts,
    query: QueryTrigger,
    post: SparkListenerEvent => Unit,
    writer: Option[HistoryWriter],
    pace: EpochPace
) extends EpochWatcher
    with Logging {
  import EpochFeed._

  private val thread =
    Executors.newSingleThreadExecutor(DaemonThreads.named("cleancut-history"))
  private val watch = new DriverHealth.Watch
  private val judge = new SlowEpochs
  private val stageTimes = StageTimes.begin(facts.queryId)
  private var hasPostedRun = false

  override def location: String = facts.location

  override def name: Option[String] = facts.name

  override def trigger(epoch: Long): Option[TriggerTimes] = query.times(epoch)

  override def health(): EpochHealth = watch.sample()

  override def slow: SlowTally = judge.tally

  override def committed(record: () => EpochRecord): Unit = {
    val operators = query.operators
    later {
      val committed = record()
      val stages = stageTimes.take(committed.epoch, post)
      report(judge.judge(EpochStages.assign(committed, stages, operators)))
    }
  }

  private def report(judged: EpochRecord): Unit = {
    judged.costs.foreach(costs => pace.spent(StorePrices.of(costs.all)))
    if (!hasPostedRun) post(CleancutRunBegun(RunFacts.Version, location, facts.toJson))
    hasPostedRun = true
    judged.slow.foreach { why =>
      logWarning(
        s"Epoch ${judged.epoch} of $location took ${judged.tookMs.getOrElse(0L)} ms, where " +
          s"${why.typicalMs} ms are typical: ${why.detail}"
      )
    }
    val json = EpochRecordJson.write(judged)
    post(CleancutEpochCommitted(EpochRecordJson.Version, location, judged.epoch, json))
    writer.foreach(_.add(judged))
  }

  override def close(isStored: () => Boolean): Unit = {
    later {
      writer.foreach(_.flush(isStored))
      stageTimes.end()
    }
    thread.shutdown()
    // The driver may be about to exit.
    if (!thread.awaitTermination(PatienceMs, TimeUnit.MILLISECONDS))
      logInfo(s"The last epochs of $location are not yet in its history")
  }

  private def later(action: => Unit): Unit =
    try
      thread.execute { () =>
        try action
        catch { case NonFatal(e) => logWarning(s"The history of $location is missing an epoch", e) }
      }
    catch { case _: RejectedExecutionException => () }
}

private[cleancut] object EpochFeed {
  private val PatienceMs = 8000L

  /** The session's keys that define the start of epochs and their retention. */
  private val SparkKeys = Seq(
    "spark.sql.streaming.minBatchesToRetain",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot",
    "spark.sql.streaming.stateStore.maintenanceInterval",
    "spark.sql.shuffle.partitions"
  )

  def apply(
      query: StreamExecution,
      location: String,
      archive: CutArchive,
      pace: EpochPace
  ): EpochFeed = {
    val session = RunningQueries.sessionOf(query)
    val set = session.conf.getAll
    val settings = Settings.from(set)
    val facts = RunFacts(
      location,
      Option(query.name),
      query.id.toString,
      query.runId.toString,
      Clock.System.wallMs(),
      Keys.Mode.read(set).getOrElse(Keys.Mode.default),
      query.trigger.toString,
      set.filter { case (key, _) => key.startsWith(Keys.Prefix) || SparkKeys.contains(key) }
    )
    val kept = session.sessionState.conf.minBatchesToRetain
    val bus = query.sparkSession.sparkContext.listenerBus
    val writer = Option.when(settings.historyRetentionMs > 0)(
      new HistoryWriter(
        location,
        archive.store,
        archive.cuts.head(_),
        settings.historyRetentionMs,
        kept,
        Clock.System
      )
    )
    new EpochFeed(facts, new QueryTrigger(query), bus.post, writer, pace)
  }
}
