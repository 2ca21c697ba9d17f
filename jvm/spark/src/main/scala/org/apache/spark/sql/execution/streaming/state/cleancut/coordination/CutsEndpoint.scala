package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.util.concurrent._

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.rpc.{RpcCallContext, RpcEndpoint, RpcEnv}

import io.cleancut.base.DaemonThreads
import io.cleancut.coordinator.QueryCoordinator
import io.cleancut.protocol.{Ack, Refusal}
import io.cleancut.conf.Capture

/**
 * RPC endpoint of the coordinators of a driver's queries. Requests that wait for the start of a
 * run, or for a durable frame, occupy no thread here: each query has separate request threads, so
 * that no query waits for the store of another one.
 */
final private class CutsEndpoint(
    override val rpcEnv: RpcEnv,
    coordinatorFor: CutsMessage => Either[CutsReply, QueryCoordinator],
    patienceMs: Long = CutsEndpoint.PatienceMs
) extends RpcEndpoint
    with Logging {
  // Decoded messages may be large, which must not delay the dispatcher.
  private val threads =
    DaemonThreads.pool("cleancut-coordinator", CutsEndpoint.MaxThreads)

  override def receiveAndReply(context: RpcCallContext): PartialFunction[Any, Unit] = {
    case bytes: Array[Byte] =>
      threads.execute { () =>
        guarded(context)(received(CutsMessages.decode[CutsMessage](bytes), context))
      }
  }

  override def onStop(): Unit = threads.shutdown()

  private def guarded(context: RpcCallContext)(body: => Unit): Unit =
    try body
    catch {
      case NonFatal(e) =>
        logWarning("A task could not be answered", e)
        context.sendFailure(e)
    }

  private def reply(context: RpcCallContext)(answer: CutsReply): Unit =
    context.reply(CutsMessages.encode(answer))

  private def received(message: CutsMessage, context: RpcCallContext): Unit =
    (coordinatorFor(message), message) match {
      case (Left(answer), _)               => reply(context)(answer)
      case (Right(cuts), that: RunMessage) =>
        val ready = cuts.ready(that.runId, that.opens, that.writes)
        if (ready.isDone && !ready.isCompletedExceptionally) answer(message, cuts, reply(context))
        else answerAfter(ready, that, cuts, context)
      case (Right(cuts), _) => answer(message, cuts, reply(context))
    }

  private def answerAfter(
      ready: CompletableFuture[Unit],
      message: RunMessage,
      cuts: QueryCoordinator,
      context: RpcCallContext
  ): Unit = {
    val limitMs = Math.max(patienceMs, cuts.requestTimeoutMs)
    val limited = ready.copy().orTimeout(limitMs, TimeUnit.MILLISECONDS)
    limited.whenCompleteAsync(
      (_, failure) =>
        guarded(context)(failure match {
          case null                => answer(message, cuts, reply(context))
          case _: TimeoutException => reply(context)(Declined(late(message, limitMs)))
          case e                   => throw causeOf(e)
        }),
      threads
    )
    ()
  }

  private def late(message: RunMessage, limitMs: Long) = Refusal.Failed(
    s"the driver has waited for ${limitMs / 1000} s for run ${message.runId} to begin: it " +
      s"reads the last cut and the commit log at ${message.location}, and writes its owner object"
  )

  private def answer(message: CutsMessage, cuts: QueryCoordinator, reply: CutsReply => Unit): Unit =
    message match {
      case Start(location, runId, task) =>
        val started = cuts.start(runId, task)
        for (done <- started; at <- task.at)
          StoreHomes.opened(location, done.stores.keys, at)
        if (task.channels.exists(_.capture != Capture.Off)) DriverCuts.watch(location)
        reply(started.fold(Declined, StartReply))
      case Accepted(_, store, version) =>
        reply(AcceptedReply(cuts.accepted(store, version)))
      case ChainRequest(_, runId, store, version) =>
        reply(cuts.chain(runId, store, version).fold(Declined, ChainReply))
      case question: AskBases        => reply(StoreHomes.basesFor(question, cuts))
      case Failed(_, runId, attempt) =>
        cuts.fail(runId, attempt)
        reply(Noted)
      case Deliver(_, runId, made, from) =>
        cuts.recordSender(runId, made.attempt, from.toSender)
        cuts.deliver(runId, made).fold(why => reply(Declined(why)), replyWhenDone(_, reply))
      case Arrived(_, runId, attempt, arrival) =>
        reply(
          cuts.arrived(runId, attempt, arrival.report, arrival.reading).fold(Declined, _ => Noted)
        )
      case AwaitOvertaken(location, runId, executor, known) =>
        cuts
          .awaitOvertaken(runId, executor, known)
          .thenAccept(attempts => reply(OvertakenReply(attempts)))
        DriverCuts.watch(location)
      case Writer(_, runId) =>
        reply(cuts.writer(runId).fold(Declined, run => WriterReply(run.generation)))
      case Announce(_, runId, segment, version) =>
        reply(cuts.announce(runId, segment, version).fold(Declined, _ => Noted))
    }

  private def replyWhenDone(
      done: CompletableFuture[Seq[Option[Ack]]],
      reply: CutsReply => Unit
  ): Unit = {
    done.whenComplete { (acks, error) =>
      reply(
        if (error == null) DeliverReply(acks) else Declined(Refusal.Failed(causeOf(error).toString))
      )
    }
    ()
  }

  private def causeOf(error: Throwable): Throwable = error match {
    case wrapped: CompletionException => Option(wrapped.getCause).getOrElse(wrapped)
    case other                        => other
  }
}

private object CutsEndpoint {
  val Name = "CleancutCoordinator"

  // Shared by all queries: answers take microseconds.
  private val MaxThreads = 32

  // Shorter than an executor waits for an answer, so that it receives the reason. If a request may
  // take longer, the start and the executor's wait may, too.
  private val PatienceMs = 100_000L
}
