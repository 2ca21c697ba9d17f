package io.cleancut.format

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.error.CleancutException
import io.cleancut.testkit.{Blob, Frames, Seeded}
import io.cleancut.format.frame._

class FrameSuite extends AnyFunSuite with Seeded {

  test("a frame is read as it was written, block by block") {
    forSeeds(60) { random =>
      val identity = anyIdentity(random)
      val blocks = Seq.fill(random.nextInt(6))((1 + random.nextInt(9), anyBlock(random)))
      val keys = random.nextInt(1000).toLong
      val frame = Frames.write(identity) { writer =>
        val scratch = BlockScratch.borrow()
        for ((records, raw) <- blocks) {
          scratch.growRaw(raw.length)
          raw.copyToArray(scratch.raw)
          writer.writeBlock(scratch, raw.length, records)
        }
        scratch.giveBack()
        writer.finish(keys)
      }
      frame.read { (reader, scratch) =>
        assert(reader.identity == identity)
        intercept[IllegalStateException](reader.trailer)
        for ((records, raw) <- blocks) {
          assert(reader.nextBlock() == records)
          assert(scratch.raw.take(reader.rawLength).sameElements(raw))
        }
        assert(reader.nextBlock() == 0)
        val records = blocks.map(_._1.toLong).sum
        assert(
          reader.trailer == FrameTrailer(
            blocks.size,
            records,
            keys,
            frame.bytes.length.toLong,
            FrameIndex(Map.empty, Vector.empty)
          )
        )
        assert(reader.sizeBytes == frame.bytes.length)
      }
    }
  }

  test("a block without records cannot be written") {
    val scratch = BlockScratch.borrow()
    Frames.write(Frames.delta(Frames.version(1), None)) { writer =>
      intercept[IllegalArgumentException](writer.writeBlock(scratch, 0, 1))
      intercept[IllegalArgumentException](writer.writeBlock(scratch, 1, 0))
      writer.finish(0L)
    }
    scratch.giveBack()
  }

  test("an identity with arbitrary names is unchanged by a round trip through JSON") {
    forSeeds(100) { random =>
      val identity = anyIdentity(random)
      assert(FrameIdentity.fromJson(identity.toJson) == identity)
    }
  }

  test("a header that exceeds the readers' limit is not written") {
    val schema = s"\"${"x" * (10 << 20)}\""
    def of(families: Int) = Frames
      .delta(Frames.version(1), None)
      .copy(families = Seq.tabulate(families)(FamilySchema(_, "f", schema, "1", "1")))
    assert(FrameIdentity.fromJson(of(6).toJson) == of(6))
    val thrown = intercept[CleancutException](of(7).toJson)
    assert(thrown.errorId == "CLEANCUT_OBJECT_TOO_LARGE")
    assert(thrown.getMessage.contains("7 column families"))
  }

  private def anyIdentity(random: Random): FrameIdentity = {
    val store = StoreId(random.nextLong() >>> 1, random.nextInt(), anyName(random))
    val number = (random.nextLong() >>> 1) | 1
    val version = StateVersion(number, anyId(random))
    val families = Seq.tabulate(random.nextInt(3)) { id =>
      val schema = s"""{"type":"struct","fields":[],"n":$id}"""
      FamilySchema(id, anyName(random), schema, "{}", s"""{"keyStateEncoderType":"N$id"}""")
    }
    val parent = Parent(number - 1, if (number == 1L) None else Some(anyId(random)))
    if (random.nextBoolean()) FrameIdentity(store, version, Some(parent), families)
    else FrameIdentity(store, version, None, families, Some(random.nextInt(1 << 30).toLong))
  }

  private def anyId(random: Random): String = Seq.fill(32)(random.nextInt(16).toHexString).mkString

  private val letters = "aZ0_-./% \"\\é状🜁\u0001".codePoints.toArray

  private def anyName(random: Random): String =
    Seq
      .fill(1 + random.nextInt(8))(letters(random.nextInt(letters.length)))
      .map(Character.toString(_))
      .mkString

  private def anyBlock(random: Random): Array[Byte] = {
    val length = 1 + random.nextInt(if (random.nextInt(4) == 0) 300000 else 3000)
    val noise = Blob.random(random, length).toArray
    // Some blocks compress well, some not at all.
    if (random.nextBoolean()) noise.map(b => (b & 3).toByte) else noise
  }
}
