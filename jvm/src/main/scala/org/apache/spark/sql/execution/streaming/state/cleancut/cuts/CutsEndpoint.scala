package org.apache.spark.sql.execution.streaming.state.cleancut.cuts

import java.util.concurrent._

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.rpc.{RpcCallContext, RpcEndpoint, RpcEnv}

import io.cleancut.DaemonThreads
import io.cleancut.channels.Capture
import io.cleancut.cuts.{Ack, Opened, QueryCuts, Refusal}
import io.cleancut.format.SealedFrame

/**
 * Where executors reach the coordinators of a driver's queries. What waits for a run to begin, or
 * for a frame to be durable, holds no thread here: each query has its own for requests, so that no
 * query waits for the store of another one.
 */
final private class CutsEndpoint(
    override val rpcEnv: RpcEnv,
    coordinatorFor: CutsMessage => Either[CutsReply, QueryCuts],
    patienceMs: Long = CutsEndpoint.PatienceMs
) extends RpcEndpoint
    with Logging {
  // What a message is turned into may be large; that must not hold up the dispatcher.
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
        val ready = cuts.ready(that.runId, that.opens)
        if (ready.isDone && !ready.isCompletedExceptionally) answer(message, cuts, reply(context))
        else answerAfter(ready, that, cuts, context)
      case (Right(cuts), _) => answer(message, cuts, reply(context))
    }

  private def answerAfter(
      ready: CompletableFuture[Unit],
      message: RunMessage,
      cuts: QueryCuts,
      context: RpcCallContext
  ): Unit = {
    val limitMs = Math.max(patienceMs, cuts.requestTimeoutMs)
    val limited = ready.copy().orTimeout(limitMs, TimeUnit.MILLISECONDS)
    limited.whenCompleteAsync(
      (_, failure) =>
        guarded(context)(failure match {
          case null                   => answer(message, cuts, reply(context))
          case _: TimeoutException    => reply(context)(Declined(late(message, limitMs)))
          case e: CompletionException => throw Option(e.getCause).getOrElse(e)
          case e                      => throw e
        }),
      threads
    )
    ()
  }

  private def late(message: RunMessage, limitMs: Long) = Refusal.Failed(
    s"the driver has waited for ${limitMs / 1000} s for run ${message.runId} to begin: it " +
      s"reads the last cut and the commit log at ${message.location}, and notes there that it does"
  )

  private def answer(message: CutsMessage, cuts: QueryCuts, reply: CutsReply => Unit): Unit =
    message match {
      case Open(location, runId, attempt, store, version, at) =>
        DriverHomes.opened(location, store, at)
        reply(cuts.open(runId, attempt, store, version, Some(at)).fold(Declined, OpenReply))
      case Accepted(_, store, version) =>
        reply(OpenReply(Opened(cuts.accepted(store, version), needsBase = false)))
      case ChainOf(_, runId, store, version) =>
        reply(cuts.chain(runId, store, version).fold(Declined, ChainReply))
      case question: AskBases        => reply(DriverHomes.asked(question, cuts))
      case Failed(_, runId, attempt) =>
        cuts.fail(runId, attempt)
        reply(Noted)
      case Report(_, runId, frame, from) =>
        cuts.heard(runId, frame.attempt, from.toSender)
        replyWhenDone(cuts.report(runId, frame), reply)
      case OpenChannel(location, runId, task) =>
        val opened = cuts.openChannel(runId, task)
        if (task.capture != Capture.Off) DriverCuts.watch(location, cuts)
        reply(opened.fold(Declined, ChannelReply))
      case Arrived(_, runId, attempt, report, reading) =>
        reply(cuts.arrived(runId, attempt, report, reading).fold(Declined, _ => Noted))
      case AwaitOvertaken(location, runId, executor, known) =>
        cuts.awaitOvertaken(runId, executor, known).thenAccept(told => reply(OvertakenReply(told)))
        DriverCuts.watch(location, cuts)
      case Writer(_, runId) =>
        reply(cuts.writer(runId).fold(Declined, run => WriterReply(run.generation)))
      case Announce(_, runId, segment, version) =>
        reply(cuts.announce(runId, segment, version).fold(Declined, _ => Noted))
      case Submit(_, runId, frame, attempt, bytes, from) =>
        cuts.heard(runId, attempt, from.toSender)
        cuts.submit(runId, SealedFrame(frame, attempt, bytes)) match {
          case None       => reply(Full)
          case Some(done) => replyWhenDone(done, reply)
        }
    }

  private def replyWhenDone(done: CompletableFuture[Ack], reply: CutsReply => Unit): Unit = {
    done.whenComplete { (ack, error) =>
      reply(if (error == null) AckReply(ack) else Declined(Refusal.Failed(error.toString)))
    }
    ()
  }
}

private object CutsEndpoint {
  val Name = "CleancutCoordinator"

  // For all queries: answers take microseconds.
  private val MaxThreads = 32

  // Less than an executor waits for an answer, so that it is told what is waited for. Where a
  // request may take longer, so may the start, and the executor waits for that, too.
  private val PatienceMs = 100_000L
}
