package io.cleancut.golden

import java.nio.ByteBuffer

import scala.collection.mutable

/** Decodes a raw block as `docs/FORMAT.md` specifies, without code of the engine. */
object RawRecords {

  /** One line per record: operation, family, key and, except for a remove, value. */
  def decode(raw: Array[Byte]): Seq[String] = {
    val in = ByteBuffer.wrap(raw)
    val records = mutable.ArrayBuffer.empty[String]
    while (in.hasRemaining) records += record(in)
    records.toSeq
  }

  private def record(in: ByteBuffer): String = {
    val operation = in.get match {
      case 1     => "put"
      case 2     => "remove"
      case 3     => "merge"
      case other => throw new IllegalArgumentException(s"operation $other")
    }
    val hasValue = operation != "remove"
    val family = varint(in)
    val keyLength = varint(in)
    val valueLength = if (hasValue) varint(in) else 0L
    val key = Vectors.hex(take(in, keyLength))
    val value = if (hasValue) s" ${Vectors.hex(take(in, valueLength))}" else ""
    s"$operation $family $key$value"
  }

  private def take(in: ByteBuffer, length: Long): Array[Byte] = {
    val bytes = new Array[Byte](length.toInt)
    in.get(bytes)
    bytes
  }

  private def varint(in: ByteBuffer): Long = {
    var result = 0L
    var shift = 0
    var byte = in.get
    while (byte < 0) {
      result |= (byte & 0x7fL) << shift
      shift += 7
      byte = in.get
    }
    result | (byte.toLong << shift)
  }
}
