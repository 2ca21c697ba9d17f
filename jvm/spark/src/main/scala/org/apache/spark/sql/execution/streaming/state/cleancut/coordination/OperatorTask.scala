package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.util.concurrent.{CompletableFuture, ConcurrentHashMap, ExecutionException, Executors}

import scala.collection.mutable

import org.apache.spark.TaskContext

import io.cleancut.base.{Clock, DaemonThreads, StoreId}
import io.cleancut.coordinator.state.{Arrival, Opened, TaskStart, TaskStarted}
import io.cleancut.protocol.{ChannelOpened, ChannelTask}

/**
 * The messages between one task attempt and the coordinator about one operator: one when the
 * attempt begins, and one when the last of the operator's stores is committed. A join opens and
 * commits four stores one after the other: each large frame is uploaded while the next is created,
 * and the last commit waits for all of them.
 *
 * For one thread at a time, except for uploads.
 *
 * @param isOver
 *   called when the attempt has sent everything
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
   * Begins to read a shuffle input; `all` are the inputs of the task. Left is the coordinator's
   * answer.
   */
  def channel(input: ChannelTask, all: Seq[ChannelTask]): Either[CutsReply, ChannelOpened] =
    channels.remove(input.channel).map(Right(_)).getOrElse {
      val StoreId(operator, partition, _) = input.channel
      register(TaskStart(input.attempt, operator, partition, input.epoch, channels = all))
        .map(_ => channels.remove(input.channel).get)
    }

  /** Opens a store for writing at a version. */
  def open(start: TaskStart): Either[CutsReply, Opened] = {
    val key = (start.stores.head, start.version)
    opened(start).map { result =>
      // A store that is opened again is announced again.
      stores -= key
      result
    }
  }

  /** The version to continue from, without opening the store yet. */
  def opened(start: TaskStart): Either[CutsReply, Opened] = {
    val key = (start.stores.head, start.version)
    stores.get(key).map(Right(_)).getOrElse(register(start).map(_ => stores(key)))
  }

  private def register(start: TaskStart): Either[CutsReply, TaskStarted] =
    ask(start) match {
      case StartReply(started) =>
        begun()
        started.stores.foreach { case (store, answer) => stores((store, start.version)) = answer }
        channels ++= started.channels
        Right(started)
      case other => Left(other)
    }

  /** A shuffle input has been read to its end; reported with the frames. */
  def arrived(arrival: Arrival): Unit = synchronized {
    arrivals ::= arrival
  }

  /** A store will have a frame. */
  def begin(): Unit = synchronized {
    open += 1
  }

  /**
   * A store has its frame. If it is the last store, returns when all results of the task are
   * delivered; otherwise immediately.
   *
   * @param isSmall
   *   whether the frame is in memory
   */
  def commit(isSmall: Boolean, make: () => MadeFrame)(
      deliver: (Seq[MadeFrame], Seq[Arrival]) => Unit
  ): Unit =
    if (isLast()) {
      isOver()
      val frame = make()
      deliver(awaited() :+ frame, synchronized(arrivals.reverse))
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

  /** A store is done; returns whether no other one is open. */
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

  // Each waits for a segment; as many as tasks with frames in progress.
  private val threads = Executors.newCachedThreadPool(DaemonThreads.named("cleancut-send"))

  /** The operator task of this thread's task; None outside a task. */
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
        // Regardless of the outcome.
        task.addTaskCompletionListener[Unit](_ => forget())
        var hasBegun = false
        def begun(): Unit = if (!hasBegun) {
          hasBegun = true
          task.addTaskFailureListener { (_, _) =>
            CutsClient.tell(Failed(checkpoint, runId, attempt), requestTimeoutMs)
          }
          ()
        }
        val request = ask(checkpoint, runId, _, requestTimeoutMs)
        new OperatorTask(request, () => begun(), () => forget())
      }
    )
  }

  /** Sends a request that may start the run. */
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
