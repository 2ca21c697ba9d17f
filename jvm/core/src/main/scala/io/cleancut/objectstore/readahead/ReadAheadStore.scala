package io.cleancut.objectstore.readahead

import io.cleancut.objectstore._

/**
 * A store whose reads are answered from a [[ReadAhead]] if that knows the result, and otherwise by
 * a request.
 *
 * @param ahead
 *   the read ahead of the current start, if there is one
 */
final class ReadAheadStore(under: ObjectStore, ahead: () => Option[ReadAhead]) extends ObjectStore {

  override def location: String = under.location

  override def keepsTokens: Boolean = under.keepsTokens

  override def probeRaces: Int = under.probeRaces

  override def put(key: ObjectKey, body: Array[Byte]): Unit = {
    write(key)
    under.put(key, body)
  }

  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult = {
    write(key)
    under.create(key, body, token)
  }

  override def get(key: ObjectKey): Option[Array[Byte]] =
    ahead().flatMap(_.get(key)).getOrElse(under.get(key))

  override def getRange(key: ObjectKey, offset: Long, length: Int): RangeResult =
    under.getRange(key, offset, length)

  override def getPiece(key: ObjectKey, offset: Long, maxLength: Int): Option[Piece] = {
    val known = if (offset == 0L) ahead().flatMap(_.get(key)) else None
    known.filter(_.forall(_.length <= maxLength)) match {
      case Some(body) => body.map(bytes => Piece(0L, bytes, bytes.length.toLong))
      case None       => under.getPiece(key, offset, maxLength)
    }
  }

  override def head(key: ObjectKey): Option[ObjectInfo] =
    ahead().flatMap(_.head(key)).getOrElse(under.head(key))

  override def list(prefix: ObjectPrefix): Iterator[ObjectInfo] =
    ahead().flatMap(_.below(prefix)).fold(under.list(prefix))(_.iterator)

  override def listRange(range: ObjectRange): Iterator[ObjectInfo] = under.listRange(range)

  override def listLevel(prefix: ObjectPrefix): Iterator[Listed] =
    ahead().flatMap(_.children(prefix)).fold(under.listLevel(prefix))(_.iterator)

  override def delete(keys: Seq[ObjectKey]): Unit = {
    keys.foreach(write(_))
    under.delete(keys)
  }

  override def upload(key: ObjectKey, partBytes: Int, token: WriterToken): MultipartUpload = {
    write(key)
    under.upload(key, partBytes, token)
  }

  override def dropUnfinished(beforeMs: Long, below: ObjectPrefix): Int =
    under.dropUnfinished(beforeMs, below)

  override def requestTimeoutMs: Long = under.requestTimeoutMs

  override def counts: RequestCounts = under.counts

  override def close(): Unit = under.close()

  private def write(key: ObjectKey): Unit = ahead().foreach(_.write(key))
}
