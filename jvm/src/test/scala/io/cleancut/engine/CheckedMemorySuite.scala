package io.cleancut.engine

import org.scalatest.funsuite.AnyFunSuite

class CheckedMemorySuite extends AnyFunSuite {
  private val memory = new CheckedMemory(RawMemory)

  test("an access after the memory was freed fails") {
    val address = memory.allocate(64)
    memory.putLong(address, 1L)
    memory.free(address, 64)
    intercept[AssertionError](memory.getLong(address))
    intercept[AssertionError](memory.putInt(address, 1))
  }

  test("an access beyond an allocation fails, also where it only begins inside") {
    val address = memory.allocate(64)
    intercept[AssertionError](memory.getLong(address + 60))
    intercept[AssertionError](memory.getInt(address - 4))
    intercept[AssertionError](memory.zero(address, 65))
    memory.free(address, 64)
  }

  test("an access beyond an array fails") {
    val array = new Array[Byte](16)
    assert(memory.getLong(array, Memory.ByteArrayOffset + 8) == 0L)
    intercept[AssertionError](memory.getLong(array, Memory.ByteArrayOffset + 9))
    intercept[AssertionError](memory.getByte(array, Memory.ByteArrayOffset - 1))
  }

  test("memory is freed once, and with the size that it was taken with") {
    val address = memory.allocate(64)
    intercept[AssertionError](memory.free(address + 8, 56))
    memory.free(address, 64)
    intercept[AssertionError](memory.free(address, 64))
  }

  test("the tests of this build run on checked memory") {
    assert(Memory.access.isInstanceOf[CheckedMemory])
  }
}
