package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.util.concurrent.TimeUnit

import scala.concurrent.duration._
import scala.util.control.NonFatal

import org.apache.spark.{SparkEnv, SparkException}
import org.apache.spark.rpc.{RpcEndpointRef, RpcEnv, RpcTimeout}
import org.apache.spark.util.RpcUtils

import io.cleancut.base.Clock

/** Asks the coordinator on the driver, from any process of the application. */
private[cleancut] object CutsClient {
  // Of this process.
  private[coordination] var known = Option.empty[(RpcEnv, RpcEndpointRef)]

  // A coordinator that is busy with a slow store answers late; one that is gone never does.
  private val LeastPatience = 120.seconds
  private val BesideRequest = 60.seconds
  private val Attempts = 3
  private val FirstPauseMs = 200L

  /**
   * The answer; [[NoQuery]] where no coordinator can be reached at all.
   *
   * @param requestTimeoutMs
   *   how long the coordinator may be at a request to its store before it can answer, 0 where that
   *   is not known
   */
  def ask(message: CutsMessage, clock: Clock, requestTimeoutMs: Long): CutsReply =
    endpoint() match {
      case None      => NoQuery
      case Some(ref) =>
        ask(ref, CutsMessages.encode(message), clock, patience(requestTimeoutMs), attempt = 1)
    }

  /** Tells it without waiting. */
  def tell(message: CutsMessage, requestTimeoutMs: Long): Unit =
    endpoint().foreach { ref =>
      ref.ask[Array[Byte]](CutsMessages.encode(message), patience(requestTimeoutMs))
    }

  private[coordination] def patience(requestTimeoutMs: Long): RpcTimeout = {
    val asked = requestTimeoutMs.milliseconds + BesideRequest
    new RpcTimeout(asked.max(LeastPatience), "cleancut.coordinator")
  }

  // All that is asked may be asked again: the coordinator knows what it has been told.
  @annotation.tailrec
  private def ask(
      ref: RpcEndpointRef,
      message: Array[Byte],
      clock: Clock,
      patience: RpcTimeout,
      attempt: Int
  ): CutsReply = {
    val answer =
      try Right(CutsMessages.decode[CutsReply](ref.askSync[Array[Byte]](message, patience)))
      catch { case NonFatal(e) if attempt < Attempts => Left(e) }
    answer match {
      case Right(reply) => reply
      case Left(_)      =>
        clock.sleep(FirstPauseMs << (attempt - 1), TimeUnit.MILLISECONDS)
        ask(ref, message, clock, patience, attempt + 1)
    }
  }

  /** None outside of an application, or where its driver has no coordinator. */
  private def endpoint(): Option[RpcEndpointRef] = synchronized {
    Option(SparkEnv.get).flatMap { env =>
      known.collect { case (rpcEnv, ref) if rpcEnv eq env.rpcEnv => ref }.orElse {
        val found = find(env)
        known = found.map(env.rpcEnv -> _)
        found
      }
    }
  }

  private def find(env: SparkEnv): Option[RpcEndpointRef] =
    try
      if (env.executorId == "driver") {
        Some(env.rpcEnv.setupEndpointRef(env.rpcEnv.address, CutsEndpoint.Name))
      } else Some(RpcUtils.makeDriverRef(CutsEndpoint.Name, env.conf, env.rpcEnv))
    catch { case _: SparkException | _: NullPointerException => None }
}
