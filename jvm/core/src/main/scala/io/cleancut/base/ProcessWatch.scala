package io.cleancut.base

import java.io.IOException
import java.net.{ConnectException, InetSocketAddress, NoRouteToHostException, Socket}
import java.net.SocketTimeoutException

import scala.util.control.NonFatal

import jdk.net.ExtendedSocketOptions.{TCP_KEEPCOUNT, TCP_KEEPIDLE, TCP_KEEPINTERVAL}

/** Detects the death of a process. For one thread at a time. */
trait ProcessWatch extends AutoCloseable {

  /**
   * Whether the process has ended. The answer may be wrong if the network fails.
   *
   * @param waitMs
   *   how long to wait for its death
   */
  def isGone(waitMs: Long): Boolean

  override def close(): Unit = ()
}

object ProcessWatch {

  /** A process that cannot be watched counts as running. */
  val Unknown: ProcessWatch = _ => false

  /**
   * @param address
   *   `host:port` at which the process accepts connections
   * @param isHere
   *   whether it is on this host, and its address may be a loopback address
   */
  def of(address: Option[String], isHere: Boolean): ProcessWatch = address
    .flatMap(parse)
    .filter(isHere || !_.getAddress.isLoopbackAddress)
    .fold(Unknown)(new Connected(_))

  /** None if the name is unknown here. */
  private def parse(text: String): Option[InetSocketAddress] =
    try {
      val colon = text.lastIndexOf(':')
      val host = text.take(colon).stripPrefix("[").stripSuffix("]")
      val address = new InetSocketAddress(host, text.drop(colon + 1).toInt)
      Option.when(!address.isUnresolved)(address)
    } catch { case NonFatal(_) => None }

  /**
   * Watches a process by a connection on which nothing is sent. The kernel of its host closes it
   * when the process ends. If the host or the network fails, keep-alive probes find that. A
   * connection may also be closed for other reasons, so a new one decides. A first connection that
   * is not answered shows nothing: a firewall may drop it.
   */
  private class Connected(address: InetSocketAddress) extends ProcessWatch {
    private var connection = Option.empty[Socket]
    private var hasConnected = false
    private var unanswered = 0

    override def isGone(waitMs: Long): Boolean =
      if (isBlocked || connection.exists(isOpen(_, waitMs))) false
      else {
        close()
        cannotConnect()
      }

    override def close(): Unit = {
      connection.foreach(_.close())
      connection = None
    }

    private def isBlocked = unanswered > 0 && !hasConnected

    private def isOpen(socket: Socket, waitMs: Long): Boolean =
      try {
        socket.setSoTimeout(Math.max(waitMs, 1L).toInt)
        socket.getInputStream.read() >= 0
      } catch {
        case _: SocketTimeoutException => true
        case _: IOException            => false
      }

    private def cannotConnect(): Boolean = {
      val socket = new Socket
      try {
        socket.connect(address, ConnectMs)
        keepAlive(socket)
        connection = Some(socket)
        hasConnected = true
        unanswered = 0
        false
      } catch {
        case e: IOException =>
          socket.close()
          e match {
            case _: NoRouteToHostException | _: SocketTimeoutException =>
              unanswered += 1
              hasConnected && unanswered >= MaxUnanswered
            case other => other.isInstanceOf[ConnectException]
          }
      }
    }
  }

  private def keepAlive(socket: Socket): Unit = {
    socket.setKeepAlive(true)
    for (option <- Seq(TCP_KEEPIDLE, TCP_KEEPINTERVAL) if socket.supportedOptions.contains(option))
      socket.setOption[Integer](option, KeepAliveS)
    if (socket.supportedOptions.contains(TCP_KEEPCOUNT))
      socket.setOption[Integer](TCP_KEEPCOUNT, MaxUnanswered)
    ()
  }

  private val ConnectMs = 1000
  private val KeepAliveS = 1
  private val MaxUnanswered = 3
}
