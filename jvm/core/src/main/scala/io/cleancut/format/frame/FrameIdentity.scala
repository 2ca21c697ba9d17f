package io.cleancut.format.frame

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.error.Errors
import io.cleancut.format.FrameLayout.MaxIdentityBytes
import io.cleancut.format.Json

/**
 * The schema of a column family: Spark's schemas and key encoder spec, each as JSON.
 *
 * @param isMultiValued
 *   whether a key has a list of values
 * @param isInternal
 *   whether Spark uses it internally, and does not count its keys as state
 * @param encoding
 *   Spark's name of the encoding of the rows
 */
final case class FamilySchema(
    id: Int,
    name: String,
    keySchema: String,
    valueSchema: String,
    encoder: String,
    isMultiValued: Boolean = false,
    isInternal: Boolean = false,
    encoding: String = FamilySchema.UnsafeRow
)

object FamilySchema {

  /** Spark's names of the state encodings. */
  val UnsafeRow = "unsaferow"
  val Avro = "avro"
}

/** The version that a delta applies to; version 0, the empty store, has no id. */
final case class Parent(version: Long, id: Option[String])

/**
 * The identity of a frame. A base has no `parent`, and has the number of `keys` in total and by
 * family ID, so that its reader can reserve memory. A base that references other stores has
 * neither, and may have a `spread`. See `docs/FORMAT.md`, "Header".
 */
final case class FrameIdentity(
    store: StoreId,
    version: StateVersion,
    parent: Option[Parent],
    families: Seq[FamilySchema],
    keys: Option[Long] = None,
    familyKeys: Map[Int, Long] = Map.empty,
    spread: Option[Spread] = None
) {

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_TOO_LARGE if readers would refuse it
   */
  def toJson: Array[Byte] = {
    val node = FrameIdentity.mapper.createObjectNode()
    node.put("operator", store.operator)
    node.put("partition", store.partition)
    node.put("store", store.name)
    node.put("version", version.number)
    node.put("id", version.id)
    parent.foreach { p =>
      node.put("parentVersion", p.version)
      p.id.foreach(node.put("parentId", _))
    }
    keys.foreach(node.put("keys", _))
    if (families.nonEmpty) {
      val array = node.putArray("families")
      families.foreach { family =>
        val node = array.addObject()
        FrameIdentity.write(node, family)
        familyKeys.get(family.id).foreach(node.put("keys", _))
      }
    }
    spread.foreach(_.write(node.putObject("spread")))
    Json.bounded(FrameIdentity.mapper, node, MaxIdentityBytes).getOrElse {
      throw Errors.objectTooLarge(
        s"the header of version ${version.number} of $store",
        MaxIdentityBytes.toLong,
        s"${families.size} column families with their schemas",
        "Use fewer state variables, or types with fewer fields."
      )
    }
  }
}

object FrameIdentity {
  private val mapper = new ObjectMapper

  /** Throws `IllegalArgumentException` or Jackson's exceptions if the JSON is invalid. */
  def fromJson(bytes: Array[Byte]): FrameIdentity = {
    val node = mapper.readTree(bytes)
    val parent = Option(node.get("parentVersion")).map { version =>
      Parent(version.asLong, Option(node.get("parentId")).map(_.asText))
    }
    val familyNodes = Option(node.get("families")).toSeq.flatMap(_.elements.asScala)
    val families = familyNodes.map(read)
    val familyKeys = familyNodes.flatMap { family =>
      Option(family.get("keys")).map(keys => required(family, "id").asInt -> keys.asLong)
    }
    val store = StoreId(
      required(node, "operator").asLong,
      required(node, "partition").asInt,
      required(node, "store").asText
    )
    val version = StateVersion(required(node, "version").asLong, required(node, "id").asText)
    val keys = Option(node.get("keys")).map(_.asLong)
    val spread = Option(node.get("spread")).map(Spread.read)
    FrameIdentity(store, version, parent, families, keys, familyKeys.toMap, spread)
  }

  private def write(node: ObjectNode, family: FamilySchema): Unit = {
    node.put("id", family.id)
    node.put("name", family.name)
    node.set[JsonNode]("keySchema", mapper.readTree(family.keySchema))
    node.set[JsonNode]("valueSchema", mapper.readTree(family.valueSchema))
    node.set[JsonNode]("encoder", mapper.readTree(family.encoder))
    if (family.isMultiValued) node.put("multiValued", true)
    if (family.isInternal) node.put("internal", true)
    if (family.encoding != FamilySchema.UnsafeRow) node.put("encoding", family.encoding)
    ()
  }

  private def read(node: JsonNode): FamilySchema = FamilySchema(
    required(node, "id").asInt,
    required(node, "name").asText,
    required(node, "keySchema").toString,
    required(node, "valueSchema").toString,
    required(node, "encoder").toString,
    isTrue(node, "multiValued"),
    isTrue(node, "internal"),
    Option(node.get("encoding")).fold(FamilySchema.UnsafeRow)(_.asText)
  )

  private def isTrue(node: JsonNode, field: String): Boolean =
    node.hasNonNull(field) && node.get(field).asBoolean

  private def required(node: JsonNode, field: String): JsonNode = {
    val value = node.get(field)
    require(value != null, s"the identity has no field $field")
    value
  }
}
