package io.cleancut.testkit

import java.io.{BufferedInputStream, IOException, InputStream}
import java.net.{InetAddress, ServerSocket, Socket}
import java.nio.charset.StandardCharsets.ISO_8859_1
import java.util.concurrent.{ConcurrentLinkedQueue, CopyOnWriteArrayList, Executors}

import scala.jdk.CollectionConverters._

/** A fault in one exchange between a client and the server of the proxy. */
sealed trait Fault

object Fault {

  /** The server receives the request after a delay. */
  final case class Delay(durationMs: Long) extends Fault

  /** The server receives no request; the client receives this response. */
  final case class Answer(status: Int, code: String, headers: Seq[String] = Nil) extends Fault

  /** The connection ends before the server receives the request. */
  case object DropRequest extends Fault

  /** The server processes the request, and the connection ends without a response. */
  case object DropAnswer extends Fault

  /** The server processes the request, and the client receives an error. */
  final case class AnswerAfter(status: Int, code: String) extends Fault

  /** The connection ends after this many bytes of the response body. */
  final case class CutBody(afterBytes: Int) extends Fault

  /** The connection stalls after this many bytes of the response body. */
  final case class StallBody(afterBytes: Int) extends Fault

  /** An action while the client reads the response body, after this many bytes. */
  final case class PauseBody(afterBytes: Int, meanwhile: () => Unit) extends Fault

  /** A bit of the response body is flipped, at this fraction of its length. */
  final case class FlipBody(at: Double) extends Fault

  /** The server receives a changed request, or the client a changed response. */
  final case class Change(
      request: HttpMessage => HttpMessage = identity,
      answer: HttpMessage => HttpMessage = identity
  ) extends Fault
}

/** A request or a response: its first line, its headers, its body. */
final case class HttpMessage(first: String, headers: Seq[(String, String)], body: Array[Byte]) {
  def method: String = first.takeWhile(_ != ' ')
  def target: String = first.split(' ')(1)
  def status: Int = target.toInt

  /** Whether this is a successful response with a body. */
  def hasContent: Boolean = status / 100 == 2 && body.nonEmpty

  def header(name: String): Option[String] =
    headers.collectFirst { case (other, value) if other.equalsIgnoreCase(name) => value }

  def without(name: String): HttpMessage =
    copy(headers = headers.filterNot(_._1.equalsIgnoreCase(name)))

  def withHeader(name: String, value: String): HttpMessage =
    copy(headers = without(name).headers :+ (name -> value))

  def withBody(bytes: Array[Byte]): HttpMessage =
    copy(body = bytes).withHeader("Content-Length", bytes.length.toString)

  def head: Array[Byte] =
    (first +: headers.map { case (name, value) => s"$name: $value" })
      .mkString("", "\r\n", "\r\n\r\n")
      .getBytes(ISO_8859_1)
}

/**
 * A request with the times at which the proxy received it and its exchange was over.
 *
 * @param beginNs
 *   by `System.nanoTime`
 */
final case class TimedRequest(request: HttpMessage, beginNs: Long, endNs: Long)

/**
 * An HTTP proxy before a server on loopback that injects faults into selected requests. Each
 * exchange has a separate connection, so a broken connection affects no other exchange.
 */
final class FaultProxy(serverPort: Int) extends AutoCloseable {
  import FaultProxy._

  private val socket = new ServerSocket(0, 100, InetAddress.getLoopbackAddress)
  private val rules = new CopyOnWriteArrayList[Rule]
  private val seen = new ConcurrentLinkedQueue[HttpMessage]
  private val watchers = new CopyOnWriteArrayList[HttpMessage => Unit]
  private val timed = new ConcurrentLinkedQueue[TimedRequest]
  private val refusals = new CopyOnWriteArrayList[HttpMessage => Option[Fault]]
  private val threads = Executors.newCachedThreadPool()
  threads.execute(() => acceptAll())

  def endpoint: String = s"http://127.0.0.1:${socket.getLocalPort}"

  /** The requests that the proxy has received, in order and without their bodies. */
  def requests: Seq[HttpMessage] = seen.asScala.toSeq

