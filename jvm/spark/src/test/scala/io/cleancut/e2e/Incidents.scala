package io.cleancut.e2e

import java.util.concurrent.{CountDownLatch, TimeUnit}
import java.util.concurrent.atomic.AtomicLong

import scala.collection.concurrent.TrieMap

import org.apache.spark.TaskContext

/** The place in an epoch at which an incident strikes. */
sealed abstract class Place(val name: String)

object Place {

  /** In a task that reads the input, before a row of the epoch reaches the state. */
  case object Source extends Place("reading")

  /** In a task of the last stateful operator, after some of its rows or after its commit. */
  case object State extends Place("state")

  /** In the sink, after the commits of all tasks and before the commit of the epoch. */
  case object Sink extends Place("sink")
}

/** The effect of an incident on its query. */
sealed abstract class Ending(val name: String)

object Ending {

  /** The first attempt of a task fails, and Spark retries it. */
  case object Retried extends Ending("retried task")

  /** Every attempt fails, and so does the query, which is restarted. */
  case object Fatal extends Ending("failed query")

  /** The query is stopped while a task runs, and restarted. */
  case object Stopped extends Ending("stopped in mid-epoch")
}

/**
 * A planned failure.
 *
 * @param partition
 *   partition in which it strikes, modulo the number of partitions of the stage
 * @param rowsBefore
 *   number of rows of the partition before it; with fewer rows it strikes after the last one
 */
final case class Incident(place: Place, ending: Ending, partition: Int, rowsBefore: Int) {
  def kind: String = s"${ending.name} (${place.name})"
}

/** The error of an incident. */
final class InjectedFailure(message: String) extends RuntimeException(message)

/** An incident that is armed for the next epoch. */
final class ArmedIncident(val incident: Incident) {
  private val epoch = new AtomicLong(-1L)
  private val strikes = new CountDownLatch(1)

  def struck: Boolean = strikes.getCount == 0

  def awaitStrike(seconds: Long): Boolean = strikes.await(seconds, TimeUnit.SECONDS)

  /** Strikes in all attempts of the first epoch that reaches its place, and in no other epoch. */
  def strike(at: Long): Unit = if (epoch.compareAndSet(-1L, at) || epoch.get == at) {
    strikes.countDown()
    incident.ending match {
      case Ending.Stopped => new CountDownLatch(1).await()
      case _              => throw new InjectedFailure(s"$incident in epoch $at")
    }
  }
}

/**
 * The armed incidents by the name of their run. Driver and tasks share a JVM, so tasks find their
 * incident here.
 */
object Incidents {
  private val armed = TrieMap.empty[String, ArmedIncident]

  def arm(run: String, incident: Incident): ArmedIncident = {
    val next = new ArmedIncident(incident)
    armed(run) = next
    next
  }

  def disarm(run: String): Unit = armed -= run

  /** The rows of a task, with the incident of the run if it is armed for this place. */
  def within[T](run: String, place: Place, rows: Iterator[T]): Iterator[T] =
    armed.get(run).filter(concerns(_, place, TaskContext.get())) match {
      case Some(next) => new Struck(rows, next, epochOf(TaskContext.get()))
      case None       => rows
    }

  def inSink(run: String, epoch: Long): Unit =
    armed.get(run).filter(_.incident.place == Place.Sink).foreach(_.strike(epoch))

  private def concerns(next: ArmedIncident, place: Place, task: TaskContext): Boolean = {
    val incident = next.incident
    incident.place == place &&
    task.partitionId() == incident.partition % task.numPartitions() &&
    (incident.ending != Ending.Retried || task.attemptNumber() == 0)
  }

  private def epochOf(task: TaskContext): Long =
    task.getLocalProperty("streaming.sql.batchId").toLong

  final private class Struck[T](rows: Iterator[T], armed: ArmedIncident, epoch: Long)
      extends Iterator[T] {
    private var passed = 0

    override def hasNext: Boolean = {
      val more = rows.hasNext
      if (!more || passed == armed.incident.rowsBefore) armed.strike(epoch)
      more
    }

    override def next(): T = {
      passed += 1
      rows.next()
    }
  }
}
