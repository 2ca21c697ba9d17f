package io.cleancut.format

import java.util.zip.CRC32

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.core.JsonGenerator
import com.fasterxml.jackson.databind.jsontype.TypeSerializer
import com.fasterxml.jackson.databind.util.RawValue
import com.fasterxml.jackson.databind.{JsonNode, JsonSerializable, SerializerProvider}
import com.github.luben.zstd.Zstd

import io.cleancut.{StateVersion, StoreId}
import io.cleancut.channels.{ChannelCourse, ChannelReport, Channels}
import io.cleancut.error.Errors

/** Whose a cut, a segment or an owner's note is. */
final case class RunId(queryId: Option[String], runId: String, generation: Long)

/**
 * One store in a cut: the frames that make its version, oldest first. They begin with a base unless
 * they begin with the delta of version 1.
 */
final case class StoreCut(store: StoreId, frames: Seq[(FrameKind, StateVersion, FramePlace)]) {
  require(frames.nonEmpty, s"no frames of $store")
  def version: StateVersion = frames.last._2
}

/** A segment of one base, and the epoch whose cut was the first to name it. */
final case class LateBase(segment: String, since: Long)

/**
 * The manifest of one epoch. See `docs/FORMAT.md`, "Cut".
 *
 * @param token
 *   tells this body from that of another writer of the same epoch
 * @param commit
 *   Spark's own entry of the commit log, verbatim
 * @param offsets
 *   Spark's own entry of the offset log, verbatim
 * @param timings
 *   milliseconds by phase
 * @param costs
 *   what the epoch asked of the store; None in a cut of a release that did not count it
 * @param channels
 *   what the epoch's tasks made of their channels, where some could be captured
 * @param courses
 *   how these came to the barrier; not in a cut of a release that did not measure it
 * @param output
 *   of a seal: by what the sink knows the rows that it has written and not shown yet
 * @param late
 *   bases that were adopted longer after the epoch of their segment than a sweep reckons with, and
 *   that cuts may still name which this one no longer knows
 * @param isClaim
 *   of a seal: nothing is sealed, and its run has the epoch begin anew
 */
final case class Cut(
    epoch: Long,
    run: RunId,
    token: String,
    writtenMs: Long,
    commit: String,
    offsets: String,
    stores: Seq[StoreCut],
    timings: Map[String, Long],
    costs: Option[EpochCosts] = None,
    channels: Seq[ChannelReport] = Nil,
    courses: Map[StoreId, ChannelCourse] = Map.empty,
    output: Option[String] = None,
    late: Seq[LateBase] = Nil,
    isClaim: Boolean = false
) {

  /** The names of the segments that it needs, below the root. */
  lazy val segments: Seq[String] = stores.flatMap(_.frames.map(_._3.segment)).distinct

  private lazy val byStore: Map[StoreId, StoreCut] = stores.map(s => s.store -> s).toMap

  def of(store: StoreId): Option[StoreCut] = byStore.get(store)

  /** The channels that hold rows. They are asked for with every store that is opened. */
  lazy val inFlight: Seq[StoreCut] = stores.filter(of => Channels.isChannel(of.store))

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_TOO_LARGE, no reader would take it
   */
  def toBytes: Array[Byte] = Cut.encode(this, Cut.MaxRawBytes)
}

object Cut {
  import Json.required

  private val Magic = 0x31434343 // "CCC1", little-endian
  private val FormatVersion: Short = 1
  private val CodecZstd: Byte = 1
  private val HeaderBytes = 20
  private val CheckedBytes = 16

  /** Of the body before compression. Beyond it a length is taken for damage. */
  private[format] val MaxRawBytes = 1 << 30
  private val CompressionLevel = 3
  private val FrameFields = 7

  // Entries of Spark's logs are texts of whatever length.
  private val mapper = Json.mapperOfLongTexts

  /**
   * The cut that must be of this epoch.
   *
   * @param path
   *   for messages
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_DAMAGED, CLEANCUT_FORMAT_UNKNOWN
   */
  def parse(path: String, epoch: Long, bytes: Array[Byte]): Cut = {
    val cut = parse(path, bytes)
    if (cut.epoch != epoch) throw Errors.cutDamaged(path, s"it is the cut of epoch ${cut.epoch}")
    cut
  }