  /** The requests whose exchanges are over, without their bodies. */
  def timedRequests: Seq[TimedRequest] = timed.asScala.toSeq

  /** Calls a function with each later request, including its body. */
  def watch(see: HttpMessage => Unit): Unit = {
    watchers.add(see)
    ()
  }

  /**
   * Injects a fault into the next `times` matching requests, after those of earlier rules and after
   * `spared` more. Faults of bodies strike only responses with a body.
   */
  def harm(fault: Fault, times: Int = 1, spared: Int = 0)(
      matching: HttpMessage => Boolean
  ): Harm = {
    val rule = new Rule(fault, times, spared, matching)
    rules.add(rule)
    rule
  }

  /** Applies a rule to each request without another fault. */
  def enforce(refusal: HttpMessage => Option[Fault]): Unit = {
    refusals.add(refusal)
    ()
  }

  /** Removes all rules, watchers and requests. */
  def reset(): Unit = {
    refusals.clear()
    rules.clear()
    watchers.clear()
    seen.clear()
    timed.clear()
  }

  override def close(): Unit = {
    socket.close()
    threads.shutdownNow()
    ()
  }

  private def acceptAll(): Unit =
    try while (true) accept(socket.accept())
    catch { case _: IOException => () }

  private def accept(client: Socket): Unit = threads.execute { () =>
    try exchange(client)
    catch { case _: IOException | _: InterruptedException => () }
    finally client.close()
  }

  private def exchange(client: Socket): Unit =
    readRequest(client).foreach { request =>
      val beginNs = System.nanoTime()
      val bare = request.copy(body = Array.emptyByteArray)
      seen.add(bare)
      try respond(client, request)
      finally {
        timed.add(TimedRequest(bare, beginNs, System.nanoTime()))
        ()
      }
    }

  private def respond(client: Socket, request: HttpMessage): Unit = {
    watchers.forEach(_(request))
    val rule = rules.asScala.find(_.takes(request))
    def refused = refusals.asScala.iterator.flatMap(_(request)).nextOption()
    rule.map(_.fault).orElse(refused) match {
      case Some(Fault.DropRequest) => ()
      case Some(Fault.DropAnswer)  =>
        forward(request)
        ()
      case Some(Fault.Answer(status, code, headers)) => send(client, error(status, code, headers))
      case Some(Fault.AnswerAfter(status, code))     =>
        forward(request)
        send(client, error(status, code, Nil))
      case Some(Fault.Delay(durationMs)) =>
        Thread.sleep(durationMs)
        send(client, forward(request))
      case Some(Fault.Change(changed, answered)) =>
        send(client, answered(forward(changed(request))))
      case Some(
            fault @ (_: Fault.CutBody | _: Fault.StallBody | _: Fault.PauseBody | _: Fault.FlipBody)
          ) =>
        val answer = forward(request)
        if (answer.hasContent) harmBody(client, answer, fault)
        else {
          rule.foreach(_.giveBack())
          send(client, answer)
        }
      case None => send(client, forward(request))
    }
  }

  private def harmBody(client: Socket, answer: HttpMessage, fault: Fault): Unit = fault match {
    case Fault.CutBody(afterBytes)   => sendPart(client, answer, afterBytes)
    case Fault.StallBody(afterBytes) =>
      sendPart(client, answer, afterBytes)
      // Waits until the client closes the connection, or the test ends.
      client.getInputStream.read()
      ()
    case Fault.PauseBody(afterBytes, meanwhile) =>
      sendPart(client, answer, afterBytes)
      meanwhile()
      client.getOutputStream.write(answer.body.drop(afterBytes))
    case Fault.FlipBody(at) =>
      val body = answer.body.clone()
      val place = Math.min((at * body.length).toInt, body.length - 1)
      body(place) = (body(place) ^ 1).toByte
      send(client, answer.withBody(body))
    case other => throw new IllegalArgumentException(s"not a fault of a body: $other")
  }

  private def readRequest(client: Socket): Option[HttpMessage] =
    readMessage(
      new BufferedInputStream(client.getInputStream),
      beforeBody = head =>
        if (head.header("Expect").isDefined) {
          client.getOutputStream.write("HTTP/1.1 100 Continue\r\n\r\n".getBytes(ISO_8859_1))
          client.getOutputStream.flush()
        }
    )

