package io.cleancut.objectstore

import java.io.IOException

import scala.collection.mutable

import io.cleancut.base.Clock
import io.cleancut.objectstore.s3.{RetryLoop, RetryPolicy, Verdict}

/** The network between a process and the bucket. */
trait SimulatedNetwork {

  /**
   * One attempt at a request. It may wait, throw before or after the effect, or delay the effect,
   * whose response is then lost.
   *
   * @param effect
   *   effect on the bucket, at most once for each call
   */
  def request[A](kind: RequestKind, effect: () => A): A
}

/** A missing response, or one that requests a retry. */
final class SimulatedFault(message: String) extends IOException(message)

/** The bucket as one process sees it, with the retry loop of the real client. */
final class SimulatedStore(
    override val location: String,
    bucket: SimulatedBucket,
    network: SimulatedNetwork,
    clock: Clock,
    pageSize: Int
) extends ObjectStore {
  import SimulatedStore._

  private val counter = new RequestCounter
  private val loop = new RetryLoop(Policy, clock, counter, judge)

  override def put(key: ObjectKey, body: Array[Byte]): Unit =
    request(RequestKind.Put, key.name)(bucket.put(key.name, body, None, clock.wallMs()))

  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult =
    loop(RequestKind.Create, key.name) { _ =>
      def write() = bucket.putIfAbsent(key.name, body, token.text, clock.wallMs())
      if (network.request(RequestKind.Create, () => write())) CreateResult.Created
      else {
        val existing = request(RequestKind.Head, key.name)(bucket.get(key.name))
        val stored = existing.getOrElse(throw new SimulatedFault(s"${key.name} was deleted"))
        if (stored.token.contains(token.text)) CreateResult.Created
        else CreateResult.Exists(stored.token.map(WriterToken(_)))
      }
    }

  override def get(key: ObjectKey): Option[Array[Byte]] =
    request(RequestKind.Get, key.name)(bucket.get(key.name).map(_.body))

  override def getRange(key: ObjectKey, offset: Long, length: Int): RangeResult =
    request(RequestKind.GetRange, key.name)(bucket.get(key.name)) match {
      case None                                                 => RangeResult.Missing
      case Some(stored) if stored.body.length < offset + length =>
        RangeResult.TooShort(stored.body.length.toLong)
      case Some(stored) => RangeResult.Found(stored.body.slice(offset.toInt, offset.toInt + length))
    }

  override def getPiece(key: ObjectKey, offset: Long, maxLength: Int): Option[Piece] =
    request(RequestKind.GetRange, key.name)(bucket.get(key.name)).map { stored =>
      val bytes = stored.body.drop(offset.toInt).take(maxLength)
      Piece(offset, bytes, stored.body.length.toLong)
    }

  override def head(key: ObjectKey): Option[ObjectInfo] =
    request(RequestKind.Head, key.name)(bucket.get(key.name)).map(info(key.name, _))

  override def list(prefix: ObjectPrefix): Iterator[ObjectInfo] =
    Iterator
      .unfold(Option("")) {
        _.map { after =>
          val page =
            request(RequestKind.ListPage, prefix.name)(bucket.page(prefix.name, after, pageSize))
          (page, if (page.size < pageSize) None else page.lastOption.map(_._1))
        }
      }
      .flatten
      .map { case (name, stored) => info(name, stored) }

  override def listLevel(prefix: ObjectPrefix): Iterator[Listed] = {
    val (deep, here) =
      list(prefix).toSeq.partition(_.key.name.indexOf('/', prefix.name.length) >= 0)
    val below = deep.map(_.key.name).map { name =>
      ObjectPrefix(name.substring(0, name.indexOf('/', prefix.name.length) + 1))
    }
    here.iterator.map(Listed.Here(_)) ++ below.distinct.map(Listed.Below(_))
  }

  /** Drops nothing: parts are lost with the process that sent them. */
  override def dropUnfinished(beforeMs: Long, below: ObjectPrefix): Int = 0

  override def delete(keys: Seq[ObjectKey]): Unit =
    request(RequestKind.Delete, s"${keys.size} objects")(keys.foreach(k => bucket.delete(k.name)))

  override def upload(key: ObjectKey, partBytes: Int, token: WriterToken): MultipartUpload =
    new MultipartUpload {
      private val parts = mutable.TreeMap.empty[Int, Array[Byte]]
      override def part(number: Int, body: Array[Byte]): Unit =
        request(RequestKind.UploadPart, key.name) { parts(number) = body }
      override def complete(): Unit = put(key, parts.values.toArray.flatten)
      override def abort(): Unit = parts.clear()
    }

  override def counts: RequestCounts = counter.now

  override def close(): Unit = ()

  private def request[A](kind: RequestKind, target: String)(effect: => A): A =
    loop(kind, target)(_ => network.request(kind, () => effect))

  private def info(name: String, stored: SimulatedBucket.Stored) =
    ObjectInfo(ObjectKey(name), stored.body.length.toLong, stored.modifiedMs)
}

private object SimulatedStore {
  private val Policy = RetryPolicy(deadlineMs = 1000)

  private def judge(failure: Throwable): Verdict = failure match {
    case _: SimulatedFault => Verdict.Retry(0)
    case other             => Verdict.Refuse(other.toString)
  }
}
