package io.cleancut.faults

import java.net.URLDecoder
import java.nio.charset.StandardCharsets.{ISO_8859_1, UTF_8}

import scala.util.Try

import io.cleancut.format.cut.{SealedFrame, Segment}
import io.cleancut.testkit.{HttpMessage, S3Server}

/**
 * A step of the protocol: one kind of request for one kind of object, for example `cuts: create`.
 */
final case class Step(place: String, action: String) {
  override def toString: String = s"$place: $action"
}

object Step {
  private val Bucket = s"/${S3Server.Bucket}"

  /** The kinds of objects of a checkpoint, by their names below its location. */
  private val places = Seq(
    "" -> "checkpoint",
    "probe-.*" -> "write probe",
    "metadata(/.*)?" -> "query's metadata",
    "offsets(/.*)?" -> "offset log",
    "commits(/.*)?" -> "commit log",
    "sources(/.*)?" -> "source log",
    "state(/.*)?" -> "state metadata",
    "cleancut/format.json" -> "format note",
    "cleancut/owners/.*" -> "owners",
    "cleancut/cuts/.*" -> "cuts",
    "cleancut/savepoints/.*" -> "savepoints",
    "cleancut/segments/.*" -> "segments",
    "cleancut/pages/.*" -> "pages",
    "cleancut/stores/.*" -> "files before cuts"
  ).map { case (pattern, place) => pattern.r -> place }

  /** The history of epochs, which no step of a query waits for. */
  private val History = "cleancut/history/"

  /** The size limit of frames that executors send to the driver. */
  private val RideBytes = 32L << 10

  /**
   * The step of a request.
   *
   * @param prefix
   *   prefix of the names of the checkpoint's objects
   * @return
   *   None if the request is for another checkpoint, or for the history of epochs
   * @throws IllegalArgumentException
   *   if the request is no known step, because the enumeration must be complete
   */
  def of(request: HttpMessage, prefix: String): Option[Step] = {
    val (path, query) = request.target.span(_ != '?')
    val parameters = query.drop(1).split("&").map(_.split("=", 2)).toSeq
    def parameter(name: String): Option[String] =
      parameters.collectFirst { case Array(`name`, value) => URLDecoder.decode(value, UTF_8) }
    val isDelete = request.method == "POST" && query.startsWith("?delete")
    val name =
      if (isDelete) deleted(request).headOption
      else if (path.stripSuffix("/") == Bucket) parameter("prefix")
      else Some(path.stripPrefix(s"$Bucket/"))
    name.filter(_.startsWith(prefix)).filterNot(_.startsWith(prefix + History)).map { full =>
      val below = full.stripPrefix(prefix)
      val place = places.collectFirst { case (pattern, place) if pattern.matches(below) => place }
      val action = if (isDelete) "delete" else actionOf(request, query, below)
      Step(place.getOrElse(unknown(request)), action)
    }
  }

  private def actionOf(request: HttpMessage, query: String, name: String): String = {
    def has(parameter: String) = query.contains(parameter)
    request.method match {
      case "PUT" if has("partNumber=")                        => "send a part"
      case "PUT" if request.header("If-None-Match").isDefined => "create"
      case "PUT" if name.startsWith("cleancut/segments/")     => s"put ${frames(request, name)}"
      case "PUT"                                              => "put"
      case "GET" if has("uploads")                            => "list uploads"
      case "GET" if has("list-type=")                         => "list"
      case "GET" if request.header("Range").isDefined         => "read a range"
      case "GET"                                              => "read"
      case "HEAD"                                             => "head"
      case "POST" if has("uploads")                           => "begin an upload"
      case "POST" if has("uploadId=")                         => "complete an upload"
      case "DELETE" if has("uploadId=")                       => "abort an upload"
      case _                                                  => unknown(request)
    }
  }

  /** The writer of a segment: maintenance, the driver, or an executor. */
  private def frames(request: HttpMessage, name: String): String = {
    val body = request.body
    val root = name.stripPrefix("cleancut/")
    val footer = body.takeRight(Segment.footerBytes(root, body, body.length.toLong))
    val frames = Segment.parse(root, body, footer)._2
    // The driver also writes small bases, in the segment of other small frames.
    val ofTasks = frames.filter(_.attempt != SealedFrame.Maintenance)
    if (ofTasks.isEmpty) "bases"
    else if (ofTasks.exists(_.place.length > RideBytes)) "frames of an executor"
    else "frames by the driver"
  }

  private def deleted(request: HttpMessage): Seq[String] = {
    val body = new String(request.body, ISO_8859_1)
    "<Key>([^<]*)</Key>".r.findAllMatchIn(body).map(_.group(1)).toSeq
  }

  private def unknown(request: HttpMessage) =
    throw new IllegalArgumentException(s"no known step: ${request.first}")

  /** Whether a request is this step of the checkpoint, for the rules of the proxy. */
  def is(step: Step, prefix: String)(request: HttpMessage): Boolean =
    Try(of(request, prefix)).toOption.flatten.contains(step)
}
