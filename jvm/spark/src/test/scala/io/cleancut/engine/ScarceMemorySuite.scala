package io.cleancut.engine

import scala.util.Random

import org.scalatest.{Assertion, Assertions}
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.engine.memory.MemoryAccount
import io.cleancut.error.CleancutException
import io.cleancut.testkit.{Blob, ScarceMemory, Seeded}
import io.cleancut.testkit.Blob.Rows

/** A table that runs out of memory or disk space during a change. */
class ScarceMemorySuite extends AnyFunSuite with Seeded {
  test("a change without memory has no effect, and the table can be rolled back") {
    var refused = 0
    forSeeds(10) { random =>
      val machine = new ScarceTable(random)
      for (_ <- 0 until 100) machine.change()
      machine.free()
      refused += machine.refused
    }
    info(s"$refused changes had no memory")
    assert(refused > 10)
  }
}

/** An ordered table, with its rows and the rows at its mark. */
final private class ScarceTable(random: Random) extends Assertions {
  private val memory = new ScarceMemory
  private val account = MemoryAccount.over(memory)
  private val table = new Table(memory, account, "scarce", Some(new FirstByteRank(memory)))
  private var rows: Rows = Map.empty
  private var mark = table.mark()
  private var atMark = rows
  var refused = 0

  /** Puts keys until memory is exhausted, then checks the rows and those at the mark. */
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
    var scanned: Rows = Map.empty
    while (scan.advance())
      scanned += Blob.keyAt(memory, scan.address) -> Blob.valueAt(memory, scan.address)
    assert(scanned == rows)
  }
}
