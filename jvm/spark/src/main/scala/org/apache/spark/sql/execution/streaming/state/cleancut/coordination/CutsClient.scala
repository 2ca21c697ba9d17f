package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.util.concurrent.TimeUnit

import scala.concurrent.duration._
import scala.util.control.NonFatal

import org.apache.spark.{SparkEnv, SparkException}
import org.apache.spark.rpc.{RpcEndpointRef, RpcEnv, RpcTimeout}
import org.apache.spark.util.RpcUtils

import io.cleancut.base.Clock

/** Sends requests to the coordinator on the driver, from any process of the application. */
private[cleancut] object CutsClient {
  // Endpoint of this process.
  private[coordination] var known = Option.empty[(RpcEnv, RpcEndpointRef)]

  // A coordinator that waits for a slow store answers late; a lost one never answers.
  private val LeastPatience = 120.seconds
  private val BesideRequest = 60.seconds
  private val Attempts = 3
  private val FirstPauseMs = 200L

  /**
   * The answer; [[NoQuery]] if no coordinator is reachable.
   *
   * @param requestTimeoutMs
   *   longest time that a request of the coordinator to its store may take before it answers; 0 if
   *   it is not known
   */
  def ask(message: CutsMessage, clock: Clock, requestTimeoutMs: Long): CutsReply =
    endpoint() match {
      case None      => NoQuery
      case Some(ref) =>
        ask(ref, CutsMessages.encode(message), clock, patience(requestTimeoutMs), attempt = 1)
    }

  /** Sends a message without waiting for an answer. */
  def tell(message: CutsMessage, requestTimeoutMs: Long): Unit =
    endpoint().foreach { ref =>
      ref.ask[Array[Byte]](CutsMessages.encode(message), patience(requestTimeoutMs))
    }

  private[coordination] def patience(requestTimeoutMs: Long): RpcTimeout = {
    val limit = requestTimeoutMs.milliseconds + BesideRequest
    new RpcTimeout(limit.max(LeastPatience), "cleancut.coordinator")
  }

  // All requests can be repeated: the coordinator recognizes repeated messages.
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

  /** None outside an application, or if its driver has no coordinator. */
  private def endpoint(): Option[RpcEndpointRef] = synchronized {
    Option(SparkEnv.get).flatMap { env =>
      known.collect { case (rpcEnv, ref) if rpcEnv eq env.rpcEnv => ref }.orElse {
        val reference = find(env)
        known = reference.map(env.rpcEnv -> _)
        reference
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