  private def forward(request: HttpMessage): HttpMessage = {
    val server = new Socket(InetAddress.getLoopbackAddress, serverPort)
    try {
      val out = server.getOutputStream
      // The client has already received the response to continue.
      val plain = request.without("Expect").withHeader("Connection", "close")
      out.write(plain.head ++ request.body)
      out.flush()
      val isBodiless = request.method == "HEAD"
      readMessage(new BufferedInputStream(server.getInputStream), isBodiless)
        .getOrElse(throw new IOException("the server has closed the connection"))
    } finally server.close()
  }
}

object FaultProxy {

  /** An injected fault. */
  trait Harm {

    /** Number of strikes, so that a test can check that the fault happened. */
    def strikes: Int

    /** Removes the fault. */
    def end(): Unit
  }

  final private class Rule(
      val fault: Fault,
      times: Int,
      spared: Int,
      matching: HttpMessage => Boolean
  ) extends Harm {
    private var met = 0
    private var taken = 0
    private var isOver = false
    override def strikes: Int = synchronized(taken)
    override def end(): Unit = synchronized { isOver = true }
    def giveBack(): Unit = synchronized(taken -= 1)
    def takes(request: HttpMessage): Boolean = synchronized {
      val isMet = !isOver && taken < times && matching(request)
      if (isMet) met += 1
      val isTaken = isMet && met > spared
      if (isTaken) taken += 1
      isTaken
    }
  }

  private def send(client: Socket, message: HttpMessage): Unit =
    sendPart(client, message, message.body.length)

  private def sendPart(client: Socket, message: HttpMessage, bytes: Int): Unit = {
    val out = client.getOutputStream
    out.write(message.withHeader("Connection", "close").head ++ message.body.take(bytes))
    out.flush()
  }

  private def error(status: Int, code: String, headers: Seq[String]): HttpMessage = {
    val body = s"<?xml version=\"1.0\"?><Error><Code>$code</Code><Message>by test</Message></Error>"
    val pairs = headers.map(_.split(": ", 2)).map(pair => pair(0) -> pair(1))
    HttpMessage(s"HTTP/1.1 $status $code", pairs :+ ("Content-Type" -> "application/xml"), Array())
      .withBody(body.getBytes(ISO_8859_1))
  }

  private def readMessage(
      in: InputStream,
      isBodiless: Boolean = false,
      beforeBody: HttpMessage => Unit = _ => ()
  ): Option[HttpMessage] =
    readLine(in).map { first =>
      val headers = Iterator
        .continually(readLine(in).getOrElse(""))
        .takeWhile(_.nonEmpty)
        .map(_.split(":", 2))
        .map(pair => pair(0) -> pair(1).trim)
        .toSeq
      val message = HttpMessage(first, headers, Array.emptyByteArray)
      beforeBody(message)
      if (isBodiless) message else readBody(in, message)
    }

  private def readBody(in: InputStream, message: HttpMessage): HttpMessage =
    (message.header("Content-Length"), message.header("Transfer-Encoding")) match {
      case (Some(length), _) => message.copy(body = in.readNBytes(length.toInt))
      case (None, Some(_))   =>
        message.without("Transfer-Encoding").withBody(readChunks(in))
      // A response may end with its connection; a request cannot.
      case _ if message.first.startsWith("HTTP/") => message.withBody(in.readAllBytes())
      case _                                      => message
    }

  private def readChunks(in: InputStream): Array[Byte] =
    Iterator
      .continually(Integer.parseInt(readLine(in).getOrElse("0").trim, 16))
      .takeWhile(_ > 0)
      .map { size =>
        val chunk = in.readNBytes(size)
        readLine(in)
        chunk
      }
      .foldLeft(Array.emptyByteArray)(_ ++ _)

  private def readLine(in: InputStream): Option[String] = {
    val line = Iterator.continually(in.read()).takeWhile(b => b >= 0 && b != '\n').map(_.toByte)
    val bytes = line.toArray
    if (bytes.isEmpty) None else Some(new String(bytes, ISO_8859_1).stripSuffix("\r"))
  }
}
