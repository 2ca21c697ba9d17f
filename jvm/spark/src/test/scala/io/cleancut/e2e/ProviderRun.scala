package io.cleancut.e2e

import java.nio.file.Path
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{Dataset, Encoders, SparkSession}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.streaming.{StreamingQuery, StreamingQueryException}

/** The rows of an epoch, sorted because Spark leaves their order open. */
final case class Epoch(id: Long, rows: Seq[String])

/**
 * What a run of a query gave.
 *
 * @param epochs
 *   in the order in which the sink got them, so that one which was run again is there twice
 */
final case class Found(
    epochs: Seq[Epoch],
    state: Map[String, Seq[String]],
    struck: Seq[Incident],
    restarts: Int
) {

  /** Without the partitions of the rows of its state. */
  def undivided: Found = copy(state = state.map { case (part, rows) =>
    part -> rows.map(_.replaceFirst(",\\d+]$", "]")).sorted
  })
}

/**
 * Runs a drawn query on one provider, through its incidents and restarts.
 *
 * @param session
 *   with [[ProviderRun.settings]]
 */
final class ProviderRun(session: SparkSession, provider: String, query: DrawnQuery, root: Path) {
  import ProviderRun._

  private val name = s"$provider ${query.seed}"
  private val source = MemoryStream(Encoders.product[Reading], session)
  private val epochs = new ConcurrentLinkedQueue[Epoch]
  private var starts = 0
  private var running: Option[StreamingQuery] = None

  /** @param acts what is done before a step, by its number, while the query is stopped */
  def apply(acts: Map[Int, () => Unit] = Map.empty): Found =
    try {
      val struck = query.steps.zipWithIndex.flatMap { case (step, number) =>
        acts.get(number).foreach { act =>
          stop()
          act()
        }
        take(step)
      }
      stop()
      val state = StoredState.read(session, root)
      Found(epochs.asScala.toSeq, state, struck, starts - 1)
    } finally stop()

  /** Ends the run from another thread, which makes it fail. */
  def cancel(): Unit = session.streams.active.foreach(_.stop())

  private def take(step: Step): Option[Incident] = {
    if (step.restart) stop()
    val armed = step.incident.map(Incidents.arm(name, _))
    source.addData(step.rows)
    armed.foreach(meet)
    Incidents.disarm(name)
    settle()
    armed.filter(_.struck).map(_.incident)
  }

  private def meet(armed: ArmedIncident): Unit = armed.incident.ending match {
    case Ending.Retried => settle()
    case Ending.Stopped =>
      started()
      if (!armed.awaitStrike(StrikeSeconds)) throw new IllegalStateException(s"no strike: $armed")
      stop()
    case Ending.Fatal =>
      try settle()
      catch {
        case e: StreamingQueryException if armed.struck && DrawnRuns.isInjected(e) => running = None
      }
  }

  /** Runs all epochs that the input makes, with those without input that follow. */
  private def settle(): Unit = started().processAllAvailable()

  private def started(): StreamingQuery = running.getOrElse {
    starts += 1
    running = Some(start())
    running.get
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
      .mapPartitions(Incidents.within(run, Place.State, _).map(_.toString))(Encoders.STRING)
    output.writeStream
      .outputMode(query.operator.mode)
      .option("checkpointLocation", root.toString)
      .foreachBatch { (batch: Dataset[String], epoch: Long) =>
        epochs.add(Epoch(epoch, batch.collect().sorted.toSeq))
        Incidents.inSink(run, epoch)
      }
      .start()
  }
}

object ProviderRun {
  def settings(provider: String, query: DrawnQuery): Map[String, String] =
    query.settings + ("spark.sql.streaming.stateStore.providerClass" -> provider)

  private val StrikeSeconds = 60L
}
