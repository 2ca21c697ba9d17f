package io.cleancut.engine

import java.io.IOException

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.engine.OneFamily._
import io.cleancut.error.CleancutException
import io.cleancut.format.{BaseFrame, FrameBytes}
import io.cleancut.testkit.{Blob, Frames, Seeded, TestMemory}
import io.cleancut.testkit.Blob.Rows

/** A log that begins with a base on file, of which it reads what is asked for. */
class UnreadBaseSuite extends AnyFunSuite with Seeded {
  import UnreadBaseSuite._

  test("a key is read with its block, and no other block with it") {
    TestMemory.using("checked") { owned =>
      val rows = rowsOf(new Random(1), 2000)
      val source = new Counted(baseOf(rows, owned, blockBytes = 1000).bytes)
      val log = attached(source, rows, owned)
      val opening = source.reads
      assert(log.keys == rows.size && !log.isComplete)
      val (key, value) = rows.head
      assert(get(log, owned, key).contains(value))
      assert(source.reads == opening + 1)
      assert(get(log, owned, key).contains(value) && source.reads == opening + 1)
      log.complete()
      assert(rows.forall { case (k, v) => get(log, owned, k).contains(v) })
      assert(source.isClosed)
      log.release()
    }
  }

  test("a log is given back with part of its base unread") {
    TestMemory.using("checked") { owned =>
      val rows = rowsOf(new Random(2), 500)
      val source = new Counted(baseOf(rows, owned, blockBytes = 300).bytes)
      val log = attached(source, rows, owned)
      rows.keys.take(3).foreach(get(log, owned, _))
      log.release()
      assert(source.isClosed)
    }
  }

  test("a log is rewound to where it was empty, with part of its base unread") {
    TestMemory.using("checked") { owned =>
      val rows = rowsOf(new Random(3), 500)
      val source = new Counted(baseOf(rows, owned, blockBytes = 300).bytes)
      val log = attached(source, rows, owned)
      rows.keys.take(3).foreach(get(log, owned, _))
      val empty = log.contents
      empty.rollback(Table.Mark.Empty)
      assert(empty.keys == 0L && rows.keys.forall(key => get(log, owned, key).isEmpty))
      log.release()
    }
  }

  test("a block that cannot be read is an error each time, and nothing of it is kept") {
    TestMemory.using("checked") { owned =>
      val rows = rowsOf(new Random(4), 2000)
      val source = new Counted(baseOf(rows, owned, blockBytes = 1000).bytes)
      val log = attached(source, rows, owned)
      source.isBroken = true
      for (_ <- 0 until 2; key <- rows.keys.take(5))
        intercept[IOException](log.find(Blob.bytes(key), Record.NoBound))
      source.isBroken = false
      assert(rows.forall { case (key, value) => get(log, owned, key).contains(value) })
      log.release()
    }
  }

  test("damage at any byte is found when it is opened, or by whoever reads the block") {
    val rows = rowsOf(new Random(5), 60)
    TestMemory.using("checked") { owned =>
      val frame = baseOf(rows, owned, blockBytes = 400)
      var (atOnce, later) = (0, 0)
      for (at <- frame.bytes.indices) {
        val damaged = frame.bytes.clone()
        damaged(at) = (damaged(at) ^ (1 << (at % 8))).toByte
        val log = OneFamily.newLog(owned)
        val found =
          try
            BaseFrame.open(frame.request, new Counted(damaged)) match {
              case Some(base) =>
                log.attach(base)
                val thrown = intercept[CleancutException](log.complete())
                later += 1
                Some(thrown)
              // The format's version is damaged, or the kind: what reads a whole frame says so.
              case None => None
            }
          catch {
            case e: CleancutException =>
              atOnce += 1
              Some(e)
          } finally log.release()
        found.foreach { e =>
          val ids =
            Set("CLEANCUT_FRAME_DAMAGED", "CLEANCUT_FORMAT_UNKNOWN", "CLEANCUT_FRAME_MISPLACED")
          assert(ids(e.getErrorId), s"at byte $at")
        }
        assert(found.isDefined || at == VersionAt, s"at byte $at")
      }
      assert(atOnce > 100 && later > 500)
    }
  }

  test("a frame that is cut short is no base to be opened") {
    val rows = rowsOf(new Random(6), 60)
    TestMemory.using("checked") { owned =>
      val frame = baseOf(rows, owned, blockBytes = 400)
      for (length <- frame.bytes.indices)
        intercept[CleancutException] {
          BaseFrame.open(frame.request, new Counted(frame.bytes.take(length)))
        }
    }
  }

  private def attached(source: Counted, rows: Rows, owned: TestMemory.Owned): StateLog = {
    val log = OneFamily.newLog(owned)
    log.attach(BaseFrame.open(request(rows), source).get)
    log.seal(Target, keep = 1)
    log
  }

  private def get(log: StateLog, owned: TestMemory.Owned, key: Blob.Blob): Option[Blob.Blob] = {
    val found = log.find(Blob.bytes(key), Record.NoBound)
    Option.when(found != 0L)(Blob.valueAt(owned.memory, found))
  }

  private def request(rows: Rows) = Frames
    .Frame(
      io.cleancut.format.FrameKind.Base,
      Frames.base(Target, rows.size.toLong),
      Array.emptyByteArray
    )
    .request

  private def baseOf(rows: Rows, owned: TestMemory.Owned, blockBytes: Int): Frames.Frame = {
    val log = OneFamily.newLog(owned)
    rows.foreach { case (key, value) => log.put(Blob.bytes(key), Blob.bytes(value)) }
    log.seal(Target, keep = 1)
    val frame =
      Frames.write(Frames.base(Target, rows.size.toLong))(log.writeBase(log.latest, _, blockBytes))
    log.release()
    frame
  }
}

object UnreadBaseSuite {
  private val Target = Frames.version(7)

  /** Of the version in the header: 1 is one without an index. */
  private val VersionAt = 4

  private def rowsOf(random: Random, count: Int): Rows =
    Seq.fill(count)(Blob.random(random, 20) -> Blob.random(random, random.nextInt(30))).toMap

  /** Bytes in memory that count how often they are read, and may cease to be there. */
  private class Counted(bytes: Array[Byte]) extends FrameBytes {
    var reads = 0
    var isBroken = false
    var isClosed = false

    override def length: Long = bytes.length.toLong

    override def read(offset: Long, into: Array[Byte], count: Int): Unit = {
      if (isBroken) throw new IOException("the disk is gone")
      reads += 1
      System.arraycopy(bytes, offset.toInt, into, 0, count)
    }

    override def close(): Unit = isClosed = true
  }
}
