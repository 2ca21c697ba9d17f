package io.cleancut.e2e

import java.nio.file.Path
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{Dataset, Encoders, SparkSession}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.streaming.{StreamingQuery, StreamingQueryException}

/** The rows of an epoch, sorted because Spark does not define their order. */
final case class Epoch(id: Long, rows: Seq[String])

/**
 * The result of a run of a query.
 *
 * @param epochs
 *   epochs in the order of the sink; a repeated epoch is listed twice
 */
final case class RunResult(
    epochs: Seq[Epoch],
    state: Map[String, Seq[String]],
    struck: Seq[Incident],
    restarts: Int
) {

  /** The result without the partitions of state rows. */
  def undivided: RunResult = copy(state = state.map { case (part, rows) =>
    part -> rows.map(_.replaceFirst(",\\d+]$", "]")).sorted
  })
}

/**
 * Runs a randomized query on one provider, with its incidents and restarts.
 *
 * @param session
 *   session with [[ProviderRun.settings]]
 */
final class ProviderRun(session: SparkSession, provider: String, query: RandomQuery, root: Path) {
  import ProviderRun._

  private val name = s"$provider ${query.seed}"
  private val source = MemoryStream(Encoders.product[Reading], session)
  private val epochs = new ConcurrentLinkedQueue[Epoch]
  private var starts = 0
  private var running: Option[StreamingQuery] = None

  /** @param operations operations before a step, by its number, while the query is stopped */
  def apply(operations: Map[Int, () => Unit] = Map.empty): RunResult =
    try {
      val struck = query.steps.zipWithIndex.flatMap { case (step, number) =>
        operations.get(number).foreach { operation =>
          stop()
          operation()
        }
        take(step)
      }
      stop()
      val state = StoredState.read(session, root)
      RunResult(epochs.asScala.toSeq, state, struck, starts - 1)
    } finally stop()

  /** Stops the query from another thread, so that the run fails. */
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
        case e: StreamingQueryException if armed.struck && RandomRuns.isInjected(e) =>
          running = None
      }
  }

  /** Runs all epochs of the input, and the epochs without input that follow. */
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
  def settings(provider: String, query: RandomQuery): Map[String, String] =
    query.settings + ("spark.sql.streaming.stateStore.providerClass" -> provider)

  private val StrikeSeconds = 60L
}
