package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.nio.file.Files

import scala.jdk.CollectionConverters._

import Providers._
import com.fasterxml.jackson.databind.JsonNode
import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.state.ReadStateStore

import io.cleancut.CleancutStateStoreProvider
import io.cleancut.error.CleancutException
import io.cleancut.format.{FormatNote, StoreLayout}
import io.cleancut.golden.Vectors

/** Directories and checkpoints of the test vectors, read by the provider. */
class StoreVectorsSuite extends AnyFunSuite {
  import StoreVectorsSuite._

  for (vector <- Vectors.stores) test(s"the store ${vector.name} has the rows of its vector") {
    val directory = StoreLayout.storeDirectory(Vectors.store(vector.json.get("store")))
    readAll(vector, "files", name => s"$directory/$name")
  }

  for (vector <- Vectors.checkpoints)
    test(s"the checkpoint ${vector.name} has the rows of its vector") {
      readAll(vector, "objects", identity)
    }

  test("vectors exist for intact and corrupted stores and checkpoints") {
    for (vectors <- Seq(Vectors.stores, Vectors.checkpoints)) {
      val reads = vectors.flatMap(vector => Vectors.elements(vector.json.get("reads")))
      assert(vectors.size > 10 && reads.exists(_.has("rows")) && reads.exists(_.has("error")))
    }
  }

  /** Writes the objects of a vector below the root, and reads its versions. */
  private def readAll(vector: Vectors.Vector, objects: String, name: String => String): Unit = {
    val store = Vectors.store(vector.json.get("store"))
    val setup = Providers
      .setup()
      .copy(name = store.name, operator = store.operator, partition = store.partition)
    val root = setup.directory.resolve(StoreLayout.RootName)
    Files.createDirectories(root)
    Files.write(root.resolve(StoreLayout.FormatObject), FormatNote(None).toJson)
    vector.json.get(objects).properties.asScala.foreach { file =>
      val path = root.resolve(name(file.getKey))
      Files.createDirectories(path.getParent)
      Files.write(path, Vectors.hex(file.getValue.asText))
    }
    Vectors.elements(vector.json.get("reads")).foreach(check(setup, _))
  }

  private def check(setup: Setup, read: JsonNode): Assertion = {
    val provider = setup.openWith(Cleancut, useColumnFamilies = true)
    val id = Option(read.get("id")).map(_.asText)
    try {
      def familyRows(): Map[String, Map[String, Seq[String]]] = {
        val store = provider.getReadStore(read.get("version").asLong, id)
        try
          Families
            .collect {
              case (number, name) if store.allColumnFamilyNames(name) =>
                number -> rowsOf(store, name)
            }
            .filter(_._2.nonEmpty)
        finally store.release()
      }
      if (read.has("rows")) {
        val rows = read.get("rows").properties.asScala.map { family =>
          family.getKey -> family.getValue.properties.asScala.map { row =>
            row.getKey -> Vectors.elements(row.getValue).map(_.asText)
          }.toMap
        }
        assert(familyRows() == rows.toMap)
      } else {
        val thrown = intercept[Throwable](familyRows())
        val causes = Iterator.iterate(thrown)(_.getCause).takeWhile(_ != null)
        val error = causes.collectFirst { case e: CleancutException => e }
        assert(error.map(_.getErrorId).contains(read.get("error").asText))
        val names = Option(read.get("names")).fold("")(_.asText)
        assert(error.exists(_.getMessage.contains(s"${StoreLayout.RootName}/$names")))
      }
    } finally provider.close()
  }

  private def rowsOf(store: ReadStateStore, family: String): Map[String, Seq[String]] = {
    val pairs =
      if (family == "default") store.iterator(family) else store.iteratorWithMultiValues(family)
    pairs
      .map(pair => Vectors.hex(pair.key.getBytes) -> Vectors.hex(pair.value.getBytes))
      .toSeq
      .groupMap(_._1)(_._2)
  }
}

object StoreVectorsSuite {
  private val Cleancut = classOf[CleancutStateStoreProvider].getName

  /** The families of the vectors, by id. */
  private val Families = Map("0" -> "default", "1" -> "lists")
}
