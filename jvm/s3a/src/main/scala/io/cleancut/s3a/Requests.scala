package io.cleancut.s3a

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import io.cleancut.bench.base.Figures
import io.cleancut.testkit.{FaultProxy, HttpMessage}

/** Numbers of requests by the kinds of [[Requests.Kinds]]. */
final case class Requests(counts: Map[String, Int]) {
  def of(kind: String): Int = counts.getOrElse(kind, 0)
  def total: Int = Requests.Kinds.map(of).sum

  /** Requests that object stores bill as writes and lists. */
  def classA: Int = Seq("PUT", "COPY", "POST", "LIST").map(of).sum

  /** Requests that object stores bill as reads. Deletes are free. */
  def classB: Int = Seq("HEAD", "GET").map(of).sum

  def -(earlier: Requests): Requests =
    Requests(counts.map { case (kind, count) => kind -> (count - earlier.of(kind)) })
}

object Requests {
  val Kinds: Seq[String] = Seq("PUT", "COPY", "POST", "LIST", "HEAD", "GET", "DELETE")

  def median(all: Seq[Requests]): Requests =
    Requests(Kinds.map(kind => kind -> Figures.median(all.map(_.of(kind).toLong)).toInt).toMap)

  /** The billed kind: a copy is not a PUT, and a POST that deletes many objects is a delete. */
  def kind(request: HttpMessage): String = request.method match {
    case "PUT" if request.header("x-amz-copy-source").isDefined                 => "COPY"
    case "GET" if request.target.matches("[^?]*\\?(.*&)?(list-type|uploads).*") => "LIST"
    case "POST" if request.target.matches("[^?]*\\?(.*&)?delete.*")             => "DELETE"
    case method                                                                 => method
  }
}

/** Counts the requests of a proxy from now on. */
final class RequestCounter(proxy: FaultProxy) {
  private val counts = new ConcurrentHashMap[String, AtomicInteger]
  proxy.watch { request =>
    val kind = Requests.kind(request)
    require(Requests.Kinds.contains(kind), s"a request of no known kind: ${request.first}")
    counts.computeIfAbsent(kind, _ => new AtomicInteger).incrementAndGet()
    ()
  }

  def now: Requests =
    Requests(counts.asScala.view.mapValues(_.get).toMap)
}
