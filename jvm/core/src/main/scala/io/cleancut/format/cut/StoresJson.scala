package io.cleancut.format.cut

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.core.JsonGenerator
import com.fasterxml.jackson.databind.jsontype.TypeSerializer
import com.fasterxml.jackson.databind.{JsonNode, JsonSerializable, SerializerProvider}

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.format.{Chains, FrameKind, FramePlace, Json, StoreCut}

/**
 * The stores of a cut. Written as a stream and not as a tree, because there may be hundreds of
 * thousands of frames and the commit waits for them.
 *
 * @param indexOf
 *   indexes of segment names
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

private object StoresJson {
  import Json.required

  private val FrameFields = 7

  /** @param field field with the stores; the names of their segments are in `segments` */
  def read(node: JsonNode, field: String): Seq[StoreCut] = {
    val segments = elements(node, "segments").map(_.asText).toIndexedSeq
    elements(node, field).map { part =>
      val store = readId(part)
      val chain = StoreCut(store, elements(part, "frames").map(readFrame(_, segments)).toVector)
      val id = required(part, "id").asText
      require(
        id == chain.version.id,
        s"$store has the id $id, but its frames end with ${chain.version}"
      )
      chain
    }
  }

  def readId(node: JsonNode): StoreId = StoreId(
    required(node, "operator").asLong,
    required(node, "partition").asInt,
    required(node, "store").asText
  )

  private def readFrame(node: JsonNode, segments: IndexedSeq[String]): Chains.Frame = {
    require(node.size == FrameFields, s"a frame has ${node.size} fields")
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
