package io.cleancut.engine

import java.io.IOException

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.engine.OneFamily._
import io.cleancut.engine.memory.{Bytes, KeyHash}
import io.cleancut.error.CleancutException
import io.cleancut.format.frame.{BaseFrame, BlockContent, FamilyTotals, FrameBytes}
import io.cleancut.testkit.{Blob, Frames, Seeded, TestMemory}
import io.cleancut.testkit.Blob.Rows

/** A log that begins with a base in a file and reads its blocks on demand. */
class UnreadBaseSuite extends AnyFunSuite with Seeded {
  import UnreadBaseSuite._

  test("a read of a key reads its block and no other") {
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

  test("a key is read alone until its block is requested often") {
    TestMemory.using("checked") { owned =>
      val rows = rowsOf(new Random(9), 2000)
      val source = new Counted(baseOf(rows, owned, blockBytes = 1000).bytes)
      val log = attached(source, rows, owned, SparseReads(requestsPerBlock = 2, share = 1.0))
      val table = log.contents
      val (opening, blocks) = (source.reads, table.unreadBlocks)
      // The keys of one block, in the order of the base.
      val keys = rows.keys.toSeq.sortBy(key => Integer.toUnsignedLong(hashOf(key, owned))).take(4)
      assert(get(log, owned, keys(0)).contains(rows(keys(0))) && table.keysInLog == 1)
      assert(get(log, owned, keys(0)).nonEmpty && source.reads == opening + 1)
      assert(get(log, owned, keys(1)).contains(rows(keys(1))) && table.keysInLog == 2)
      assert(source.reads == opening + 2 && table.unreadBlocks == blocks)
      assert(get(log, owned, keys(2)).contains(rows(keys(2))) && table.keysInLog > 10)
      assert(get(log, owned, keys(3)).contains(rows(keys(3))))
      assert(source.reads == opening + 3 && table.unreadBlocks == blocks - 1)
      log.complete()
      assert(table.keysInLog == rows.size && table.totals.keys == rows.size)
      assert(rows.forall { case (k, v) => get(log, owned, k).contains(v) })
      log.release()
    }
  }

  test("blocks are loaded completely after a share of their number has been requested") {
    TestMemory.using("checked") { owned =>
      val rows = rowsOf(new Random(10), 2000)
      val source = new Counted(baseOf(rows, owned, blockBytes = 1000).bytes)
      val log = attached(source, rows, owned, SparseReads(requestsPerBlock = 9, share = 0.25))
      val (opening, blocks) = (source.reads, log.contents.unreadBlocks)
      // Absent keys count if a block has to be decoded for them.
      val absent = Seq.tabulate(500)(i => Blob.of(7, i.toByte, (i >> 8).toByte))
      val isSparse = absent.takeWhile { key =>
        assert(get(log, owned, key).isEmpty)
        log.contents.unreadBlocks == blocks
      }
      assert(isSparse.size >= blocks / 4 && source.reads == opening + blocks / 4 + 1)
      assert(log.contents.keysInLog > 0)
      assert(absent.forall(get(log, owned, _).isEmpty))
      log.release()
    }
  }

  test("a removal in a block that was read in part is purged when the base has been read") {
    TestMemory.using("checked") { owned =>
      val rows = rowsOf(new Random(11), 500)
      val source = new Counted(baseOf(rows, owned, blockBytes = 1000).bytes)
      val log = attached(source, rows, owned, SparseReads(requestsPerBlock = 9, share = 9.0))
      val removed = rows.keys.take(5)
      removed.foreach(key => assert(log.remove(Blob.bytes(key))))
      log.put(Blob.bytes(removed.last), Blob.bytes(Blob.of(1)))
      for (number <- 8 to 9) log.seal(Frames.version(number), keep = 1)
      assert(log.contents.keysInLog == 5)
      assert(removed.init.forall(get(log, owned, _).isEmpty))
      log.complete()
      assert(log.contents.keysInLog == 500)
      log.seal(Frames.version(10), keep = 1)
      assert(log.contents.keysInLog == 496 && log.keys == 496)
      assert(removed.init.forall(get(log, owned, _).isEmpty))
      assert(get(log, owned, removed.last).contains(Blob.of(1)))
      log.release()
    }
  }

  test("a log is released with part of its base unread") {
    TestMemory.using("checked") { owned =>
      val rows = rowsOf(new Random(2), 500)
      val source = new Counted(baseOf(rows, owned, blockBytes = 300).bytes)
      val log = attached(source, rows, owned)
      rows.keys.take(3).foreach(get(log, owned, _))
      log.release()
      assert(source.isClosed)
    }
  }

  test("a log is rewound to the empty store with part of its base unread") {
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

  test("an unreadable block is an error at each read, and is not cached") {
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

  test("corruption of any byte is detected when the base is opened or the block is read") {
    val rows = rowsOf(new Random(5), 60)
    TestMemory.using("checked") { owned =>
      val frame = baseOf(rows, owned, blockBytes = 400)
      var (atOnce, later) = (0, 0)
      for (at <- frame.bytes.indices) {
        val damaged = frame.bytes.clone()
        damaged(at) = (damaged(at) ^ (1 << (at % 8))).toByte
        val log = OneFamily.newLog(owned)
        val error =
          try
            BaseFrame.open(frame.request, new Counted(damaged)) match {
              case Some(base) =>
                log.attach(base)
                val thrown = intercept[CleancutException](log.complete())
                later += 1
                Some(thrown)
              // The format version or the kind is corrupted, which only a complete read detects.
              case None => None
            }
          catch {
            case e: CleancutException =>
              atOnce += 1
              Some(e)
          } finally log.release()
        error.foreach { e =>
          val ids =
            Set("CLEANCUT_FRAME_CORRUPTED", "CLEANCUT_FORMAT_UNKNOWN", "CLEANCUT_FRAME_MISPLACED")
          assert(ids(e.getErrorId), s"at byte $at")
        }
        assert(error.isDefined || at == VersionAt, s"at byte $at")
      }
      assert(atOnce > 100 && later > 500)
    }
  }

  test("a base whose index states other hashes or sizes of rows is corrupted") {
    val rows = rowsOf(new Random(6), 60)
    TestMemory.using("checked") { owned =>
      val frame = baseOf(rows, owned, blockBytes = 400)
      def failure(change: Vector[BlockContent] => Vector[BlockContent]): Option[String] = {
        val log = OneFamily.newLog(owned)
        try {
          log.attach(withContents(frame, change).open().get)
          log.complete()
          None
        } catch { case e: CleancutException => Some(e.getMessage) }
        finally log.release()
      }
      assert(failure(contents => contents).isEmpty)
      def changed(at: Int)(change: BlockContent => BlockContent)(all: Vector[BlockContent]) =
        all.updated(at, change(all(at)))
      val later = failure(changed(1)(content => content.copy(firstHash = content.firstHash + 1)))
      assert(later.exists(_.contains("has a key of another block")))
      val shared =
        failure(all => changed(1)(_.copy(firstHash = all.head.lastHash))(all))
      assert(shared.exists(_.contains("share hashes")))
      def resized(at: Int, by: Int) =
        changed(at)(content => content.copy(bytes = content.bytes + by)) _
      val moved = failure(resized(0, 8).andThen(resized(1, -8)))
      assert(moved.exists(_.contains("the rows of block 0 take")))
    }
  }

  test("a base whose index states another family of a block is corrupted") {
    val rows = rowsOf(new Random(8), 60)
    TestMemory.using("checked") { owned =>
      val frame = baseOf(rows, owned, blockBytes = 400)
      val log = OneFamily.newLog(owned)
      val other = log.declare(OneFamily.Schema.copy(name = "other")).schema.id
      val moved = withContents(frame, _.map(_.copy(family = other)), _ => other)
      log.attach(moved.open().get)
      val thrown = intercept[CleancutException](log.complete())
      assert(thrown.getMessage.contains("block 0 has a record of family 0"))
      log.release()
    }
  }

  /** The same base, with another index. */
  private def withContents(
      frame: Frames.Frame,
      change: Vector[BlockContent] => Vector[BlockContent],
      familyOf: Int => Int = identity
  ): Frames.Frame = {
    val base = frame.open().get
    Frames.write(frame.identity) { writer =>
      frame.read { (reader, scratch) =>
        change(base.index.blocks.map(_.content).toVector).foreach { content =>
          val records = reader.nextBlock()
          val block = writer.block(scratch, reader.rawLength, records, Some(content))
          block.compress()
          writer.append(block)
        }
      }
      writer.finish(
        base.keys,
        base.index.totals.map { case (id, totals) => familyOf(id) -> totals }
      )
    }
  }

  test("a truncated base cannot be opened") {
    val rows = rowsOf(new Random(6), 60)
    TestMemory.using("checked") { owned =>
      val frame = baseOf(rows, owned, blockBytes = 400)
      for (length <- frame.bytes.indices)
        intercept[CleancutException] {
          BaseFrame.open(frame.request, new Counted(frame.bytes.take(length)))
        }
    }
  }

  test("a list larger than a page of the log is scanned, copied and rewritten") {
    TestMemory.using("fast") { owned =>
      val keys = Seq(1, 2, 3).map(i => Blob.of(i.toByte))
      val log = OneFamily.newLog(owned)
      for (key <- keys; i <- 0 until 40)
        log.merge(Blob.bytes(key), Bytes.of(Array.fill(PagedLog.SlotBytes / 30)(i.toByte)))
      log.seal(Target, keep = 1)
      val frame = Frames.write(Frames.base(Target, 3L))(log.writeBase(log.latest, _))
      log.release()
      val restored = OneFamily.newLog(owned)
      restored.attach(frame.open().get)
      restored.seal(Target, keep = 1)
      restored.complete()
      verifyLists(restored, owned, keys, 40)
      val compaction = new Compaction(restored, _ => None, owned.memory, owned.account)
      assert(compaction.copyOldest(() => true))
      val copy = compaction.catchUp()
      restored.release()
      verifyLists(copy, owned, keys, 40)
      assert(Frames.write(Frames.base(Target, 3L))(copy.writeBase(copy.latest, _)).bytes.nonEmpty)
      copy.release()
    }
  }

  test("a list larger than a block is split, and read back in order") {
    TestMemory.using("fast") { owned =>
      val key = Blob.of(1)
      val log = OneFamily.newLog(owned)
      for (i <- 0 until 100) log.merge(Blob.bytes(key), Bytes.of(Array.fill(100)(i.toByte)))
      log.put(Blob.bytes(Blob.of(2)), Bytes.of(new Array[Byte](5000)))
      log.seal(Target, keep = 1)
      val frame = Frames.write(Frames.base(Target, 2L)) {
        log.writeBase(log.latest, _, blockBytes = 500, maxBlockBytes = 2000)
      }
      log.release()
      val blocks = frame.read { (reader, _) =>
        Iterator.continually(reader.nextBlock() -> reader.rawLength).takeWhile(_._1 > 0).toVector
      }
      assert(blocks.size >= 7)
      assert(blocks.forall { case (records, bytes) => records == 1 || bytes <= 2000 })
      assert(frame.open().isEmpty, "the blocks of a split list are not in the index")
      val restored = OneFamily.newLog(owned)
      frame.read((reader, scratch) => restored.load(reader, scratch))
      verifyLists(restored, owned, Seq(key), 100)
      restored.release()
    }
  }

  for ((total, wrong) <- Seq("keys" -> FamilyTotals(1L, 0L), "bytes" -> FamilyTotals(0L, 8L)))
    test(s"wrong $total in the totals of a delta are an error after the base has been read") {
      TestMemory.using("fast") { owned =>
        val rows = rowsOf(new Random(7), 500)
        val log = OneFamily.newLog(owned)
        log.attach(BaseFrame.open(request(rows), new Counted(baseOf(rows, owned, 300).bytes)).get)
        val right = log.contents.totals
        val totals = FamilyTotals(right.keys + wrong.keys, right.bytes + wrong.bytes)
        new LogFiles(owned.memory)
          .load(Seq(new LogFiles(owned.memory).emptyDelta(Target, totals)), log)
        log.seal(Frames.version(8), keep = 1)
        rows.keys.take(3).foreach(get(log, owned, _))
        for (_ <- 0 until 2)
          assert(
            intercept[CleancutException](log.complete()).getErrorId == "CLEANCUT_FRAME_CORRUPTED"
          )
        assert(intercept[CleancutException](log.scan(Record.NoBound)).getErrorId.nonEmpty)
        assert(intercept[CleancutException](log.completeIfWanted()).getErrorId.nonEmpty)
        log.release()
      }
    }

  test("a compaction that misses a key fails, and the log is unchanged") {
    TestMemory.using("fast") { owned =>
      val rows = rowsOf(new Random(8), 100)
      val log = OneFamily.newLog(owned)
      rows.foreach { case (key, value) => log.put(Blob.bytes(key), Blob.bytes(value)) }
      log.seal(Target, keep = 1)
      // The record appears to be replaced by a later one, so no scan returns it.
      val lost = log.find(Blob.bytes(rows.keys.head), Record.NoBound)
      Record.setNext(owned.memory, lost, log.latest.mark.end - 1)
      val compaction = new Compaction(log, _ => None, owned.memory, owned.account)
      val failure = intercept[IllegalStateException](compaction.copyOldest(() => true))
      assert(failure.getMessage.contains(s"returned ${rows.size - 1} keys"))
      compaction.abandon()
      log.release()
    }
  }

  test("a copy with other totals than its log is never served") {
    TestMemory.using("fast") { owned =>
      val log = OneFamily.newLog(owned)
      val keys = (1 to 20).map(i => Blob.of(i.toByte))
      keys.foreach(key => log.put(Blob.bytes(key), Blob.bytes(key)))
      log.seal(Target, keep = 1)
      val compaction = new Compaction(log, _ => None, owned.memory, owned.account)
      assert(compaction.copyOldest(() => true))
      keys.foreach(key => log.merge(Blob.bytes(key), Blob.bytes(key)))
      log.seal(Frames.version(8), keep = 2)
      // The last value appears to be replaced.
      val lost = log.find(Blob.bytes(keys.last), Record.NoBound)
      Record.setNext(owned.memory, lost, PagedLog.FirstRef)
      assert(intercept[IllegalStateException](compaction.catchUp()).getMessage.contains("expected"))
      compaction.abandon()
      log.release()
    }
  }

  private def verifyLists(
      log: StateLog,
      owned: TestMemory.Owned,
      keys: Seq[Blob.Blob],
      values: Int
  ): Unit = {
    val scan = log.scan(Record.NoBound)
    val lists = Iterator
      .continually(scan.advance())
      .takeWhile(identity)
      .map(_ => Blob.keyAt(owned.memory, scan.address) -> log.values(owned.memory, scan.address))
      .toMap
    for (key <- keys)
      assert(lists.get(key).map(_.map(_.head)).contains((0 until values).map(_.toByte)))
  }

  private def attached(
      source: Counted,
      rows: Rows,
      owned: TestMemory.Owned,
      sparse: SparseReads = SparseReads.Default
  ): StateLog = {
    val log = OneFamily.newLog(owned)
    log.attach(BaseFrame.open(request(rows), source).get, sparse)
    log.seal(Target, keep = 1)
    log
  }

  private def get(log: StateLog, owned: TestMemory.Owned, key: Blob.Blob): Option[Blob.Blob] = {
    val record = log.find(Blob.bytes(key), Record.NoBound)
    Option.when(record != 0L)(Blob.valueAt(owned.memory, record))
  }

  private def hashOf(key: Blob.Blob, owned: TestMemory.Owned): Int = {
    val bytes = Blob.bytes(key)
    KeyHash.hash32(owned.memory, bytes.base, bytes.offset, bytes.length)
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

  /** Offset of the version in the header; version 1 has no index. */
  private val VersionAt = 4

  private def rowsOf(random: Random, count: Int): Rows =
    Seq.fill(count)(Blob.random(random, 20) -> Blob.random(random, random.nextInt(30))).toMap

  /** Bytes in memory that count reads and may become unreadable. */
  private class Counted(bytes: Array[Byte]) extends FrameBytes {
    var reads = 0
    var isBroken = false
    var isClosed = false

    override def length: Long = bytes.length.toLong

    override def read(offset: Long, into: Array[Byte], count: Int): Unit = {
      if (isBroken) throw new IOException("the disk is unreadable")
      reads += 1
      System.arraycopy(bytes, offset.toInt, into, 0, count)
    }

    override def close(): Unit = isClosed = true
  }
}
