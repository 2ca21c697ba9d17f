package io.cleancut.coordinator.state

import java.util.concurrent.{CompletableFuture, TimeUnit}

import scala.collection.mutable

/**
 * Executors wait here for overtaken task attempts. Each executor has one open request, which is
 * answered immediately if there is news, and without news after a while, so that the loss of a
 * driver is noticed. Not thread-safe.
 */
final class Barrier {
  import Barrier._

  private val executors = mutable.Map.empty[Long, String]
  private val overtaken = mutable.Map.empty[String, mutable.Set[Long]]
  private var waiting = Vector.empty[Waiting]

  def runs(attempt: Long, executor: String): Unit = executors(attempt) = executor

  /** Forgets attempts of earlier epochs. */
  def clear(): Unit = {
    executors.clear()
    overtaken.clear()
    waiting.foreach(_.unreported.clear())
  }

  /** Overtakes these attempts. Attempts without an executor are ignored. */
  def overtake(attempts: Iterable[Long]): Unit = if (attempts.nonEmpty) {
    val added = attempts.groupBy(executors.get).collect { case (Some(executor), ids) =>
      executor -> ids
    }
    for ((executor, ids) <- added) overtaken.getOrElseUpdate(executor, mutable.Set.empty) ++= ids
    for (request <- waiting; ids <- added.get(request.executor))
      request.unreported ++= ids.filterNot(request.known)
  }

  /**
   * @param known
   *   attempts that were reported to the executor
   */
  def await(executor: String, known: Set[Long], nowNs: Long): CompletableFuture[Set[Long]] = {
    val answer = new CompletableFuture[Set[Long]]
    val unreported = mutable.Set.from(overtaken.getOrElse(executor, Nil).filterNot(known))
    waiting :+= Waiting(executor, known, unreported, nowNs + PatienceNs, answer)
    answer
  }

  def isAwaited: Boolean = waiting.nonEmpty

  /** The requests to answer now, which are removed from the list. */
  def due(nowNs: Long): Seq[() => Unit] = {
    val (now, later) = waiting.partition(w => w.unreported.nonEmpty || nowNs >= w.untilNs)
    waiting = later
    now.map { request =>
      val attempts = request.unreported.toSet
      () => {
        request.answer.complete(attempts)
        ()
      }
    }
  }
}

object Barrier {
  private val PatienceNs = TimeUnit.SECONDS.toNanos(10)

  /** An open request. `unreported` are the overtaken attempts that are not in `known`. */
  final private case class Waiting(
      executor: String,
      known: Set[Long],
      unreported: mutable.Set[Long],
      untilNs: Long,
      answer: CompletableFuture[Set[Long]]
  )
}
