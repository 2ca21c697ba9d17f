package io.cleancut.testkit

import scala.collection.mutable

import io.cleancut.base.Clock

/**
 * Requests that R2 refuses and other servers accept: a second write of a key within a second, and
 * an upload with parts of different sizes, except a smaller last part (Cloudflare's documentation
 * of R2, "Limits" and "Multipart upload"). For a [[FaultProxy]] before another server.
 */
final class R2Rules(clock: Clock) extends (HttpMessage => Option[Fault]) {
  import R2Rules._

  private val writtenMs = mutable.Map.empty[String, Long]
  private val partBytes = mutable.Map.empty[String, Map[Int, Int]]
  private var written = 0
  private val fast = mutable.ArrayBuffer.empty[String]
  private var uneven = 0

  /** Number of accepted writes of objects. */
  def writes: Int = synchronized(written)

  /** The key of each write that followed another write of the key too soon. */
  def tooFast: Seq[String] = synchronized(fast.toSeq)

  /** Number of uploads with parts of different sizes. */
  def unequal: Int = synchronized(uneven)

  override def apply(request: HttpMessage): Option[Fault] = synchronized {
    val key = request.target.takeWhile(_ != '?')
    (request.method, parameter(request, "partNumber"), parameter(request, "uploadId")) match {
      case ("PUT", Some(number), Some(upload)) =>
        val parts = partBytes.getOrElse(upload, Map.empty)
        partBytes(upload) = parts.updated(number.toInt, request.body.length)
        None
      case ("POST", None, Some(upload)) => completed(upload).orElse(write(key))
      case ("PUT", None, None)          => write(key)
      case _                            => None
    }
  }

  private def write(key: String): Option[Fault] = {
    val nowMs = clock.wallMs()
    if (writtenMs.get(key).exists(nowMs - _ < PerKeyMs)) {
      fast += key
      Some(Fault.Answer(429, "TooManyRequests"))
    } else {
      writtenMs(key) = nowMs
      written += 1
      None
    }
  }

  private def completed(upload: String): Option[Fault] = {
    val sizes = partBytes.getOrElse(upload, Map.empty).toSeq.sortBy(_._1).map(_._2)
    Option.unless(sizes.isEmpty || sizes.init.forall(_ == sizes.head) && sizes.last <= sizes.head) {
      uneven += 1
      Fault.Answer(400, "InvalidPart")
    }
  }

  private def parameter(request: HttpMessage, name: String): Option[String] =
    request.target.split('?').lift(1).flatMap { query =>
      query.split('&').map(_.split("=", 2)).collectFirst { case Array(`name`, value) => value }
    }
}

object R2Rules {
  private val PerKeyMs = 1000L
}
