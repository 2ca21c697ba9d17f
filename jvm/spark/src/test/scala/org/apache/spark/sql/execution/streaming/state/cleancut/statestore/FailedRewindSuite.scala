package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import Providers._
import org.apache.hadoop.conf.Configuration
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{StateStoreConf, StateStoreId}
import org.apache.spark.sql.internal.SQLConf

import io.cleancut.base.Clock
import io.cleancut.engine.StateLog
import io.cleancut.engine.memory.{Bytes, MappedFiles, Memory, MemoryAccount}

/** A rewind of the log that fails at each of its memory reads. */
class FailedRewindSuite extends AnyFunSuite {
  import FailedRewindSuite._

  for (encoder <- Seq(Plain, ByPrefix))
    test(s"a failed rewind drops the log, and the next open loads the version: $encoder") {
      val setup = Providers.setup().copy(encoder = encoder)
      val provider = setup.open()
      commit(provider, 0, 1L -> 10L, 2L -> 20L)
      commit(provider, 1, 2L -> 21L, 3L -> 30L)
      provider.close()
      val used = MemoryAccount.process.usedBytes
      val memory = new FailingMemory(Memory.access)
      val context = new StoreContext(requestOf(setup), Clock.System, memory)
      val versions = new StoreVersions(context)
      var failures = 0
      var isDone = false
      while (!isDone) {
        val log = versions.openForWrite(2, None)
        assert(counts(log) == Map(1L -> 10L, 2L -> 21L, 3L -> 30L), s"after $failures failures")
        change(log)
        log.release()
        val loads = context.metrics.loadedFrames.get
        memory.failAtRead(failures + 1)
        try {
          versions.openForWrite(2, None).release()
          isDone = true
        } catch {
          case e: IllegalStateException if e.getMessage == Injected =>
            failures += 1
            assert(versions.retainCurrent().isEmpty, "the partially rewound log is served")
        }
        memory.failAtRead(0)
        versions.openForWrite(2, None).release()
        assert(context.metrics.loadedFrames.get > loads || isDone)
      }
      info(s"a rewind failed at each of its $failures reads")
      assert(failures > 20)
      versions.close()
      assert(MemoryAccount.process.usedBytes == used)
    }

  /** Adds, changes and removes a key. */
  private def change(log: StateLog): Unit = {
    val table = log.families.head.table
    table.put(bytesOf(key(4)), bytesOf(value(40)))
    table.put(bytesOf(key(1)), bytesOf(value(11)))
    assert(table.remove(bytesOf(key(2))))
    ()
  }

  private def counts(log: StateLog): Map[Long, Long] = {
    val table = log.families.head.table
    (1L to 4L).flatMap { id =>
      val handle = Option(table.find(bytesOf(key(id)), -1)).filter(_ != 0L)
      handle.map(address => id -> countAt(address, key(id).getSizeInBytes))
    }.toMap
  }

  private def countAt(record: Long, keyLength: Int): Long = {
    val row = new UnsafeRow(ValueSchema.length)
    val at = io.cleancut.engine.Record.valueAddress(record, keyLength)
    row.pointTo(null, at, value(0).getSizeInBytes)
    row.getLong(0)
  }

  private def requestOf(setup: Setup) = InitRequest(
    StateStoreId(setup.directory.resolve("state").toString, 0L, 0, setup.name),
    KeySchema,
    ValueSchema,
    setup.encoder,
    usesFamilies = false,
    isMultiValued = false,
    StateStoreConf(new SQLConf),
    new Configuration,
    None
  )
}

object FailedRewindSuite {
  private val Injected = "this read is to fail"

  private def bytesOf(row: UnsafeRow): Bytes = Bytes.of(row.getBytes)

  /** Memory that fails one read. */
  final private class FailingMemory(under: Memory) extends Memory {
    private var left = 0

    /** The number of the read, from 1; 0 for none. */
    def failAtRead(number: Int): Unit = left = number

    private def read[A](value: => A): A = {
      if (left == 1) {
        left = 0
        throw new IllegalStateException(Injected)
      }
      if (left > 1) left -= 1
      value
    }

    override def getByte(base: AnyRef, offset: Long): Byte = read(under.getByte(base, offset))
    override def getInt(address: Long): Int = read(under.getInt(address))
    override def getLong(base: AnyRef, offset: Long): Long = read(under.getLong(base, offset))
    override def allocate(sizeBytes: Long): Long = under.allocate(sizeBytes)
    override def free(address: Long, sizeBytes: Long): Unit = under.free(address, sizeBytes)
    override def allocateMapped(files: MappedFiles, sizeBytes: Long): Long =
      under.allocateMapped(files, sizeBytes)
    override def freeMapped(files: MappedFiles, address: Long, sizeBytes: Long): Unit =
      under.freeMapped(files, address, sizeBytes)
    override def putInt(address: Long, value: Int): Unit = under.putInt(address, value)
    override def putLong(base: AnyRef, offset: Long, value: Long): Unit =
      under.putLong(base, offset, value)
    override def zero(address: Long, sizeBytes: Long): Unit = under.zero(address, sizeBytes)
    override def copy(
        fromBase: AnyRef,
        from: Long,
        toBase: AnyRef,
        to: Long,
        sizeBytes: Long
    ): Unit = under.copy(fromBase, from, toBase, to, sizeBytes)
  }
}