  /** Of whatever epoch, as of a savepoint. */
  def parse(path: String, bytes: Array[Byte]): Cut = {
    def damaged(detail: String) = throw Errors.cutDamaged(path, detail)
    if (bytes.length < HeaderBytes) damaged(s"it has only ${bytes.length} bytes")
    val head = FrameLayout.wrap(bytes)
    if (head.getInt != Magic) damaged("it does not begin with the magic of a cut")
    val version = head.getShort
    if (version != FormatVersion) throw Errors.formatUnknown(path, s"$version", s"$FormatVersion")
    val codec = head.get
    val reserved = head.get
    val raw = head.getInt
    val stored = head.getInt
    val expected = head.getInt
    if (stored != bytes.length - HeaderBytes || raw < 0 || raw > MaxRawBytes) {
      damaged(s"its ${bytes.length} bytes do not fit its header")
    }
    if (crcOf(bytes) != expected) damaged("its checksum is wrong")
    if (codec != CodecZstd || reserved != 0) damaged(s"unknown codec $codec")
    try {
      val cut = read(mapper.readTree(decompress(bytes, raw)))
      val stores = cut.stores.map(_.store)
      require(stores.distinct.size == stores.size, "it names a store twice")
      cut.stores.foreach(checkChain(cut.epoch, _))
      cut
    } catch { case NonFatal(e) => damaged(s"its body cannot be read: ${e.getMessage}") }
  }

  private def checkChain(epoch: Long, store: StoreCut): Unit = {
    val numbers = store.frames.map(_._2.number)
    require(numbers.last == epoch + 1, s"the frames of ${store.store} end with ${numbers.last}")
    val isWhole = numbers.zip(numbers.tail).forall { case (a, b) => b == a + 1 }
    require(isWhole, s"the versions of ${store.store} are ${numbers.mkString(", ")}")
    val kinds = store.frames.map(_._1)
    require(!kinds.tail.contains(FrameKind.Base), s"a base of ${store.store} follows a frame")
    require(kinds.head == FrameKind.Base || numbers.head == 1, s"no base of ${store.store}")
  }

  private[format] def encode(cut: Cut, maxRawBytes: Int): Array[Byte] = {
    val body = Json.bounded(mapper, write(cut), maxRawBytes).getOrElse {
      throw tooLarge(cut, maxRawBytes)
    }
    val stored = Zstd.compress(body, CompressionLevel)
    val out = FrameLayout.buffer(HeaderBytes + stored.length)
    out.putInt(Magic).putShort(FormatVersion).put(CodecZstd).put(0.toByte)
    out.putInt(body.length).putInt(stored.length).putInt(0).put(stored)
    out.putInt(CheckedBytes, crcOf(out.array)).array
  }

  private def tooLarge(cut: Cut, maxRawBytes: Int) = {
    val frames = cut.stores.map(_.frames.size)
    val texts = cut.commit.length.toLong + cut.offsets.length + cut.output.fold(0)(_.length)
    Errors.objectTooLarge(
      s"the cut of epoch ${cut.epoch}",
      maxRawBytes.toLong,
      s"${cut.stores.size} stores with ${frames.map(_.toLong).sum} frames, at most " +
        s"${frames.maxOption.getOrElse(0)} a store, and entries of Spark's logs and of the sink " +
        s"with $texts characters",
      "Shorten the chains of frames by spark.sql.streaming.stateStore.minDeltasForSnapshot, or " +
        "run with fewer shuffle partitions; where most is text, have the source keep its offsets " +
        "shorter."
    )
  }

  private def crcOf(bytes: Array[Byte]): Int = {
    val crc = new CRC32
    crc.update(bytes, 0, CheckedBytes)
    crc.update(bytes, HeaderBytes, bytes.length - HeaderBytes)
    crc.getValue.toInt
  }

  private def decompress(bytes: Array[Byte], raw: Int): Array[Byte] = {
    val body = new Array[Byte](raw)
    val length = bytes.length - HeaderBytes
    val got = Zstd.decompressByteArray(body, 0, raw, bytes, HeaderBytes, length)
    require(got == raw, s"$got bytes and not $raw")
    body
  }

