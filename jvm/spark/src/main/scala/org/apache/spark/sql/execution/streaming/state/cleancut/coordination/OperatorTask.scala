package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.util.concurrent.{CompletableFuture, ConcurrentHashMap, ExecutionException, Executors}

import scala.collection.mutable

import org.apache.spark.TaskContext

import io.cleancut.base.{Clock, DaemonThreads, StoreId}
import io.cleancut.coordinator.state.{Arrival, Opened, TaskStart, TaskStarted}
import io.cleancut.protocol.{ChannelOpened, ChannelTask}

/**
 * What one task attempt and the coordinator have to tell each other about one operator: one message
 * when the attempt begins, and one when the last of the operator's stores is committed. A join has
 * four stores, which it opens and commits one after the other: each large frame is on its way while
 * the next is made, and the last commit waits for all of them.
 *
 * For one thread at a time but for what is on its way.
 *
 * @param isOver
 *   called when the attempt has told all
 */
final private[cleancut] class OperatorTask(
    ask: TaskStart => CutsReply,
    begun: () => Unit,
    isOver: () => Unit
) {
  private val stores = mutable.Map.empty[(StoreId, Long), Opened]
  private val channels = mutable.Map.empty[StoreId, ChannelOpened]
  private var arrivals = List.empty[Arrival]
  private var open = 0
  private var made = List.empty[CompletableFuture[MadeFrame]]

  /**
   * Begins to read a channel; `all` are those that the task reads. Else the coordinator's answer.
   */
  def channel(of: ChannelTask, all: Seq[ChannelTask]): Either[CutsReply, ChannelOpened] =
    channels.remove(of.channel).map(Right(_)).getOrElse {
      val StoreId(operator, partition, _) = of.channel
      told(TaskStart(of.attempt, operator, partition, of.epoch, channels = all))
        .map(_ => channels.remove(of.channel).get)
    }

  /** Opens a store for writing at a version. */
  def open(start: TaskStart): Either[CutsReply, Opened] = {
    val key = (start.stores.head, start.version)
    opened(start).map { found =>
      // Who opens it again says so again.
      stores -= key
      found
    }
  }

  /** What it goes on from, without opening it yet. */
  def opened(start: TaskStart): Either[CutsReply, Opened] = {
    val key = (start.stores.head, start.version)
    stores.get(key).map(Right(_)).getOrElse(told(start).map(_ => stores(key)))
  }

  private def told(start: TaskStart): Either[CutsReply, TaskStarted] =
    ask(start) match {
      case StartReply(started) =>
        begun()
        started.stores.foreach { case (store, of) => stores((store, start.version)) = of }
        channels ++= started.channels
        Right(started)
      case other => Left(other)
    }

  /** A channel has been read to its end, which is told with the frames. */
  def arrived(arrival: Arrival): Unit = synchronized {
    arrivals ::= arrival
  }

  /** A store will have a frame. */
  def begin(): Unit = synchronized {
    open += 1
  }

  /**
   * A store has its frame. Returns when all that the task has made is delivered, if this is the
   * last of its stores; else at once.
   *
   * @param isSmall
   *   whether the frame is there without doing anything for it
   */
  def commit(isSmall: Boolean, make: () => MadeFrame)(
      deliver: (Seq[MadeFrame], Seq[Arrival]) => Unit
  ): Unit =
    if (isLast()) {
      isOver()
      val own = make()
      deliver(awaited() :+ own, synchronized(arrivals.reverse))
    } else {
      val making =
        if (isSmall) CompletableFuture.completedFuture(make())
        else CompletableFuture.supplyAsync[MadeFrame](() => make(), OperatorTask.threads)
      synchronized(made ::= making)
    }

  /** A store will have no frame, or another one. */
  def cancel(): Unit = if (isLast()) {
    awaited()
    ()
  }

  /** A store is done; whether no other one is open. */
  private def isLast(): Boolean = synchronized {
    open -= 1
    open == 0
  }

  private def awaited(): Seq[MadeFrame] =
    try synchronized(made.reverse).map(_.get())
    catch { case e: ExecutionException => throw e.getCause }
}

private[cleancut] object OperatorTask {
  private val tasks = new ConcurrentHashMap[(Long, Long), OperatorTask]

  // Each waits for a segment; as many as tasks have frames on their way.
  private val threads = Executors.newCachedThreadPool(DaemonThreads.named("cleancut-send"))

  /** That of the task that this thread runs, for an operator; None outside of a task. */
  def current(
      checkpoint: String,
      runId: String,
      operator: Long,
      requestTimeoutMs: Long
  ): Option[OperatorTask] = Option(TaskContext.get()).map { task =>
    val attempt = task.taskAttemptId()
    val key = (attempt, operator)
    tasks.computeIfAbsent(
      key,
      _ => {
        def forget(): Unit = {
          tasks.remove(key)
          ()
        }
        // However it ends.
        task.addTaskCompletionListener[Unit](_ => forget())
        var hasBegun = false
        def begun(): Unit = if (!hasBegun) {
          hasBegun = true
          task.addTaskFailureListener { (_, _) =>
            CutsClient.tell(Failed(checkpoint, runId, attempt), requestTimeoutMs)
          }
          ()
        }
        val asked = ask(checkpoint, runId, _, requestTimeoutMs)
        new OperatorTask(asked, () => begun(), () => forget())
      }
    )
  }

  /** The coordinator's answer to what begins here. */
  def ask(
      checkpoint: String,
      runId: String,
      start: TaskStart,
      requestTimeoutMs: Long
  ): CutsReply = {
    val message = Start(checkpoint, runId, start.copy(at = Some(GroupedFrame.here)))
    CutsClient.ask(message, Clock.System, requestTimeoutMs)
  }
}
