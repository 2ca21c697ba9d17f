package io.cleancut.objectstore

/** What became of a create-if-absent. */
sealed trait CreateResult

object CreateResult {

  /** The object is there and is this call's. */
  case object Created extends CreateResult

  /**
   * Another's object has the name, and nothing was written.
   *
   * @param writer
   *   whose it is, as far as the store keeps it: a file system does not
   */
  final case class Exists(writer: Option[WriterToken]) extends CreateResult
}

/** What lies in a range of an object. */
sealed trait RangeResult

object RangeResult {

  /** As many bytes as were asked for. */
  final case class Found(bytes: Array[Byte]) extends RangeResult
  case object Missing extends RangeResult

  /** The object ends before the range does. */
  final case class TooShort(sizeBytes: Long) extends RangeResult
}

/**
 * What was read of an object.
 *
 * @param offset
 *   of the first byte, in the object
 * @param objectBytes
 *   the size of the whole object
 */
final case class Piece(offset: Long, bytes: Array[Byte], objectBytes: Long) {

  /** Whether the byte of the object at `position` is in it. */
  def holds(position: Long): Boolean = position >= offset && position < offset + bytes.length
}

/**
 * An object as a listing or a look at it shows it.
 *
 * @param modifiedMs
 *   when the store took it, by the store's clock, in milliseconds since 1970-01-01 UTC
 */
final case class ObjectInfo(key: ObjectKey, sizeBytes: Long, modifiedMs: Long)