  private def write(cut: Cut): JsonNode = {
    val node = mapper.createObjectNode()
    node.put("epoch", cut.epoch)
    node.put("queryId", cut.run.queryId.orNull)
    node.put("runId", cut.run.runId)
    node.put("generation", cut.run.generation)
    node.put("token", cut.token)
    node.put("writtenMs", cut.writtenMs)
    node.put("mode", if (cut.inFlight.isEmpty) "aligned" else "unaligned")
    node.put("commit", cut.commit)
    node.put("offsets", cut.offsets)
    val names = node.putArray("segments")
    cut.segments.foreach(names.add)
    val indexOf = cut.segments.zipWithIndex.toMap
    node.putRawValue("stores", new RawValue(new StoresJson(cut.stores, indexOf)))
    val timings = node.putObject("timings")
    cut.timings.toSeq.sorted.foreach { case (phase, ms) => timings.put(phase, ms) }
    cut.costs.foreach(CostsJson.write(_, node.putObject("costs")))
    if (cut.channels.nonEmpty) {
      val channels = node.putArray("channels")
      cut.channels.foreach { of =>
        ChannelJson.write(of, cut.courses.get(of.channel), channels.addObject())
      }
    }
    cut.output.foreach(node.put("output", _))
    if (cut.late.nonEmpty) {
      val late = node.putArray("late")
      cut.late.foreach(base =>
        late.addObject().put("segment", base.segment).put("since", base.since)
      )
    }
    if (cut.isClaim) node.put("claim", true)
    node
  }

  private def read(node: JsonNode): Cut = {
    val segments = elements(node, "segments").map(_.asText)
    val stores = elements(node, "stores").map { part =>
      val store = StoreId(
        required(part, "operator").asLong,
        required(part, "partition").asInt,
        required(part, "store").asText
      )
      val found = StoreCut(store, elements(part, "frames").map(readFrame(_, segments)))
      val id = required(part, "id").asText
      require(id == found.version.id, s"$store has the id $id and frames to ${found.version}")
      found
    }
    val channels = Option(node.get("channels")).toSeq.flatMap(_.elements.asScala)
    val timings = required(node, "timings").properties.asScala.map(e => e.getKey -> e.getValue)
    Cut(
      required(node, "epoch").asLong,
      RunId(
        Option(node.get("queryId")).filter(_.isTextual).map(_.asText),
        required(node, "runId").asText,
        required(node, "generation").asLong
      ),
      required(node, "token").asText,
      required(node, "writtenMs").asLong,
      required(node, "commit").asText,
      required(node, "offsets").asText,
      stores,
      timings.map { case (phase, ms) => phase -> ms.asLong }.toMap,
      Option(node.get("costs")).map(CostsJson.read),
      channels.map(ChannelJson.read),
      channels.flatMap(ChannelJson.readCourse).toMap,
      Option(node.get("output")).filter(_.isTextual).map(_.asText),
      Option(node.get("late")).toSeq.flatMap(_.elements.asScala).map { base =>
        LateBase(required(base, "segment").asText, required(base, "since").asLong)
      },
      node.path("claim").asBoolean(false)
    )
  }

  private def readFrame(
      node: JsonNode,
      segments: Seq[String]
  ): (FrameKind, StateVersion, FramePlace) = {
    require(node.size == FrameFields, s"a frame of ${node.size} fields")
    val kind = FrameKind.named(node.get(1).asText)
    val version = StateVersion(node.get(2).asLong, node.get(3).asText)
    val segment = segments(node.get(0).asInt)
    val place =
      FramePlace(segment, node.get(4).asLong, node.get(5).asLong, node.get(6).asLong.toInt)
    (kind, version, place)
  }

  private def elements(node: JsonNode, field: String): Seq[JsonNode] =
    required(node, field).elements.asScala.toSeq
}

/**
 * The stores of a cut. Written as they come and not as a tree first, because there may be hundreds
 * of thousands of frames and the gate waits for them.
 *
 * @param indexOf
 *   of the names of segments
 */
final private class StoresJson(stores: Seq[StoreCut], indexOf: Map[String, Int])
    extends JsonSerializable.Base {
  override def serialize(json: JsonGenerator, provider: SerializerProvider): Unit = {
    json.writeStartArray()
    stores.foreach(write(json, _))
    json.writeEndArray()
  }

  private def write(json: JsonGenerator, part: StoreCut): Unit = {
    json.writeStartObject()
    json.writeNumberField("operator", part.store.operator)
    json.writeNumberField("partition", part.store.partition)
    json.writeStringField("store", part.store.name)
    json.writeStringField("id", part.version.id)
    json.writeArrayFieldStart("frames")
    part.frames.foreach { case (kind, version, place) =>
      json.writeStartArray()
      json.writeNumber(indexOf(place.segment))
      json.writeString(kind.extension)
      json.writeNumber(version.number)
      json.writeString(version.id)
      json.writeNumber(place.offset)
      json.writeNumber(place.length)
      json.writeNumber(Integer.toUnsignedLong(place.crc))
      json.writeEndArray()
    }
    json.writeEndArray()
    json.writeEndObject()
  }

  override def serializeWithType(
      json: JsonGenerator,
      provider: SerializerProvider,
      types: TypeSerializer
  ): Unit = serialize(json, provider)
}
