package io.cleancut.format.cut

import java.nio.charset.StandardCharsets.UTF_8

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.node.ArrayNode

import io.cleancut.error.Errors
import io.cleancut.format.Json

/**
 * A checkpoint that another one continues.
 *
 * @param generation
 *   generation of the last cut when it was continued; 0 without cuts
 * @param epoch
 *   highest epoch that the query had used by then; None if the copy follows the checkpoint
 */
final case class Origin(checkpoint: String, generation: Long, epoch: Option[Long])

/**
 * The checkpoints of the same query that a checkpoint continues, oldest first. See
 * `docs/FORMAT.md`, "Lineage".
 */
final case class Lineage(origins: Seq[Origin]) {

  def and(origin: Origin): Lineage = Lineage(origins :+ origin)

  def write(node: ArrayNode): Unit = origins.foreach { item =>
    val origin =
      node.addObject().put("checkpoint", item.checkpoint).put("generation", item.generation)
    item.epoch.foreach(origin.put("epoch", _))
  }

  def toBytes: Array[Byte] = {
    val node = Lineage.mapper.createObjectNode().put("formatVersion", Lineage.Version)
    write(node.putArray("lineage"))
    Lineage.mapper.writeValueAsString(node).getBytes(UTF_8)
  }
}

object Lineage {

  /** Object name below `<checkpointLocation>/cleancut`. */
  val Name = "origin.json"
  val Empty: Lineage = Lineage(Nil)
  private val Version = 1
  private val mapper = Json.mapperOfLongTexts

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_CORRUPTED
   */
  def parse(path: String, bytes: Array[Byte]): Lineage =
    try {
      val node = mapper.readTree(new String(bytes, UTF_8))
      val version = Json.required(node, "formatVersion").asInt
      require(version == Version, s"it has version $version, not $Version")
      val origins = Json.required(node, "lineage")
      require(origins.isArray, s"the lineage is $origins")
      Lineage(origins.elements.asScala.toVector.map { item =>
        val (checkpoint, epoch) = (Json.required(item, "checkpoint"), Option(item.get("epoch")))
        require(checkpoint.isTextual, s"the checkpoint is $checkpoint")
        Origin(
          checkpoint.asText,
          Json.required(item, "generation").asLong,
          epoch.filter(_.isIntegralNumber).map(_.asLong)
        )
      })
    } catch { case NonFatal(e) => throw Errors.cutCorrupted(path, e.getMessage) }
}
