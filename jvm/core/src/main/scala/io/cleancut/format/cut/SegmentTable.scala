package io.cleancut.format.cut

import scala.collection.mutable

import com.fasterxml.jackson.core.{JsonParser, JsonToken}
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.format.{FrameKind, FrameName, FramePlace, PlacedFrame}

/** The table of a segment as JSON. See `docs/FORMAT.md`, "Segment". */
private[format] object SegmentTable {
  private val mapper = new ObjectMapper

  def of(frames: Seq[PlacedFrame]): JsonNode = {
    val table = mapper.createArrayNode()
    frames.foreach { case PlacedFrame(name, place, attempt, _) =>
      val node = table.addObject()
      node.put("operator", name.store.operator).put("partition", name.store.partition)
      node.put("store", name.store.name).put("version", name.version.number)
      node.put("id", name.version.id).put("kind", name.kind.extension).put("attempt", attempt)
      node.put("offset", place.offset).put("length", place.length)
      node.put("crc", Integer.toUnsignedLong(place.crc))
    }
    table
  }

  /**
   * Parsed as a stream and not as a tree, because a table may have tens of thousands of frames and
   * a start reads many tables. Throws `IllegalArgumentException` or Jackson's exceptions if it is
   * invalid.
   */
  def read(segment: String, table: Array[Byte]): Seq[PlacedFrame] = {
    val json = mapper.createParser(table)
    try {
      require(json.nextToken() == JsonToken.START_ARRAY, "the table is not an array")
      val entry = new Entry(segment)
      val frames = Vector.newBuilder[PlacedFrame]
      while (json.nextToken() != JsonToken.END_ARRAY) {
        require(json.currentToken == JsonToken.START_OBJECT, "a frame is not an object")
        frames += entry.read(json)
      }
      require(json.nextToken() == null, "bytes follow the table")
      frames.result()
    } finally json.close()
  }

  /** Parses one entry after the other; caches the few names of stores. */
  final private class Entry(segment: String) {
    private val names = mutable.HashMap.empty[String, String]
    private var present = 0
    private var operator, version, attempt, offset, length, crc = 0L
    private var partition = 0
    private var store, id, kind = ""

    def read(json: JsonParser): PlacedFrame = {
      present = 0
      while (json.nextToken() != JsonToken.END_OBJECT) {
        val field = json.currentName
        json.nextToken()
        take(field, json)
      }
      require(present == All, s"a frame lacks ${lacking.mkString(", ")}")
      val name = FrameName(
        StoreId(operator, partition, store),
        StateVersion(version, id),
        FrameKind.named(kind)
      )
      PlacedFrame(name, FramePlace(segment, offset, length, crc.toInt), attempt)
    }

    private def take(field: String, json: JsonParser): Unit = {
      val index = Fields.indexOf(field)
      if (index >= 0) present |= 1 << index
      field match {
        case "operator"  => operator = json.getValueAsLong
        case "partition" => partition = json.getValueAsInt
        case "store"     => store = names.getOrElseUpdate(text(field, json), json.getText)
        case "version"   => version = json.getValueAsLong
        case "id"        => id = text(field, json)
        case "kind"      => kind = text(field, json)
        case "attempt"   => attempt = json.getValueAsLong
        case "offset"    => offset = json.getValueAsLong
        case "length"    => length = json.getValueAsLong
        case "crc"       => crc = json.getValueAsLong
        case _           =>
          json.skipChildren()
          ()
      }
    }

    private def text(field: String, json: JsonParser): String = {
      require(json.currentToken == JsonToken.VALUE_STRING, s"$field is not a text")
      json.getText
    }

    private def lacking = Fields.indices.filter(index => (present & 1 << index) == 0).map(Fields)
  }

  private val Fields = IndexedSeq("operator", "partition", "store", "version", "id") ++
    IndexedSeq("kind", "attempt", "offset", "length", "crc")
  private val All = (1 << Fields.size) - 1
}
