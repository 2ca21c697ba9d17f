package io.cleancut.engine

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.engine.memory.{Memory, RawMemory}
import io.cleancut.testkit.CheckedMemory

class CheckedMemorySuite extends AnyFunSuite {
  private val memory = new CheckedMemory(RawMemory)

  private def refused(body: => Any): Unit = {
    val error = intercept[AssertionError](body)
    assert(error.getMessage.startsWith("memory check failed"))
    ()
  }

  private def allocated[A](sizeBytes: Long)(body: Long => A): A = {
    val address = memory.allocate(sizeBytes)
    try body(address)
    finally memory.free(address, sizeBytes)
  }

  test("the first and the last bytes of an allocation can be used") {
    allocated(24) { address =>
      memory.putLong(address, 1L)
      memory.putLong(address + 16, 2L)
      memory.putInt(address + 20, 3)
      assert(memory.getLong(address) == 1L)
      assert(memory.getInt(address + 16) == 2)
      assert(memory.getByte(null, address + 23) == 0)
      memory.zero(address, 24)
      assert(memory.getLong(null, address + 16) == 0L)
    }
  }

  test("every kind of access beyond either end is refused") {
    allocated(24) { address =>
      val bytes = new Array[Byte](32)
      for (at <- Seq(address - 8, address + 24, address + 1000000L)) {
        refused(memory.getByte(null, at))
        refused(memory.getInt(at))
        refused(memory.putInt(at, 1))
        refused(memory.getLong(at))
        refused(memory.putLong(at, 1L))
        refused(memory.zero(at, 1L))
        refused(memory.copy(bytes, Memory.ByteArrayOffset, null, at, 1L))
      }
      refused(memory.getLong(address + 17))
      refused(memory.getInt(address + 21))
      refused(memory.zero(address, 25L))
      refused(memory.copy(bytes, Memory.ByteArrayOffset, null, address + 1, 24L))
    }
  }

  test("an access beyond the end of an array is refused") {
    val bytes = new Array[Byte](16)
    assert(memory.getLong(bytes, Memory.ByteArrayOffset + 8) == 0L)
    refused(memory.getLong(bytes, Memory.ByteArrayOffset + 9))
    refused(memory.getByte(bytes, Memory.ByteArrayOffset - 1))
    allocated(32) { address =>
      refused(memory.copy(null, address, bytes, Memory.ByteArrayOffset, 17L))
      refused(memory.copy(bytes, Memory.ByteArrayOffset, null, address, 17L))
    }
  }

  test("freed memory cannot be used") {
    val address = allocated(64)(identity)
    refused(memory.getLong(address))
    refused(memory.putLong(address, 1L))
  }

  test("memory is freed once, with its allocated size") {
    val address = memory.allocate(64)
    refused(memory.free(address + 8, 56))
    memory.free(address, 64)
    refused(memory.free(address, 64))
    val other = memory.allocate(64)
    refused(memory.free(other, 32))
    RawMemory.free(other, 64)
  }

  test("memory that was never written has no zeros") {
    allocated(4096) { address =>
      assert((0L until 4096L by 8L).forall(i => memory.getLong(address + i) != 0L))
    }
  }

  test("live allocations are counted") {
    val before = memory.liveAllocations
    allocated(8)(_ => allocated(8)(_ => assert(memory.liveAllocations == before + 2)))
    assert(memory.liveAllocations == before)
  }

  test("the tests of this project run on checked memory") {
    assert(Memory.access.isInstanceOf[CheckedMemory])
  }
}
