package io.cleancut.objectstore

/**
 * Objects by name below one location. All that Cleancut asks of a store, and no more: stores differ
 * in the rest.
 *
 * What every implementation guarantees, and the contract suite tests:
 *   - An object appears whole or not at all. Once a write has returned, every reader and every
 *     listing sees it.
 *   - Of all [[create]] calls on one name, from whatever process, at most one is `Created` for as
 *     long as the object is not deleted. A call whose answer was lost finds out by itself whether
 *     the object is its own.
 *   - Every request is bounded: a failure that may pass is tried again, with growing pauses, until
 *     the store's deadline.
 *   - It is safe for many threads at once, and an interrupt ends a wait with
 *     `InterruptedException`.
 *
 * What a caller must know:
 *   - After an error it is not known whether a write took effect, and it may still do so later.
 *     Hence names are used once; what has to be overwritten is a hint at most.
 *   - A listing comes in no order.
 *
 * Errors, all of them `CleancutException`: CLEANCUT_OBJECT_STORE_UNAVAILABLE when the deadline has
 * passed (retry), CLEANCUT_OBJECT_STORE_REFUSED when the store will not (change the request).
 */
trait ObjectStore extends AutoCloseable {

  /** What all names are below, for messages. */
  def location: String

  /**
   * Whether a refused [[create]] tells the token of the object that it met, so that a writer knows
   * its own.
   */
  def keepsTokens: Boolean = true

  /**
   * How often [[WriteProbe]] lets several writers race for a name before it believes [[create]]:
   * more often where nothing but the user's word speaks for it.
   */
  def probeRaces: Int = ObjectStore.ProbeRaces

  /** Writes an object, replacing one of the same name. */
  def put(key: ObjectKey, body: Array[Byte]): Unit

  /** Writes an object if there is none of this name. */
  def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult

  /** All bytes of an object, if it exists. */
  def get(key: ObjectKey): Option[Array[Byte]]

  /**
   * @param offset
   *   in bytes, from 0
   * @param length
   *   in bytes, at least 1
   */
  def getRange(key: ObjectKey, offset: Long, length: Int): RangeResult

  /**
   * As many bytes as there are, up to `maxLength`, with the size of the whole object: one request
   * for all of a small object, and the first of several for a large one.
   *
   * @param offset
   *   in bytes, from 0, below the size of the object unless that is 0
   * @param maxLength
   *   in bytes, at least 1
   * @return
   *   None where there is no such object
   */
  def getPiece(key: ObjectKey, offset: Long, maxLength: Int): Option[Piece]

  def head(key: ObjectKey): Option[ObjectInfo]

  /**
   * Every object below a prefix, at any depth. It is fetched a page at a time while the iterator
   * advances; what is written or deleted meanwhile may be in it or not.
   */
  def list(prefix: ObjectPrefix): Iterator[ObjectInfo]

  /**
   * The objects in a range of names. A store that lists objects in the order of their names is
   * asked for no more pages than the range takes; any other lists all objects below the prefix.
   */
  def listRange(range: ObjectRange): Iterator[ObjectInfo] =
    list(range.prefix).filter(info => range.contains(info.key))

  /**
   * What lies directly below a prefix. It costs the pages that so much takes, however much lies
   * deeper. Fetched and as sure as that of [[list]].
   */
  def listLevel(prefix: ObjectPrefix): Iterator[Listed]

  /** Deletes what exists of these. */
  def delete(keys: Seq[ObjectKey]): Unit

  /**
   * Begins an object that is written in parts.
   *
   * @param key
   *   a name that nobody else writes: unlike [[create]] this is no race that a store decides
   * @param partBytes
   *   the size of every part but the last, at least [[MultipartUpload.MinPartBytes]]
   */
  def upload(key: ObjectKey, partBytes: Int, token: WriterToken): MultipartUpload

  /**
   * Drops what writers have begun and neither finished nor dropped: uploads, and whatever else the
   * store keeps of an object that never appeared. It cannot tell who is dead from who is slow;
   * `beforeMs` has to.
   *
   * @param beforeMs
   *   only what was begun before this time, by the store's clock, in milliseconds since 1970-01-01
   *   UTC
   * @param below
   *   only objects below this prefix, where the store knows what objects these were to be
   * @return
   *   how many objects that never appeared were dropped
   */
  def dropUnfinished(beforeMs: Long, below: ObjectPrefix = ObjectPrefix.All): Int

  /**
   * How long one request may take with all its repetitions, in milliseconds; 0 where nobody but the
   * store's own client knows.
   */
  def requestTimeoutMs: Long = 0L

  /** The requests of this store since it was opened. */
  def counts: RequestCounts

  /**
   * The same store with counts of its own from now on, for one of several users; what it asks for
   * counts here too. A store that is opened anew for each user is its own.
   */
  def counted: ObjectStore = this

  /** Frees connections and threads. Closing twice does nothing. */
  override def close(): Unit
}

object ObjectStore {
  private[objectstore] val ProbeRaces = 3
}
