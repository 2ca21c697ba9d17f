package io.cleancut.objectstore

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.{Callable, CyclicBarrier, ExecutionException, Executors}

import scala.jdk.CollectionConverters._

import io.cleancut.base.Clock

/**
 * Several writers that create one object concurrently. In a store that checks first and writes
 * then, more than one can succeed.
 */
final private[objectstore] class CreateRace(store: ObjectStore, clock: Clock) {
  import CreateRace._

  /**
   * Number of writers whose create succeeded: 1 in a correct store. A writer whose object was
   * replaced counts as a second one.
   */
  def winnersOf(key: ObjectKey): Int = {
    val start = new CyclicBarrier(Writers)
    val threads = Executors.newFixedThreadPool(Writers, daemon(_))
    try {
      val writers = (1 to Writers).map(n => create(key, n, start))
      val won = threads.invokeAll(writers.asJava).asScala.map(_.get()).zip(1 to Writers)
      val winners = won.collect { case (true, n) => n }
      val isKept = winners.lastOption.exists(n => store.get(key).exists(_.sameElements(body(n))))
      if (isKept || winners.isEmpty) winners.size else Math.max(2, winners.size)
    } catch { case e: ExecutionException => throw e.getCause }
    finally {
      threads.shutdownNow()
      ()
    }
  }

  private def create(key: ObjectKey, writer: Int, start: CyclicBarrier): Callable[Boolean] = () => {
    start.await()
    store.create(key, body(writer), WriterToken.fresh(clock)) == CreateResult.Created
  }

  private def body(writer: Int) = s"writer $writer".getBytes(UTF_8)
}

private object CreateRace {
  private val Writers = 4

  private def daemon(body: Runnable): Thread = {
    val thread = new Thread(body, "cleancut-write-probe")
    thread.setDaemon(true)
    thread
  }
}
