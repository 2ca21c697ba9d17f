package io.cleancut.objectstore

/** The result of a create-if-absent. */
sealed trait CreateResult

object CreateResult {

  /** This call created the object. */
  case object Created extends CreateResult

  /**
   * The object of another writer exists, and nothing was written.
   *
   * @param writer
   *   its token, if the store keeps it; file systems do not
   */
  final case class Exists(writer: Option[WriterToken]) extends CreateResult
}

/** The result of a range read. */
sealed trait RangeResult

object RangeResult {

  /** As many bytes as requested. */
  final case class Found(bytes: Array[Byte]) extends RangeResult
  case object Missing extends RangeResult

  /** The object ends before the range does. */
  final case class TooShort(sizeBytes: Long) extends RangeResult
}

/**
 * A part of an object.
 *
 * @param offset
 *   offset of its first byte in the object
 * @param objectBytes
 *   size of the complete object
 */
final case class Piece(offset: Long, bytes: Array[Byte], objectBytes: Long) {

  /** Whether it contains the byte of the object at `position`. */
  def holds(position: Long): Boolean = position >= offset && position < offset + bytes.length
}

/**
 * The metadata of an object.
 *
 * @param modifiedMs
 *   write time by the store's clock, in milliseconds since 1970-01-01 UTC
 */
final case class ObjectInfo(key: ObjectKey, sizeBytes: Long, modifiedMs: Long)
