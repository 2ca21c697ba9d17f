package io.cleancut.format.cut

import java.nio.ByteBuffer

import com.github.luben.zstd.Zstd

import io.cleancut.base.Crc
import io.cleancut.error.Errors
import io.cleancut.format.{FormatMagic, FrameLayout}

/**
 * An object with a header and one compressed body with a checksum, such as cuts and pages. See
 * `docs/FORMAT.md`, "Cut".
 */
private[format] object CheckedBody {
  private val CodecZstd: Byte = 1
  private val HeaderBytes = 20
  private val CheckedBytes = 16
  private val CompressionLevel = 3

  /** Limit of the uncompressed body. A greater length counts as corruption. */
  val MaxRawBytes: Int = 1 << 30

  /** @param magic see [[FormatMagic]] */
  def encode(magic: Int, body: Array[Byte]): Array[Byte] = {
    val stored = Zstd.compress(body, CompressionLevel)
    val out = FrameLayout.buffer(HeaderBytes + stored.length)
    out.putInt(magic).putShort(FormatMagic.Version).put(CodecZstd).put(0.toByte)
    out.putInt(body.length).putInt(stored.length).putInt(0).put(stored)
    out.putInt(CheckedBytes, crcOf(out.array)).array
  }

  /**
   * @param what
   *   kind of object, for messages
   * @return
   *   the body
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_CORRUPTED, CLEANCUT_FORMAT_UNKNOWN
   */
  def decode(path: String, what: String, magic: Int, bytes: Array[Byte]): Array[Byte] = {
    def damaged(detail: String) = throw Errors.cutCorrupted(path, detail)
    if (bytes.length < HeaderBytes) damaged(s"it has only ${bytes.length} bytes")
    val head = FrameLayout.wrap(bytes)
    FormatMagic.check(head, magic, path) {
      Errors.cutCorrupted(path, s"it does not begin with the magic of $what")
    }
    val codec = head.get
    val reserved = head.get
    val raw = head.getInt
    val stored = head.getInt
    val expected = head.getInt
    if (stored != bytes.length - HeaderBytes || raw < 0 || raw > MaxRawBytes) {
      damaged(s"its length of ${bytes.length} bytes does not match its header")
    }
    if (crcOf(bytes) != expected) damaged("its checksum is wrong")
    if (codec != CodecZstd || reserved != 0) damaged(s"unknown codec $codec")
    decompress(bytes, raw, damaged)
  }

  private def crcOf(bytes: Array[Byte]): Int = Crc.ofParts(
    ByteBuffer.wrap(bytes, 0, CheckedBytes),
    ByteBuffer.wrap(bytes, HeaderBytes, bytes.length - HeaderBytes)
  )

  private def decompress(bytes: Array[Byte], raw: Int, damaged: String => Nothing) = {
    val body = new Array[Byte](raw)
    val got =
      try Zstd.decompressByteArray(body, 0, raw, bytes, HeaderBytes, bytes.length - HeaderBytes)
      catch { case e: RuntimeException => damaged(s"its body cannot be read: ${e.getMessage}") }
    if (got != raw) damaged(s"its body cannot be read: $got bytes instead of $raw")
    body
  }
}
