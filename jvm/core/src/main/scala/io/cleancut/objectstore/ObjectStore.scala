package io.cleancut.objectstore

/**
 * Named objects below one location. The interface has only operations that stores implement
 * consistently.
 *
 * Guarantees of every implementation, which the contract suite tests:
 *
 *   - An object appears completely or not at all. Once a write has returned, every reader and every
 *     listing sees it.
 *   - Of all [[create]] calls on one name in any process, at most one is `Created` while the object
 *     is not deleted. A call whose response was lost finds out whether the object is its own.
 *   - Every request has a time limit: a transient failure is retried with growing pauses, until the
 *     store's deadline.
 *   - It is thread-safe, and an interrupt ends a wait with `InterruptedException`.
 *
 * Conditions for callers:
 *
 *   - After an error it is not known whether a write took effect, and it may still do so later.
 *     Therefore names are used once; overwritten objects are only hints.
 *   - A listing has no order.
 *
 * Errors, all of them `CleancutException`: CLEANCUT_OBJECT_STORE_UNAVAILABLE after the deadline
 * (retry), CLEANCUT_OBJECT_STORE_REFUSED if the store refuses the request (change it).
 */
trait ObjectStore extends AutoCloseable {

  /** The location of all names, for messages. */
  def location: String

  /**
   * Whether a refused [[create]] returns the token of the existing object, so that a writer
   * recognizes its own.
   */
  def keepsTokens: Boolean = true

  /**
   * Number of races in which [[WriteProbe]] tests [[create]] with several writers: more if only the
   * user's setting vouches for it.
   */
  def probeRaces: Int = ObjectStore.ProbeRaces

  /** Writes an object, replacing an existing one. */
  def put(key: ObjectKey, body: Array[Byte]): Unit

  /** Writes an object if absent. */
  def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult

  /** All bytes of an object, if it exists. */
  def get(key: ObjectKey): Option[Array[Byte]]

  /**
   * @param offset
   *   bytes, from 0
   * @param length
   *   bytes, at least 1
   */
  def getRange(key: ObjectKey, offset: Long, length: Int): RangeResult

  /**
   * The available bytes, up to `maxLength`, with the size of the complete object: one request for
   * all of a small object, and the first of several for a large one.
   *
   * @param offset
   *   bytes, from 0, below the size of the object unless that is 0
   * @param maxLength
   *   bytes, at least 1
   * @return
   *   None if the object does not exist
   */
  def getPiece(key: ObjectKey, offset: Long, maxLength: Int): Option[Piece]

  def head(key: ObjectKey): Option[ObjectInfo]

  /**
   * All objects below a prefix, at any depth. Pages are fetched while the iterator advances;
   * objects that are written or deleted meanwhile may be returned or not.
   */
  def list(prefix: ObjectPrefix): Iterator[ObjectInfo]

  /**
   * The objects in a range of names. A store that lists objects in name order is requested only for
   * the pages of the range; other stores list all objects below the prefix.
   */
  def listRange(range: ObjectRange): Iterator[ObjectInfo] =
    list(range.prefix).filter(info => range.contains(info.key))

  /**
   * The children of a prefix. The number of requests depends on them only, and not on deeper
   * objects. Pages and consistency as for [[list]].
   */
  def listLevel(prefix: ObjectPrefix): Iterator[Listed]

  /** Deletes these objects, if they exist. */
  def delete(keys: Seq[ObjectKey]): Unit

  /**
   * Begins an object that is written in parts.
   *
   * @param key
   *   a name that no other writer uses: unlike [[create]], the store does not decide between
   *   writers
   * @param partBytes
   *   size of every part except the last, at least [[MultipartUpload.MinPartBytes]]
   */
  def upload(key: ObjectKey, partBytes: Int, token: WriterToken): MultipartUpload

  /**
   * Deletes unfinished writes: uploads, and other remains of objects that never appeared. It cannot
   * distinguish dead from slow writers; `beforeMs` must do so.
   *
   * @param beforeMs
   *   only writes that began before this time, by the store's clock, in milliseconds since
   *   1970-01-01 UTC
   * @param below
   *   only objects below this prefix, if the store knows their names
   * @return
   *   number of deleted unfinished objects
   */
  def dropUnfinished(beforeMs: Long, below: ObjectPrefix = ObjectPrefix.All): Int

  /**
   * Longest time of one request with all its retries in milliseconds; 0 if only the store's client
   * knows it.
   */
  def requestTimeoutMs: Long = 0L

  /** The requests of this store since it was opened. */
  def counts: RequestCounts

  /**
   * The same store with separate request counts from now on, for one of several users. Its requests
   * count here, too. A store that is opened for each user returns itself.
   */
  def counted: ObjectStore = this

  /** Releases connections and threads. Closing twice has no effect. */
  override def close(): Unit
}

object ObjectStore {
  private[objectstore] val ProbeRaces = 3
}
