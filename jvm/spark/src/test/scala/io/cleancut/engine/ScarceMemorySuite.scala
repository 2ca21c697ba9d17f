package io.cleancut.engine

import scala.util.Random

import org.scalatest.{Assertion, Assertions}
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.engine.memory.MemoryAccount
import io.cleancut.error.CleancutException
import io.cleancut.testkit.{Blob, ScarceMemory, Seeded}
import io.cleancut.testkit.Blob.Rows

/** A table whose memory, or the disk under it, comes to an end in the midst of a change. */
class ScarceMemorySuite extends AnyFunSuite with Seeded {
  test("a change that finds no memory is not made, and what was before can be gone back to") {
    var refused = 0
    forSeeds(10) { random =>
      val machine = new ScarceTable(random)
      for (_ <- 0 until 100) machine.change()
      machine.free()
      refused += machine.refused
    }
    info(s"$refused changes found no memory")
    assert(refused > 10)
  }
}

/** A table in order, and what it holds: in all, and at its mark. */
final private class ScarceTable(random: Random) extends Assertions {
  private val memory = new ScarceMemory
  private val account = MemoryAccount.over(memory)
  private val table = new Table(memory, account, "scarce", Some(new FirstByteRank(memory)))
  private var rows: Rows = Map.empty
  private var mark = table.mark()
  private var atMark = rows
  var refused = 0

  /** Keys are put until memory ends; then all is there that was put, and what was at the mark. */
  def change(): Unit = {
    if (random.nextInt(4) == 0) {
      mark = table.mark()
      atMark = rows
    }
    memory.allowOnly(random.nextInt(4))
    try for (_ <- 0 until 40) put()
    catch { case _: CleancutException => refused += 1 }
    memory.allowAll()
    verify()
    if (random.nextInt(3) == 0) {
      table.rollback(mark)
      rows = atMark
    }
    verify()
    ()
  }

  def free(): Assertion = {
    table.free()
    assert(account.usedBytes == 0L && memory.liveAllocations == 0)
  }

  private def put(): Unit = {
    val key = Blob.random(random, 1 + random.nextInt(6))
    val value = Blob.random(random, random.nextInt(1500))
    table.put(Blob.bytes(key), Blob.bytes(value))
    rows += key -> value
  }

  private def verify(): Assertion = {
    assert(table.keys == rows.size)
    val scan = table.scan(new Place(0L, 0L), null, Record.NoBound)
    var found: Rows = Map.empty
    while (scan.advance())
      found += Blob.keyAt(memory, scan.address) -> Blob.valueAt(memory, scan.address)
    assert(found == rows)
  }
}
