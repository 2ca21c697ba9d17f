package org.apache.spark.sql.execution.streaming.state.cleancut.cuts

import java.util.concurrent.{CompletableFuture, ConcurrentHashMap, Executors, TimeUnit}

import scala.util.control.NonFatal

import org.apache.spark.SparkEnv
import org.apache.spark.internal.Logging
import org.apache.spark.rpc.{RpcCallContext, RpcEndpoint, RpcEnv}

import io.cleancut.DaemonThreads
import io.cleancut.channels.Capture
import io.cleancut.cuts.{Ack, Opened, QueryCuts, Refusal, Watch}
import io.cleancut.format.SealedFrame

/** Where executors reach the coordinators of a driver's queries. */
final private class CutsEndpoint(override val rpcEnv: RpcEnv) extends RpcEndpoint with Logging {
  // Requests of one run may wait for the store; they must not hold up the dispatcher.
  private val threads = Executors.newCachedThreadPool(DaemonThreads.named("cleancut-coordinator"))

  override def receiveAndReply(context: RpcCallContext): PartialFunction[Any, Unit] = {
    case bytes: Array[Byte] =>
      threads.execute { () =>
        try answer(CutsMessages.decode[CutsMessage](bytes), reply(context))
        catch {
          case NonFatal(e) =>
            logWarning("A task could not be answered", e)
            context.sendFailure(e)
        }
      }
  }

  override def onStop(): Unit = threads.shutdown()

  private def reply(context: RpcCallContext)(answer: CutsReply): Unit =
    context.reply(CutsMessages.encode(answer))

  private def answer(message: CutsMessage, reply: CutsReply => Unit): Unit =
    DriverCuts.of(message.location).fold(reply(NoQuery))(answer(message, _, reply))

  private def answer(message: CutsMessage, cuts: QueryCuts, reply: CutsReply => Unit): Unit =
    message match {
      case Open(_, runId, attempt, store, version, at) =>
        reply(cuts.open(runId, attempt, store, version, Some(at)).fold(Declined, OpenReply))
      case Accepted(_, store, version) =>
        reply(OpenReply(Opened(cuts.accepted(store, version), needsBase = false)))
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
}

/** The coordinators of this driver's queries, by checkpoint location. */
object DriverCuts extends Logging {
  private val queries = new ConcurrentHashMap[String, QueryCuts]
  // Of all that a driver has had, those with tasks that may be late.
  private val watched = new Watch[QueryCuts](goesOn)
  private var served = Option.empty[RpcEnv]

  // Tasks are late by tenths of a second; looking so often costs a driver next to nothing.
  private val TickMs = 10L
  private lazy val watching = {
    val timer =
      Executors.newSingleThreadScheduledExecutor(DaemonThreads.named("cleancut-barrier"))
    timer.scheduleWithFixedDelay(() => watched.look(), TickMs, TickMs, TimeUnit.MILLISECONDS)
  }

  /** Looks for tasks of a query that hold its epoch up, as long as some may. */
  private[cleancut] def watch(location: String, cuts: QueryCuts): Unit = {
    watched.add(location, cuts)
    watching
    ()
  }

  private[cleancut] def isWatched(location: String): Boolean = watched.contains(location)

  private def goesOn(cuts: QueryCuts): Boolean =
    try cuts.tick()
    catch {
      case NonFatal(e) =>
        logWarning("Stragglers could not be looked for", e)
        true
    }

  /** A run has ended. */
  private[cuts] def ended(runId: String): Unit = queries.values.forEach(_.ended(runId))

  /** The query's coordinator, where it runs on this driver. */
  def of(location: String): Option[QueryCuts] = Option(queries.get(location))

  /** Makes a coordinator for a location, if this is a driver and has none for it. */
  def serve(location: String)(make: => QueryCuts): Unit = {
    val env = SparkEnv.get
    if (env != null && env.executorId == "driver") {
      synchronized {
        if (!served.exists(_ eq env.rpcEnv)) {
          // Of an application that has ended in this process: its executors' ids are given again.
          queries.values.forEach(_.close())
          queries.clear()
          watched.clear()
          env.rpcEnv.setupEndpoint(CutsEndpoint.Name, new CutsEndpoint(env.rpcEnv))
          served = Some(env.rpcEnv)
        }
      }
      queries.computeIfAbsent(location, _ => make)
      ()
    }
  }
}
