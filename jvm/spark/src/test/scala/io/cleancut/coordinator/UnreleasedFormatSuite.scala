package io.cleancut.coordinator

import java.io.ByteArrayInputStream
import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.StoreId
import io.cleancut.objectstore.ObjectKey
import io.cleancut.format.{CutLayout, StoreLayout}
import io.cleancut.format.cut.{Cut, CutPage, Segment}
import io.cleancut.format.frame.{BlockScratch, FrameReader, FrameRequest}

/**
 * Objects of a build before release 0.1.0 (`tests/checkpoints/unreleased`) are refused by their
 * first bytes and never parsed.
 */
class UnreleasedFormatSuite extends AnyFunSuite with CutsOnDisk {
  private val root = Path.of("tests", "checkpoints", "unreleased", "cleancut")

  private val objects: Map[String, Array[Byte]] = {
    val paths = Files.walk(root).iterator.asScala.filter(Files.isRegularFile(_)).toVector
    paths.map(path => root.relativize(path).toString -> Files.readAllBytes(path)).toMap
  }

  private def read(name: String, bytes: Array[Byte]): Any = name.takeWhile(_ != '/') match {
    case "cuts"     => Cut.parse(name, bytes)
    case "pages"    => CutPage.parse(name, CutLayout.parsePage(name).get, bytes)
    case "segments" => Segment.parse(name, bytes, bytes)
    case _          =>
      val (version, kind) = StoreLayout.parseObjectName(name.split('/').last).get
      val request = FrameRequest(name, StoreId(0L, 0, "default"), version, kind)
      val scratch = BlockScratch.borrow()
      try new FrameReader(request, new ByteArrayInputStream(bytes), scratch)
      finally scratch.giveBack()
  }

  for ((name, bytes) <- objects - StoreLayout.FormatObject)
    test(s"$name is refused by its first bytes") {
      // The second object has invalid bytes after the magic.
      for (content <- Seq(bytes, bytes.take(4) ++ new Array[Byte](60))) {
        val error = errorOf(read(name, content))
        assert(error.getErrorId == "CLEANCUT_FORMAT_UNKNOWN")
        assert(error.getMessage.contains(name))
        assert(error.getMessage.contains("written before release 0.1.0"))
      }
    }

  test("a run on an unreleased checkpoint is refused and creates no owner") {
    assert(objects.size == 5)
    objects.foreach { case (name, bytes) => store.put(ObjectKey(name), bytes) }
    val error = errorOf(driver().begin("r1"))
    assert(error.getErrorId == "CLEANCUT_FORMAT_UNKNOWN")
    assert(error.getMessage.contains(StoreLayout.FormatObject))
    assert(error.getMessage.contains("--provider rocksdb --cuts false"))
    for ((name, bytes) <- objects) assert(store.get(ObjectKey(name)).exists(_.sameElements(bytes)))
    assert(!archive.owners.isTaken(1L))
  }
}
