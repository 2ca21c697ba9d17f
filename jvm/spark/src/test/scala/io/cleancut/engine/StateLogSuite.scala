package io.cleancut.engine

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.engine.OneFamily._
import io.cleancut.engine.memory.Bytes
import io.cleancut.error.CleancutException
import io.cleancut.format.frame.FamilyTotals
import io.cleancut.testkit.{Blob, Frames, Seeded, TestMemory}
import io.cleancut.testkit.Blob.Blob

class StateLogSuite extends AnyFunSuite with Seeded {

  test("keys and values larger than a page are found, undone and loaded again") {
    forSeeds(2) { random =>
      using { (log, owned) =>
        val large = Blob.random(random, 3000001)
        val small = Blob.of(1)
        log.put(Blob.bytes(large), Blob.bytes(small))
        log.put(Blob.bytes(small), Blob.bytes(large))
        log.seal(Frames.version(1), keep = 1)
        log.put(Blob.bytes(large), Blob.bytes(large))
        assert(valueOf(log, owned, large).contains(large))
        assert(log.tryRewindTo(log.latest))
        assert(valueOf(log, owned, large).contains(small))
        val base = Frames.write(Frames.base(Frames.version(1), 2L))(log.writeBase(log.latest, _))
        val loaded = newLog(owned)
        base.read((reader, scratch) => loaded.load(reader, scratch))
        assert(valueOf(loaded, owned, large).contains(small))
        assert(valueOf(loaded, owned, small).contains(large))
        loaded.release()
      }
    }
  }

  test("a row above the limit is refused, and the log is unchanged") {
    using { (log, owned) =>
      val key = Blob.of(1)
      log.put(Blob.bytes(key), Blob.bytes(key))
      // Only the length is read: this address has no data.
      val tooLong = new Bytes().pointTo(null, 8L, Table.MaxRowBytes.toInt)
      val refused = intercept[CleancutException](log.put(Blob.bytes(key), tooLong))
      assert(refused.errorId == "CLEANCUT_ROW_TOO_LARGE")
      assert(valueOf(log, owned, key).contains(key) && log.keys == 1)
    }
  }

  test("the removal of a missing key adds no record") {
    using { (log, _) =>
      val key = Blob.of(1)
      assert(!log.remove(Blob.bytes(key)))
      log.put(Blob.bytes(key), Blob.bytes(key))
      assert(log.remove(Blob.bytes(key)))
      val end = log.contents.end
      assert(!log.remove(Blob.bytes(key)))
      assert(log.contents.end == end && log.keys == 0 && log.liveBytes == 0)
    }
  }

  test("a version is found by its ID, if one is requested") {
    using { (log, _) =>
      log.put(Blob.bytes(Blob.of(1)), Blob.bytes(Blob.of(1)))
      log.seal(Frames.version(1), keep = 1)
      assert(log.find(1L, None).contains(log.latest))
      assert(log.find(1L, Some(Frames.version(1).id)).contains(log.latest))
      assert(log.find(1L, Some(Frames.version(2).id)).isEmpty)
    }
  }

  test("rows of a dropped family are garbage, until the drop is undone") {
    using { (log, _) =>
      log.put(Blob.bytes(Blob.of(1)), Blob.bytes(Blob.of(1)))
      log.seal(Frames.version(1), keep = 1)
      val bytes = log.liveBytes
      assert(log.drop(Schema.name))
      assert(log.liveBytes == 0L && log.deadBytes >= bytes && bytes > 0L)
      assert(log.tryRewindTo(log.latest))
      assert(log.liveBytes == bytes && log.keys == 1)
    }
  }

  test("only an empty log can start at a version, and continues from it") {
    using { (log, _) =>
      log.startAt(7L, Some(Frames.version(7).id))
      assert(log.versions.map(_.number) == Seq(7L))
      log.put(Blob.bytes(Blob.of(1)), Blob.bytes(Blob.of(1)))
      log.seal(Frames.version(8), keep = 2)
      assert(log.versions.map(_.number) == Seq(7L, 8L))
      intercept[IllegalArgumentException](log.startAt(9L, None))
      intercept[IllegalArgumentException](log.seal(Frames.version(8, attempt = 2), keep = 2))
    }
  }

  test("a frame is loaded if its keys, values or records are not multiples of a word") {
    using { (log, owned) =>
      val keys = (0 until 40).map(n => Blob.of(Seq.fill(n)(n.toByte): _*))
      keys.foreach(key => log.put(Blob.bytes(key), Blob.bytes(key)))
      log.seal(Frames.version(1), keep = 1)
      assert(log.keys == 40)
      for (key <- keys) assert(valueOf(log, owned, key).contains(key))
      val base = Frames.write(Frames.base(Frames.version(1), 40L))(log.writeBase(log.latest, _))
      val loaded = newLog(owned)
      base.read((reader, scratch) => loaded.load(reader, scratch))
      for (key <- keys) assert(valueOf(loaded, owned, key).contains(key))
      loaded.release()
    }
  }

  test("a changelog with other totals than its rows is corrupted") {
    for (stated <- Seq(FamilyTotals(0L, 8L), FamilyTotals(0L, 0L))) using { (log, _) =>
      val frame =
        Frames.write(Frames.delta(Frames.version(1), None))(_.finish(0L, Map(0 -> stated)))
      def load() = frame.read((reader, scratch) => log.load(reader, scratch))
      log.only
      if (stated.bytes == 0L) load()
      else assert(intercept[CleancutException](load()).errorId == "CLEANCUT_FRAME_CORRUPTED")
    }
  }

  test("a cancelled copy ends early and releases its memory") {
    using { (log, owned) =>
      for (i <- 0 until 20000)
        log.put(Blob.bytes(Blob.of(i.toByte, (i >> 8).toByte)), Blob.bytes(Blob.of(1)))
      log.seal(Frames.version(1), keep = 1)
      var polls = 0
      val copy = new Compaction(log, _ => None, owned.memory, owned.account)
      assert(!copy.copyOldest { () =>
        polls += 1
        polls < 3
      })
      assert(polls == 3)
      copy.abandon()
    }
  }

  test("compaction is due when garbage is as large as the remaining capacity") {
    val gib = 1L << 30
    assert(!Compaction.isShortOfRoom(deadBytes = 0L, roomBytes = 0L))
    // 20 of 32 GiB are live.
    assert(!Compaction.isShortOfRoom(deadBytes = 5 * gib, roomBytes = 7 * gib))
    assert(Compaction.isShortOfRoom(deadBytes = 6 * gib, roomBytes = 6 * gib))
  }

  test("compaction is due when more than half of a log is garbage, except for small logs") {
    using { (log, _) =>
      val value = Blob.random(new scala.util.Random(1), 2000)
      def round(): Unit =
        for (i <- 0 until 300) log.put(Blob.bytes(Blob.of(i.toByte, 1)), Blob.bytes(value))
      round()
      assert(!Compaction.isDue(log))
      round()
      round()
      assert(Compaction.isDue(log))
      assert(log.deadBytes > log.liveBytes)
    }
  }

  private def using(body: (StateLog, TestMemory.Owned) => Any): Unit =
    TestMemory.using("checked") { owned =>
      val log = newLog(owned)
      body(log, owned)
      log.release()
    }

  private def newLog(owned: TestMemory.Owned): StateLog =
    OneFamily.newLog(owned)

  private def valueOf(log: StateLog, owned: TestMemory.Owned, key: Blob): Option[Blob] = {
    val record = log.find(Blob.bytes(key), Record.NoBound)
    if (record == 0L) None else Some(Blob.valueAt(owned.memory, record))
  }
}
