package io.cleancut.cutstore.usage

import java.io.ByteArrayOutputStream
import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS}

import io.cleancut.format.cut.{KindCosts, ShareCosts}
import io.cleancut.objectstore.{KindCounts, RequestCounts, RequestKind}

/** The requests and writes of a process for one query since the process began. */
final case class Usage(requests: RequestCounts, written: WriteCounts) {

  def -(earlier: Usage): Usage = Usage(requests - earlier.requests, written - earlier.written)

  def +(other: Usage): Usage = Usage(requests + other.requests, written + other.written)

  /** The later of two snapshots of one process: messages may arrive out of order. */
  def max(other: Usage): Usage =
    Usage(requests.max(other.requests), written.max(other.written))

  def toShare: ShareCosts = ShareCosts(
    requests.byKind.collect {
      case (kind, counts) if counts != Usage.NoRequests =>
        kind.name -> KindCosts(counts.requests, counts.retries, counts.failures)
    },
    requests.bytesSent,
    requests.bytesReceived,
    written.frames,
    written.frameBytes,
    written.segments,
    written.segmentBytes,
    NANOSECONDS.toMillis(requests.sentNs),
    NANOSECONDS.toMillis(requests.waitedNs)
  )

  /** Encodes small numbers in one or two bytes each, because every report contains the usage. */
  def toBytes: Array[Byte] = {
    val out = new ByteArrayOutputStream(Usage.Numbers * 2)
    numbers.foreach(Usage.putVarint(out, _))
    out.toByteArray
  }

  private def numbers: Seq[Long] =
    RequestKind.values.flatMap { kind =>
      val counts = requests(kind)
      Seq(counts.requests, counts.retries, counts.failures)
    } ++ Seq(requests.bytesSent, requests.bytesReceived) ++
      Seq(requests.sentNs, requests.waitedNs).map(NANOSECONDS.toMillis(_)) ++
      Seq(written.frames, written.frameBytes, written.segments, written.segmentBytes)
}

object Usage {
  val Zero: Usage = Usage(RequestCounts.Zero, WriteCounts.Zero)

  private val NoRequests = KindCounts(0L, 0L, 0L)
  private val Numbers = RequestKind.values.size * 3 + 8
  private val SevenBits = 0x7fL

  /** Decodes [[Usage.toBytes]] of the same release. */
  def parse(bytes: Array[Byte]): Usage = {
    var at = 0
    def next(): Long = {
      var result = 0L
      var shift = 0
      while (bytes(at) < 0) {
        result |= (bytes(at) & SevenBits) << shift
        shift += 7
        at += 1
      }
      at += 1
      result | (bytes(at - 1).toLong << shift)
    }
    val byKind =
      RequestKind.values.map(kind => kind -> KindCounts(next(), next(), next())).toMap
    val requests = RequestCounts(
      byKind,
      next(),
      next(),
      MILLISECONDS.toNanos(next()),
      MILLISECONDS.toNanos(next())
    )
    val usage = Usage(requests, WriteCounts(next(), next(), next(), next()))
    require(at == bytes.length, s"${bytes.length} bytes of counts, of which $at were read")
    usage
  }

  private def putVarint(out: ByteArrayOutputStream, value: Long): Unit = {
    var rest = value
    while ((rest & ~SevenBits) != 0) {
      out.write((rest & SevenBits | 0x80).toInt)
      rest >>>= 7
    }
    out.write(rest.toInt)
  }
}
