package io.cleancut.golden

import java.io.ByteArrayInputStream

import scala.collection.mutable

import com.fasterxml.jackson.databind.JsonNode
import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.StateVersion
import io.cleancut.engine.{Record, StateLog, Table}
import io.cleancut.engine.memory.Memory
import io.cleancut.error.CleancutException
import io.cleancut.testkit.{Blob, Frames}
import io.cleancut.format.{FrameKind, StoreLayout}
import io.cleancut.format.frame.{BaseFrame, BlockScratch, FrameReader, FrameRequest}

/** Frames and names that an independent encoder wrote, read as the vectors specify. */
class FormatVectorsSuite extends AnyFunSuite {

  test("names of objects are built and parsed as the vectors specify") {
    for (json <- Vectors.elements(Vectors.layout.get("frames"))) {
      val version = StateVersion(json.get("version").asLong, json.get("id").asText)
      val name = json.get("name").asText
      assert(StoreLayout.parseObjectName(name).contains(version -> kind(json)))
      assert(StoreLayout.objectName(version, kind(json)) == name)
    }
    for (json <- Vectors.elements(Vectors.layout.get("foreignFiles")))
      assert(StoreLayout.parseObjectName(json.asText).isEmpty, json)
    for (json <- Vectors.elements(Vectors.layout.get("stores")))
      assert(StoreLayout.storeDirectory(Vectors.store(json)) == json.get("directory").asText)
  }

  for (vector <- Vectors.frames)
    if (vector.json.has("frame")) test(s"the frame ${vector.name} is read")(readSound(vector))
    else test(s"the frame ${vector.name} is refused")(refuse(vector))

  test("there are vectors of sound and of damaged frames") {
    val (sound, damaged) = Vectors.frames.partition(_.json.has("frame"))
    assert(sound.size >= 8 && damaged.size >= 30)
  }

  test("a base that is read block by block has the content of one that is read completely") {
    val opened = Vectors.frames.filter(_.json.has("frame")).flatMap { vector =>
      BaseFrame.open(requestOf(vector), new Frames.InMemory(vector.bytes)).map { base =>
        val whole = new StateLog(base.identity.store, _ => None)
        read(vector)((reader, scratch) => whole.load(reader, scratch))
        val parts = new StateLog(base.identity.store, _ => None)
        parts.attach(base)
        val keys = whole.families.flatMap(family => keysOf(family.table).map(family.schema.id -> _))
        // Each key is found by its hash.
        val matching = keys.count { case (id, key) =>
          parts.families.find(_.schema.id == id).exists { family =>
            family.table.find(Blob.bytes(key), Record.NoBound) != 0L
          }
        }
        assert(matching == keys.size && keys.size == base.keys)
        assert(parts.liveBytes == whole.liveBytes)
        Seq(whole, parts).foreach(_.release())
        vector.name
      }
    }
    assert(opened.toSet == Set("base-indexed", "base-indexed-zstd"))
  }

  test("a base with a damaged index is refused when it is read block by block") {
    val damaged = Vectors.frames.filter(_.name.startsWith("index-"))
    assert(damaged.size >= 10)
    damaged.foreach { vector =>
      val log = new StateLog(Vectors.store(vector.json.get("request")), _ => None)
      try {
        // Without an index it is read completely, which detects the rest.
        val thrown = intercept[CleancutException] {
          BaseFrame.open(requestOf(vector), new Frames.InMemory(vector.bytes)).foreach { base =>
            log.attach(base)
            log.complete()
          }
        }
        assert(thrown.getErrorId == "CLEANCUT_FRAME_CORRUPTED", vector.name)
      } finally log.release()
    }
  }

  private def keysOf(table: Table): Seq[Blob.Blob] = {
    val rows = table.snapshot(Record.NoBound)
    Iterator
      .continually(rows.advance())
      .takeWhile(identity)
      .map(_ => Blob.keyAt(Memory.access, rows.address))
      .toVector
  }

  private def readSound(vector: Vectors.Vector): Assertion = {
    val expected = vector.json.get("frame")
    val blocks = read(vector) { (reader, scratch) =>
      val matching = mutable.ArrayBuffer.empty[Seq[String]]
      var count = reader.nextBlock()
      while (count > 0) {
        matching += RawRecords.decode(scratch.raw.take(reader.rawLength))
        count = reader.nextBlock()
      }
      assert(reader.trailer.keys == expected.get("keys").asLong)
      assert(reader.sizeBytes == expected.get("bytes").asLong)
      assert(reader.identity.parent.map(_.version) == long(expected, "parentVersion"))
      assert(reader.identity.parent.flatMap(_.id) == text(expected, "parentId"))
      assert(reader.identity.families.size == Option(expected.get("families")).fold(0)(_.size))
      matching.toSeq
    }
    assert(blocks == Vectors.elements(expected.get("blocks")).map(describe))
  }

  private def refuse(vector: Vectors.Vector): Assertion = {
    val thrown = intercept[CleancutException](read(vector) { (reader, scratch) =>
      if (vector.json.get("layer").asText == "frame") while (reader.nextBlock() > 0) {}
      else load(reader, scratch)
    })
    assert(thrown.getErrorId == vector.json.get("error").asText)
    assert(thrown.getMessage.contains(vector.name))
  }

  private def load(reader: FrameReader, scratch: BlockScratch): Unit = {
    val log = new StateLog(reader.identity.store, _ => None)
    try log.load(reader, scratch)
    finally log.release()
    ()
  }

  private def read[A](vector: Vectors.Vector)(body: (FrameReader, BlockScratch) => A): A = {
    val request = requestOf(vector)
    val scratch = BlockScratch.borrow()
    try body(new FrameReader(request, new ByteArrayInputStream(vector.bytes), scratch), scratch)
    finally scratch.giveBack()
  }

  private def requestOf(vector: Vectors.Vector): FrameRequest = {
    val json = vector.json.get("request")
    val version = StateVersion(json.get("version").asLong, json.get("id").asText)
    FrameRequest(vector.name, Vectors.store(json), version, kind(json))
  }

  private def describe(block: JsonNode): Seq[String] = Vectors.elements(block).map { record =>
    val value = text(record, "value").fold("")(v => s" $v")
    s"${record.get("operation").asText} ${record.get("family").asInt} " +
      s"${record.get("key").asText}$value"
  }

  private def kind(json: JsonNode): FrameKind =
    FrameKind.all.find(_.extension == json.get("kind").asText).get

  private def long(json: JsonNode, field: String): Option[Long] =
    Option(json.get(field)).map(_.asLong)

  private def text(json: JsonNode, field: String): Option[String] =
    Option(json.get(field)).map(_.asText)
}
