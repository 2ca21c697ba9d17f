package io.cleancut.coordinator

import io.cleancut.objectstore.{
  CreateResult,
  Listed,
  MultipartUpload,
  ObjectInfo,
  ObjectKey,
  ObjectPrefix,
  ObjectRange,
  ObjectStore,
  Piece,
  RangeResult,
  RequestCounts,
  WriterToken
}

/** An object store that delegates to another store, for tests that override a method. */
abstract class ForwardingStore(under: ObjectStore) extends ObjectStore {
  override def location: String = under.location

  override def put(key: ObjectKey, body: Array[Byte]): Unit = under.put(key, body)

  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult =
    under.create(key, body, token)

  override def get(key: ObjectKey): Option[Array[Byte]] = under.get(key)

  override def getRange(key: ObjectKey, offset: Long, length: Int): RangeResult =
    under.getRange(key, offset, length)

  override def getPiece(key: ObjectKey, offset: Long, maxLength: Int): Option[Piece] =
    under.getPiece(key, offset, maxLength)

  override def head(key: ObjectKey): Option[ObjectInfo] = under.head(key)

  override def list(prefix: ObjectPrefix): Iterator[ObjectInfo] = under.list(prefix)

  override def listRange(range: ObjectRange): Iterator[ObjectInfo] = under.listRange(range)

  override def listLevel(prefix: ObjectPrefix): Iterator[Listed] = under.listLevel(prefix)

  override def dropUnfinished(beforeMs: Long, below: ObjectPrefix): Int =
    under.dropUnfinished(beforeMs, below)

  override def delete(keys: Seq[ObjectKey]): Unit = under.delete(keys)

  override def upload(key: ObjectKey, partBytes: Int, token: WriterToken): MultipartUpload =
    under.upload(key, partBytes, token)

  override def counts: RequestCounts = under.counts

  override def keepsTokens: Boolean = under.keepsTokens

  override def close(): Unit = under.close()
}
