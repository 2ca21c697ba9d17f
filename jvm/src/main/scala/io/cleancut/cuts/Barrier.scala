package io.cleancut.cuts

import java.util.concurrent.{CompletableFuture, TimeUnit}

import scala.collection.mutable

/**
 * Where executors wait to hear which of their task attempts are overtaken. Each keeps one question
 * open, which is answered at once when there is something to tell, and with nothing after a while,
 * so that a driver that is gone is noticed. Not thread-safe.
 */
final class Barrier {
  import Barrier._

  private val executors = mutable.Map.empty[Long, String]
  private var waiting = Vector.empty[Waiting]

  def runs(attempt: Long, executor: String): Unit = executors(attempt) = executor

  /** Attempts of earlier epochs are forgotten. */
  def clear(): Unit = executors.clear()

  /**
   * @param known
   *   attempts that the executor has been told of
   */
  def await(executor: String, known: Set[Long], nowNs: Long): CompletableFuture[Set[Long]] = {
    val answer = new CompletableFuture[Set[Long]]
    waiting :+= Waiting(executor, known, nowNs + PatienceNs, answer)
    answer
  }

  def isAwaited: Boolean = waiting.nonEmpty

  /** What is to be answered now, taken off the list. */
  def due(overtaken: collection.Set[Long], nowNs: Long): Seq[() => Unit] = {
    val answers = waiting.map { w =>
      w -> overtaken.filter(a => executors.get(a).contains(w.executor) && !w.known(a)).toSet
    }
    val (now, later) = answers.partition { case (w, told) => told.nonEmpty || nowNs >= w.untilNs }
    waiting = later.map(_._1)
    now.map { case (w, told) =>
      () => {
        w.answer.complete(told)
        ()
      }
    }
  }
}

object Barrier {
  private val PatienceNs = TimeUnit.SECONDS.toNanos(10)

  final private case class Waiting(
      executor: String,
      known: Set[Long],
      untilNs: Long,
      answer: CompletableFuture[Set[Long]]
  )
}
