package io.cleancut.golden

import java.nio.file.{Files, Path}
import java.util.HexFormat

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import io.cleancut.base.StoreId

/** The test vectors of `tests/vectors`, which the Python suites also read. */
object Vectors {
  private val directory = Path.of("tests", "vectors")
  private val mapper = new ObjectMapper

  /** A vector with its name, its JSON and the path of the JSON. */
  final case class Vector(name: String, json: JsonNode, path: Path) {
    def bytes: Array[Byte] =
      hex(Files.readString(path.resolveSibling(s"$name.hex")).replaceAll("\\s", ""))
  }

  def layout: JsonNode = mapper.readTree(directory.resolve("layout.json").toFile)

  def locations: JsonNode = mapper.readTree(directory.resolve("locations.json").toFile)

  def frames: Seq[Vector] = in("frames")

  def stores: Seq[Vector] = in("stores")

  def segments: Seq[Vector] = in("segments")

  def cuts: Seq[Vector] = in("cuts")

  def pages: Seq[Vector] = in("pages")

  def chains: Seq[Vector] = in("chains")

  def checkpoints: Seq[Vector] = in("checkpoints")

  def store(json: JsonNode): StoreId =
    StoreId(json.get("operator").asLong, json.get("partition").asInt, json.get("store").asText)

  def elements(json: JsonNode): Seq[JsonNode] = json.elements.asScala.toSeq

  def hex(digits: String): Array[Byte] = HexFormat.of.parseHex(digits)

  def hex(bytes: Array[Byte]): String = HexFormat.of.formatHex(bytes)

  private def in(folder: String): Seq[Vector] = {
    val listed = Files.list(directory.resolve(folder))
    try {
      val paths = listed.iterator.asScala.filter(_.toString.endsWith(".json")).toSeq.sorted
      paths.map { path =>
        Vector(path.getFileName.toString.stripSuffix(".json"), mapper.readTree(path.toFile), path)
      }
    } finally listed.close()
  }
}
