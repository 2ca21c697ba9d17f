package io.cleancut.engine

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.engine.OneFamily._
import io.cleancut.engine.memory.{KeyHash, RawMemory}
import io.cleancut.testkit.{Blob, Frames, Seeded, TestMemory}

class HashOrderSuite extends AnyFunSuite with Seeded {
  test("a radix sort by the upper half has unsigned order, and keeps all entries") {
    forSeeds(30) { random =>
      val entries = Array.fill(random.nextInt(3000))(random.nextLong())
      val count = if (entries.isEmpty) 0 else random.nextInt(entries.length + 1)
      val sorted = HashOrder.sortByUpperHalf(entries, count)
      assert(sorted.toSeq.sorted == entries.take(count).toSeq.sorted)
      assert(sorted.map(_ >>> 32).toSeq == sorted.map(_ >>> 32).sorted.toSeq)
    }
  }

  test("the rows of a version are returned once, in the order of their hashes") {
    forSeeds(10) { random =>
      TestMemory.using("checked") { owned =>
        val log = OneFamily.newLog(owned)
        val keys = Seq.fill(500)(Blob.random(random, 1 + random.nextInt(30))).distinct
        keys.foreach(key => log.put(Blob.bytes(key), Blob.bytes(Blob.of(1))))
        keys.take(100).foreach(key => log.remove(Blob.bytes(key)))
        keys.slice(50, 300).foreach(key => log.put(Blob.bytes(key), Blob.bytes(Blob.of(2))))
        log.seal(Frames.version(1), keep = 2)
        keys.slice(200, 400).foreach(key => log.remove(Blob.bytes(key)))
        val returned = Seq.newBuilder[Blob.Blob]
        val hashes = Seq.newBuilder[Long]
        val runRows = 1 + random.nextInt(600)
        new HashOrder(owned.memory, log.latest.view, log.latest.mark, runRows).foreach {
          (hash, record) =>
            val key = Blob.keyAt(owned.memory, record)
            returned += key
            hashes += Integer.toUnsignedLong(hash)
        }
        log.release()
        val rows = returned.result()
        assert(rows.size == keys.size - 50 && rows.toSet == keys.drop(50).toSet)
        assert(hashes.result() == rows.map(hash).sorted)
      }
    }
  }

  private def hash(key: Blob.Blob): Long = {
    val bytes = Blob.bytes(key)
    KeyHash.hash32(RawMemory, bytes.base, bytes.offset, bytes.length) & 0xffffffffL
  }
}
