package io.cleancut.testkit

import scala.collection.immutable.ArraySeq
import scala.util.Random

import io.cleancut.engine.Record
import io.cleancut.engine.memory.{Bytes, Memory}

/** Keys and values of tests: byte strings that are compared by content. */
object Blob {
  type Blob = ArraySeq[Byte]
  type Rows = Map[Blob, Blob]

  /** The values of each key, oldest first. */
  type Lists = Map[Blob, Vector[Blob]]

  def of(bytes: Byte*): Blob = ArraySeq.unsafeWrapArray(bytes.toArray)

  def random(random: Random, length: Int): Blob = {
    val bytes = new Array[Byte](length)
    random.nextBytes(bytes)
    ArraySeq.unsafeWrapArray(bytes)
  }

  /** A copy for the engine. */
  def bytes(blob: Blob): Bytes = Bytes.of(blob.unsafeArray.asInstanceOf[Array[Byte]])

  def keyAt(memory: Memory, record: Long): Blob =
    read(memory, Record.keyAddress(record), Record.keyLength(memory, record))

  def valueAt(memory: Memory, record: Long): Blob = {
    val at = Record.valueAddress(record, Record.keyLength(memory, record))
    read(memory, at, Record.valueLength(memory, record))
  }

  private def read(memory: Memory, address: Long, length: Int): Blob =
    ArraySeq.unsafeWrapArray(new Bytes().pointTo(null, address, length).toArray(memory))
}
