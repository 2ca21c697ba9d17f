package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.nio.file.{Files, Path}

import Providers._
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.types.StructType

import io.cleancut.base.StoreId
import io.cleancut.format.StoreLayout
import io.cleancut.format.frame.{FrameIdentity, FrameRequest}
import io.cleancut.testkit.Frames

/**
 * The frames that have the schemas of their rows, so that a reader without Spark can decode them.
 */
class StoredSchemasSuite extends AnyFunSuite {
  private val Changed = StructType(ValueSchema.map(_.copy(nullable = false)))

  test("only the first delta and each base have the schemas") {
    val setup = Providers.setup()
    val provider = setup.open()
    for (version <- 0L until 4L) commit(provider, version, version -> version)
    VersionedStores.open(provider, 4, withBase = true).commit()
    provider.close()
    val again = setup.open()
    commit(again, 5, 1L -> 1L)
    again.close()
    val frames = setup.frames.map(path => (identity(path).version.number, schemas(path).size))
    assert(frames == Seq(1L -> 1, 2L -> 0, 3L -> 0, 4L -> 0, 5L -> 1, 5L -> 0, 6L -> 0))
    assert(schemas(setup.frames.head) == Seq(ValueSchema))
  }

  test("a delta has changed schemas, in each of its attempts") {
    val setup = Providers.setup()
    val first = setup.open()
    commit(first, 0, 1L -> 10L)
    commit(first, 1, 2L -> 20L)
    first.close()
    val second = setup.copy(valueSchema = Changed).open()
    commit(second, 2, 3L -> 30L)
    commit(second, 2, 3L -> 31L)
    commit(second, 3, 4L -> 40L)
    second.close()
    val frames = setup.frames.map(path => (identity(path).version.number, schemas(path)))
    assert(frames.map(_._1) == Seq(1L, 2L, 3L, 3L, 4L))
    assert(frames.map(_._2) == Seq(Seq(ValueSchema), Nil, Seq(Changed), Seq(Changed), Nil))
  }

  private def schemas(path: Path): Seq[StructType] =
    identity(path).families.map(f => StructType.fromString(f.valueSchema))

  private def identity(path: Path): FrameIdentity = {
    val (version, kind) = StoreLayout.parseObjectName(path.getFileName.toString).get
    val request = FrameRequest(path.toString, StoreId(0L, 0, "default"), version, kind)
    Frames.read(request, Files.readAllBytes(path))((reader, _) => reader.identity)
  }
}
