package io.cleancut.engine

import scala.collection.mutable.ArrayBuffer

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.engine.memory.MemoryAccount
import io.cleancut.error.CleancutException
import io.cleancut.testkit.{EndlessMemory, Seeded, TestMemory}

class PagedLogSuite extends AnyFunSuite with Seeded {
  import PagedLogSuite._

  test("a log returns its records in order") {
    forSeeds(20) { random =>
      using { writer =>
        for (_ <- 0 until 300) writer.append(anySize(random.nextInt(1000)))
        writer.verify()
      }
    }
  }

  test("a log that is truncated to a mark has the records of the mark") {
    forSeeds(10) { random =>
      using { writer =>
        for (_ <- 0 until 200) writer.append(anySize(random.nextInt(1000)))
        for (length <- 200 to 0 by -1) {
          writer.truncate(length)
          writer.verify()
        }
      }
    }
  }

  test("appends after a truncation do not change earlier records") {
    forSeeds(20) { random =>
      using { writer =>
        for (_ <- 0 until 60) {
          if (random.nextInt(3) == 0) writer.truncate(random.nextInt(writer.length + 1))
          else for (_ <- 0 until random.nextInt(12)) writer.append(anySize(random.nextInt(1000)))
          writer.verify()
        }
      }
    }
  }

  test("a record larger than a page is contiguous") {
    using { writer =>
      val sizes = Seq(16, Slot, 24, Slot + 8, 3 * Slot - 8, 8, 3 * Slot, 16, 2 * Slot + 16)
      (sizes ++ sizes.reverse).foreach(writer.append)
      writer.verify()
    }
  }

  test("the first record may be larger than a page") {
    using { writer =>
      Seq(2 * Slot, 8, 8).foreach(writer.append)
      writer.verify()
    }
  }

  test("a view does not have later records") {
    forSeeds(10) { random =>
      using { writer =>
        for (_ <- 0 until 40) writer.append(anySize(random.nextInt(1000)))
        val view = writer.log.view()
        val refs = writer.refs.toSeq
        for (_ <- 0 until 100) writer.append(anySize(random.nextInt(1000)))
        assert(writer.refsOf(view) == refs)
        writer.truncate(refs.length)
        for (_ <- 0 until 50) writer.append(anySize(random.nextInt(1000)))
        assert(writer.refsOf(view) == refs)
      }
    }
  }

  test("a page that is reserved over several slots returns each record that begins in it") {
    TestMemory.using("checked") { owned =>
      val log = new PagedLog(owned.account, "reserved")
      val size = 1000
      val count = 3 * Slot / size
      val first = log.reserve(count * size)
      log.provide(first)
      val next = log.append(16)
      val view = log.view()
      var ref = view.skip(PagedLog.FirstRef)
      for (i <- 0 until count) {
        assert(ref == first + i * (size >>> 3))
        ref = view.skip(ref + (size >>> 3))
      }
      assert(ref == next && view.skip(ref + 2) == view.end)
      log.free()
    }
  }

  test("a log returns its remaining capacity") {
    val account = MemoryAccount.over(new EndlessMemory)
    val log = new PagedLog(account, "room")
    val room = log.roomBytes
    log.append(Slot)
    assert(room - log.roomBytes >= Slot && room - log.roomBytes <= 2L * Slot)
    log.free()
  }

  test("a small log requires little memory") {
    TestMemory.using("checked") { owned =>
      val log = new PagedLog(owned.account, "small")
      log.append(64)
      assert(owned.account.usedBytes == 16 * 1024)
      log.free()
    }
  }

  test("a full log refuses to grow, and its end is still after its last record") {
    val account = MemoryAccount.over(new EndlessMemory)
    val log = new PagedLog(account, "full")
    var last = log.append(Slot - 8)
    val refused = intercept[CleancutException] {
      while (true) {
        val ref = log.append(Slot)
        assert(Integer.compareUnsigned(last, ref) < 0)
        last = ref
      }
    }
    assert(refused.errorId == "CLEANCUT_STORE_TOO_LARGE")
    assert(Integer.compareUnsigned(last, log.end) < 0)
    assert(account.usedBytes > 32L * 1024 * Slot - 2L * Slot)
    log.free()
    assert(account.usedBytes == 0L)
  }

  private def using(body: Writer => Any): Unit = TestMemory.using("checked") { owned =>
    val writer = new Writer(owned)
    body(writer)
    writer.log.free()
  }
}

object PagedLogSuite {
  private val Slot = 1 << 20

  private def anySize(choice: Int): Int = choice match {
    case 0           => 2 * Slot + 8
    case 1           => Slot
    case 2           => Slot - 8
    case n if n < 30 => 300000
    case n if n < 99 => 17000 + 8 * (n % 10) - 17000 % 8
    case n           => 16 + 8 * (n % 20)
  }

  /** Appends records that have their number at both ends. */
  private class Writer(owned: TestMemory.Owned) {
    import owned.memory

    val log = new PagedLog(owned.account, "test")
    val refs = ArrayBuffer.empty[Int]
    private val sizes = ArrayBuffer.empty[Int]
    private val marks = ArrayBuffer(log.end)

    def length: Int = refs.length

    def append(size: Int): Unit = {
      val ref = log.append(size)
      memory.putLong(log.address(ref), refs.length.toLong)
      memory.putLong(log.address(ref) + size - 8, refs.length.toLong)
      refs += ref
      sizes += size
      marks += log.end
    }

    def truncate(length: Int): Unit = {
      log.truncate(marks(length))
      refs.takeInPlace(length)
      sizes.takeInPlace(length)
      marks.takeInPlace(length + 1)
    }

    def refsOf(view: PagedLog.View): Seq[Int] = {
      var ref = view.skip(PagedLog.FirstRef)
      Iterator
        .continually {
          val at = ref
          if (at == view.end) None
          else {
            val number = memory.getLong(view.address(at)).toInt
            ref = view.skip(at + (sizes(number) >>> 3))
            Some(at)
          }
        }
        .takeWhile(_.isDefined)
        .flatten
        .toSeq
    }

    def verify(): Unit = {
      assert(log.end == marks.last)
      assert(refs.sortWith(Integer.compareUnsigned(_, _) < 0) == refs)
      for (i <- refs.indices) {
        val address = log.address(refs(i))
        assert(memory.getLong(address) == i && memory.getLong(address + sizes(i) - 8) == i)
      }
      assert(refsOf(log.view()) == refs.toSeq)
    }
  }
}
