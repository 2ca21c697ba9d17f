package io.cleancut.bench.commits

import java.nio.ByteBuffer
import java.util.concurrent.ConcurrentSkipListMap
import java.util.concurrent.atomic.LongAdder

import scala.jdk.CollectionConverters._

import io.cleancut.base.Clock
import io.cleancut.objectstore.{
  CreateResult,
  KindCounts,
  Listed,
  MultipartUpload,
  ObjectInfo,
  ObjectKey,
  ObjectPrefix,
  ObjectStore,
  Piece,
  RangeResult,
  RequestCounts,
  RequestKind,
  WriterToken
}

/**
 * Objects in memory, with a configured latency per request. The objects are outside the heap: large
 * arrays occupy complete G1 regions and would dominate measurements of the heap.
 *
 * @param delayMs
 *   latency of each request; may be changed at any time
 */
final class MemoryStore(@volatile var delayMs: Long) extends ObjectStore {
  import MemoryStore._

  private val objects = new ConcurrentSkipListMap[String, Stored]
  private val requests = RequestKind.values.map(_ -> new LongAdder).toMap
  private val sentBytes = new LongAdder
  private val receivedBytes = new LongAdder

  override def location: String = "memory"

  override def put(key: ObjectKey, body: Array[Byte]): Unit = {
    write(RequestKind.Put, body)
    objects.put(key.name, Stored.of(body, None))
    ()
  }

  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult = {
    write(RequestKind.Create, body)
    Option(objects.putIfAbsent(key.name, Stored.of(body, Some(token))))
      .fold[CreateResult](CreateResult.Created)(existing => CreateResult.Exists(existing.token))
  }

  override def get(key: ObjectKey): Option[Array[Byte]] = {
    request(RequestKind.Get)
    val body = Option(objects.get(key.name)).map(stored => stored.slice(0, stored.size))
    body.foreach(bytes => receivedBytes.add(bytes.length.toLong))
    body
  }

  override def getRange(key: ObjectKey, offset: Long, length: Int): RangeResult =
    getPiece(key, offset, length) match {
      case None                                        => RangeResult.Missing
      case Some(piece) if piece.bytes.length == length => RangeResult.Found(piece.bytes)
      case Some(piece)                                 => RangeResult.TooShort(piece.objectBytes)
    }

  override def getPiece(key: ObjectKey, offset: Long, maxLength: Int): Option[Piece] = {
    request(RequestKind.GetRange)
    Option(objects.get(key.name)).map { stored =>
      val from = Math.min(offset, stored.size.toLong).toInt
      val bytes = stored.slice(from, Math.min(maxLength, stored.size - from))
      receivedBytes.add(bytes.length.toLong)
      Piece(offset, bytes, stored.size.toLong)
    }
  }

  override def head(key: ObjectKey): Option[ObjectInfo] = {
    request(RequestKind.Head)
    Option(objects.get(key.name)).map(info(key.name, _))
  }

  override def list(prefix: ObjectPrefix): Iterator[ObjectInfo] = {
    val names = objects
      .tailMap(prefix.name, true)
      .asScala
      .iterator
      .takeWhile(_._1.startsWith(prefix.name))
      .map { case (name, stored) => info(name, stored) }
      .toSeq
    (0 to names.size / PageSize).foreach(_ => request(RequestKind.ListPage))
    names.iterator
  }

  override def delete(keys: Seq[ObjectKey]): Unit = keys.grouped(PageSize).foreach { some =>
    request(RequestKind.Delete)
    some.foreach(key => objects.remove(key.name))
  }

  override def dropUnfinished(beforeMs: Long, below: ObjectPrefix): Int = 0

  override def listLevel(prefix: ObjectPrefix): Iterator[Listed] = unsupported("listLevel")

  override def upload(key: ObjectKey, partBytes: Int, token: WriterToken): MultipartUpload =
    unsupported("upload")

  override def counts: RequestCounts = RequestCounts(
    requests.map { case (kind, count) => kind -> KindCounts(count.sum, 0, 0) },
    sentBytes.sum,
    receivedBytes.sum
  )

  override def close(): Unit = objects.clear()

  private def write(kind: RequestKind, body: Array[Byte]): Unit = {
    request(kind)
    sentBytes.add(body.length.toLong)
  }

  private def request(kind: RequestKind): Unit = {
    requests(kind).increment()
    if (delayMs > 0) Thread.sleep(delayMs)
  }

  private def unsupported(what: String) =
    throw new UnsupportedOperationException(s"$what is not used by any benchmark")
}

object MemoryStore {
  private val PageSize = 1000

  final private case class Stored(body: ByteBuffer, token: Option[WriterToken]) {
    def size: Int = body.capacity

    def slice(from: Int, length: Int): Array[Byte] = {
      val bytes = new Array[Byte](length)
      body.duplicate().position(from).get(bytes)
      bytes
    }
  }

  private object Stored {
    def of(body: Array[Byte], token: Option[WriterToken]): Stored =
      Stored(ByteBuffer.allocateDirect(body.length).put(body), token)
  }

  private def info(name: String, stored: Stored) =
    ObjectInfo(ObjectKey(name), stored.size.toLong, Clock.System.wallMs())
}
