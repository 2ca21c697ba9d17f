package io.cleancut.objectstore

/**
 * A store below a prefix of another one, so that users of one connection need not know their
 * prefixes. Closing it has no effect, because it does not own the connection.
 *
 * @param prefix
 *   empty, or a name that ends with `/`
 */
final class RootedStore(under: ObjectStore, prefix: String) extends ObjectStore {

  override def location: String = s"${under.location}/$prefix".stripSuffix("/")

  override def keepsTokens: Boolean = under.keepsTokens

  override def probeRaces: Int = under.probeRaces

  override def put(key: ObjectKey, body: Array[Byte]): Unit = under.put(full(key), body)

  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult =
    under.create(full(key), body, token)

  override def get(key: ObjectKey): Option[Array[Byte]] = under.get(full(key))

  override def getRange(key: ObjectKey, offset: Long, length: Int): RangeResult =
    under.getRange(full(key), offset, length)

  override def getPiece(key: ObjectKey, offset: Long, maxLength: Int): Option[Piece] =
    under.getPiece(full(key), offset, maxLength)

  override def head(key: ObjectKey): Option[ObjectInfo] = under.head(full(key)).map(relative)

  override def list(below: ObjectPrefix): Iterator[ObjectInfo] =
    under.list(ObjectPrefix(prefix + below.name)).map(relative)

  override def listRange(range: ObjectRange): Iterator[ObjectInfo] = {
    val below = ObjectPrefix(prefix + range.prefix.name)
    under.listRange(ObjectRange(below, prefix + range.after, prefix + range.until)).map(relative)
  }

  override def listLevel(below: ObjectPrefix): Iterator[Listed] =
    under.listLevel(ObjectPrefix(prefix + below.name)).map {
      case Listed.Here(info)    => Listed.Here(relative(info))
      case Listed.Below(deeper) => Listed.Below(ObjectPrefix(deeper.name.stripPrefix(prefix)))
      case Listed.Foreign(name) => Listed.Foreign(name.stripPrefix(prefix))
    }

  override def dropUnfinished(beforeMs: Long, below: ObjectPrefix): Int =
    under.dropUnfinished(beforeMs, ObjectPrefix(prefix + below.name))

  override def requestTimeoutMs: Long = under.requestTimeoutMs

  override def delete(keys: Seq[ObjectKey]): Unit = under.delete(keys.map(full))

  override def upload(key: ObjectKey, partBytes: Int, token: WriterToken): MultipartUpload =
    under.upload(full(key), partBytes, token)

  override def counts: RequestCounts = under.counts

  override def counted: ObjectStore = new RootedStore(under.counted, prefix)

  override def close(): Unit = ()

  private def full(key: ObjectKey): ObjectKey = ObjectKey(prefix + key.name)

  private def relative(info: ObjectInfo): ObjectInfo =
    info.copy(key = ObjectKey(info.key.name.stripPrefix(prefix)))
}
