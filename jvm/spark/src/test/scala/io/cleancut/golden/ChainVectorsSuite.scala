package io.cleancut.golden

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path => HadoopPath}
import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{Clock, StoreId}
import io.cleancut.cutstore.{CutArchive, StoredCut}
import io.cleancut.error.CleancutException
import io.cleancut.objectstore.hadoop.HadoopStore
import io.cleancut.testkit.TestDirectory
import io.cleancut.format.{Chains, CutLayout, FrameKind, FramePlace, StoreCut}
import io.cleancut.format.cut.{Cut, CutPage}

/** Pages, and the chains that cuts reference; the Python suites read the same. */
class ChainVectorsSuite extends AnyFunSuite {
  import ChainVectorsSuite._

  for (vector <- Vectors.pages)
    if (vector.json.has("content")) test(s"the page ${vector.name} is read")(readPage(vector))
    else
      test(s"the page ${vector.name} is refused") {
        val error = intercept[CleancutException](parsed(vector))
        assert(error.getErrorId == vector.json.get("error").asText)
      }

  for (vector <- Vectors.chains)
    if (vector.json.has("chains")) {
      test(s"the chains of ${vector.name} are read")(withChains(vector)(readChains(vector)))
    } else test(s"the chains of ${vector.name} are refused")(withChains(vector)(refuse(vector)))

  test("there are vectors of sound and of damaged pages and chains") {
    val (pages, damagedPages) = Vectors.pages.partition(_.json.has("content"))
    val (chains, damagedChains) = Vectors.chains.partition(_.json.has("chains"))
    assert(pages.size >= 4 && damagedPages.size >= 30)
    assert(chains.size >= 15 && damagedChains.size >= 25)
  }

  private def parsed(vector: Vectors.Vector): CutPage = {
    val name = vector.json.get("request").get("name").asText
    CutPage.parse(name, CutLayout.parsePage(name).get, vector.bytes)
  }

  private def readPage(vector: Vectors.Vector): Assertion = {
    val content = vector.json.get("content")
    val page = parsed(vector)
    val names = Vectors.elements(content.get("segments")).map(_.asText)
    assert(page.segments == names)
    val expected = Vectors.elements(content.get("stores")).map { store =>
      val frames = Vectors.elements(store.get("frames")).map(Vectors.elements)
      Vectors.store(store) -> frames.map(f => frame(names(f.head.asInt), f.tail))
    }
    assert(page.stores.map(store => store -> page.of(store).toList) == expected)
    val again = CutPage.encode(page.stores.map(store => StoreCut(store, page.of(store))))
    val same = CutPage.parse("again", page.epoch, again)
    assert(page.stores.forall(store => same.of(store) == page.of(store)))
  }

  private def readChains(vector: Vectors.Vector)(archive: CutArchive): Assertion = {
    val expected = chainsIn(vector.json.get("chains"))
    val actual = whole(vector, archive)
    assert(actual.stores.map(chain => chain.store -> chain.frames.toList) == expected)
    storedIn(vector, archive).fold(succeed) { stored =>
      expected.foreach { case (store, frames) =>
        assert(stored.of(store).map(_.frames.toList).contains(frames))
      }
      assert(stored.of(StoreId(99, 99, "none")).isEmpty)
    }
  }

  private def refuse(vector: Vectors.Vector)(archive: CutArchive): Assertion = {
    val error = intercept[CleancutException](whole(vector, archive))
    assert(error.getErrorId == vector.json.get("error").asText)
    val readable = chainsIn(vector.json.path("readable"))
    if (readable.isEmpty) succeed
    else {
      val stored = storedIn(vector, archive).get
      assert(readable.forall { case (store, frames) =>
        stored.of(store).map(_.frames.toList).contains(frames)
      })
    }
  }

  /** Seals are left out, because their chains continue another cut. */
  private def storedIn(vector: Vectors.Vector, archive: CutArchive): Option[StoredCut] = {
    val name = vector.json.get("cut").asText
    if (name.startsWith(CutLayout.Savepoints)) archive.savepoints.all().headOption.map(_._2)
    else if (name.endsWith(".cut")) archive.cuts.open(vector.json.get("epoch").asLong)
    else None
  }

  private def whole(vector: Vectors.Vector, archive: CutArchive): Cut =
    storedIn(vector, archive).map(_.whole).getOrElse {
      val name = vector.json.get("cut").asText.stripPrefix(CutLayout.Cuts)
      val seal = CutLayout.parseSeal(name).get
      archive.cuts.readSeal(seal, archive.cuts.read(seal.epoch - 1)).get
    }
}

private object ChainVectorsSuite {
  type Frame = Chains.Frame

  def frame(segment: String, fields: Seq[JsonNode]): Frame = {
    val Seq(kind, number, id, offset, length, crc) = fields: @unchecked
    val place = FramePlace(segment, offset.asLong, length.asLong, crc.asLong.toInt)
    (FrameKind.named(kind.asText), io.cleancut.base.StateVersion(number.asLong, id.asText), place)
  }

  def chainsIn(json: JsonNode): Seq[(StoreId, List[Frame])] = Vectors.elements(json).map { store =>
    val frames = Vectors.elements(store.get("frames")).map(Vectors.elements).map { fields =>
      frame(fields(3).asText, fields.patch(3, Nil, 1))
    }
    Vectors.store(store) -> frames.toList
  }

  def withChains(vector: Vectors.Vector)(read: CutArchive => Assertion): Assertion =
    TestDirectory.use("chains") { directory =>
      vector.json.get("objects").properties.asScala.foreach { entry =>
        val file = directory.resolve(Path.of(entry.getKey))
        Files.createDirectories(file.getParent)
        Files.write(file, Vectors.hex(entry.getValue.asText))
      }
      val path = new HadoopPath(directory.toUri)
      val store = HadoopStore.open(path, new Configuration, Clock.System)
      read(new CutArchive(store, Clock.System))
    }
}
