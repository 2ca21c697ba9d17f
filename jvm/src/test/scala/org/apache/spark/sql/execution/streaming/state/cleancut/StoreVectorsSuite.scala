package org.apache.spark.sql.execution.streaming.state.cleancut

import java.nio.file.Files

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.error.CleancutException
import io.cleancut.format.{FormatNote, StoreLayout}
import io.cleancut.golden.Vectors

import Providers._

/** Whole directories of the test vectors, read through the provider. */
class StoreVectorsSuite extends AnyFunSuite {

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
    val provider = setup.open()
    val id = Option(read.get("id")).map(_.asText)
    try {
      def found(): Map[String, String] = {
        val store = provider.getReadStore(read.get("version").asLong, id)
        try
          store
            .iterator()
            .map(pair => Vectors.hex(pair.key.getBytes) -> Vectors.hex(pair.value.getBytes))
            .toMap
        finally store.release()
      }
      if (read.has("rows")) {
        val rows = read.get("rows").properties.asScala
        assert(found() == rows.map(row => row.getKey -> row.getValue.asText).toMap)
      } else {
        val thrown = intercept[Throwable](found())
        val causes = Iterator.iterate(thrown)(_.getCause).takeWhile(_ != null)
        val error = causes.collectFirst { case e: CleancutException => e.getErrorId }
        assert(error.contains(read.get("error").asText))
      }
    } finally provider.close()
  }
}
