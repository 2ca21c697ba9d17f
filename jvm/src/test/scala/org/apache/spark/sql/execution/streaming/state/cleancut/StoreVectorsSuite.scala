package org.apache.spark.sql.execution.streaming.state.cleancut

import java.nio.file.Files

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.state.ReadStateStore

import io.cleancut.CleancutStateStoreProvider
import io.cleancut.error.CleancutException
import io.cleancut.format.{FormatNote, StoreLayout}
import io.cleancut.golden.Vectors

import Providers._

/** Whole directories of the test vectors, read through the provider. */
class StoreVectorsSuite extends AnyFunSuite {
  import StoreVectorsSuite._

  for (vector <- Vectors.stores) test(s"the store ${vector.name} is read as its vector says") {
    val store = Vectors.store(vector.json.get("store"))
    val setup = Providers
      .setup()
      .copy(name = store.name, operator = store.operator, partition = store.partition)
    val root = setup.directory.resolve(StoreLayout.RootName)
    val directory = root.resolve(StoreLayout.storeDirectory(store))
    Files.createDirectories(directory)
    Files.write(root.resolve(StoreLayout.FormatObject), FormatNote(None).toJson)
    vector.json.get("files").properties.asScala.foreach { file =>
      Files.write(directory.resolve(file.getKey), Vectors.hex(file.getValue.asText))
    }
    Vectors.elements(vector.json.get("reads")).foreach(check(setup, _))
  }

  private def check(setup: Setup, read: JsonNode): Assertion = {
    val provider = setup.openWith(Cleancut, useColumnFamilies = true)
    val id = Option(read.get("id")).map(_.asText)
    try {
      def found(): Map[String, Map[String, Seq[String]]] = {
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
        assert(found() == rows.toMap)
      } else {
        val thrown = intercept[Throwable](found())
        val causes = Iterator.iterate(thrown)(_.getCause).takeWhile(_ != null)
        val error = causes.collectFirst { case e: CleancutException => e.getErrorId }
        assert(error.contains(read.get("error").asText))
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
