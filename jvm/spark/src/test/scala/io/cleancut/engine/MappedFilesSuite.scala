package io.cleancut.engine

import java.nio.file.{Files, Path, Paths}

import scala.collection.mutable
import scala.util.Using

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.engine.memory.{MappedFiles, MemoryAccount, RawMemory}
import io.cleancut.error.CleancutException
import io.cleancut.testkit.Seeded

class MappedFilesSuite extends AnyFunSuite with Seeded {
  import MappedFilesSuite._

  test("memory above the limit is in unnamed files, which are deleted with their pages") {
    withDirectory { directory =>
      val account = MemoryAccount.over(RawMemory)
      account.limit(10 * Page, () => directory)
      val child = account.child()
      val pages = Seq.fill(40)(child.allocate(Page))
      // A quarter of the limit is reserved for the indexes.
      assert(account.residentBytes == 7 * Page && account.mappedBytes == 33 * Page)
      assert(Files.list(directory).count() == 0)
      val index = child.allocateIndex(3 * Page)
      assert(account.residentBytes == 10 * Page)
      pages.foreach(child.free(_, Page))
      child.free(index, 3 * Page)
      assert(account.usedBytes == 0L && child.usedBytes == 0L && child.mappedBytes == 0L)
    }
  }

  test("mapped memory keeps its content while pages are allocated and freed") {
    withDirectory { directory =>
      forSeeds(3) { random =>
        val account = MemoryAccount.over(RawMemory)
        account.limit(0L, () => directory)
        var held = Vector.empty[(Long, Long, Long)]
        for (_ <- 0 until 300)
          if (held.isEmpty || random.nextInt(5) < 3) {
            val size = random.nextInt(4) match {
              case 0 => Page + random.nextInt(1 << 21)
              case 1 => Page
              case 2 => 16 * Page
              case _ => 512L + 8L * random.nextInt(1 << 16)
            }
            val address = account.allocate(size)
            val mark = random.nextLong()
            RawMemory.putLong(address, mark)
            RawMemory.putLong(address + size - 8, mark)
            held = held :+ ((address, size, mark))
          } else {
            val (address, size, mark) = held(random.nextInt(held.size))
            assert(RawMemory.getLong(address) == mark)
            assert(RawMemory.getLong(address + size - 8) == mark)
            account.free(address, size)
            held = held.filterNot(_._1 == address)
          }
        held.foreach { case (address, size, _) => account.free(address, size) }
        assert(account.usedBytes == 0L)
      }
    }
  }

  test("a process does not grow while state above the limit is allocated and freed") {
    withDirectory { directory =>
      val account = MemoryAccount.over(RawMemory)
      account.limit(0L, () => directory)
      def round(): Unit = {
        val pages = Seq.fill(100)(account.allocate(Page))
        pages.foreach(RawMemory.zero(_, Page))
        pages.foreach(account.free(_, Page))
      }
      round()
      val pages = account.allocate(Page)
      assert(mappings(directory) > 0)
      account.free(pages, Page)
      val before = mappings(directory)
      for (_ <- 0 until 20) round()
      assert(mappings(directory) == before)
    }
  }

  test("small pieces share pages without overlaps, and release them") {
    withDirectory { directory =>
      forSeeds(3) { random =>
        val files = new MappedFiles(() => directory)
        val held = mutable.TreeMap.empty[Long, Long]
        for (_ <- 0 until 5000)
          if (held.isEmpty || random.nextInt(5) < 3) {
            val size = if (random.nextBoolean()) 1296L else 512L << random.nextInt(11)
            val address = files.allocate(size)
            assert(files.holds(address) && files.holds(address + size - 1))
            assert(held.rangeTo(address).lastOption.forall { case (at, bytes) =>
              at + bytes <= address
            })
            assert(held.rangeFrom(address).headOption.forall(_._1 >= address + size))
            held(address) = size
          } else {
            val (address, size) = held.iterator.drop(random.nextInt(held.size)).next()
            files.free(address, size)
            held -= address
          }
        // Less than an eighth of each piece is unused, and one page of each size is open.
        assert(files.sizeBytes < held.values.sum * 9 / 8 + (16 + 13 + 16) * Page)
        held.foreach { case (address, size) => files.free(address, size) }
        assert(files.isEmpty)
      }
    }
  }

  test("the error for a missing directory names the key to set") {
    val account = MemoryAccount.over(RawMemory)
    account.limit(0L, () => Paths.get("/nowhere/at/all"))
    val thrown = intercept[CleancutException](account.allocate(Page))
    assert(
      thrown.errorId == "CLEANCUT_SPILL_FAILED" && thrown.getMessage.contains("spark.local.dir")
    )
    assert(account.usedBytes == 0L)
  }
}

object MappedFilesSuite {
  private val Page = MappedFiles.PageBytes

  private def withDirectory(body: Path => Any): Unit = {
    val directory = Files.createTempDirectory("cleancut-mapped")
    try body(directory)
    finally Files.delete(directory)
    ()
  }

  /** Number of mappings of this process for files of a directory. */
  private def mappings(directory: Path): Long =
    Using.resource(Files.lines(Paths.get("/proc/self/maps"))) { lines =>
      lines.filter(_.contains(directory.toString)).count()
    }
}
