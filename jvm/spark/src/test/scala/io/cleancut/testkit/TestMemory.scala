package io.cleancut.testkit

import java.nio.file.Paths

import org.scalatest.Assertions

import io.cleancut.engine.memory.{Memory, MemoryAccount, RawMemory}

/**
 * The two implementations of off-heap memory, and memory in mapped files, each with an account and
 * a check that all memory was freed.
 */
object TestMemory extends Assertions {

  /** A memory, its account, and the name of its mode. */
  final case class Owned(name: String, memory: Memory, account: MemoryAccount)

  val modes: Seq[String] = Seq("checked", "fast", "mapped")

  /** Runs `body` with separate memory; all of it must have been freed afterwards. */
  def using[A](mode: String)(body: Owned => A): A = {
    val memory = if (mode == "fast") RawMemory else new CheckedMemory(RawMemory)
    val account = MemoryAccount.over(memory)
    // All memory that supports it is in files.
    if (mode == "mapped") account.limit(0L, () => Paths.get(System.getProperty("java.io.tmpdir")))
    val result = body(Owned(mode, memory, account))
    assert(account.usedBytes == 0L, "bytes are still accounted for")
    val left = memory match {
      case checked: CheckedMemory => checked.liveAllocations
      case _                      => 0
    }
    assert(left == 0, "allocations are not freed")
    result
  }
}
