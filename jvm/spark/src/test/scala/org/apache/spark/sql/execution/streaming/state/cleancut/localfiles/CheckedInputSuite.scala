package org.apache.spark.sql.execution.streaming.state.cleancut.localfiles

import java.io.{ByteArrayInputStream, EOFException, InputStream}
import java.util.zip.CRC32

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

class CheckedInputSuite extends AnyFunSuite {
  private val bytes = new Random(4700L).nextBytes(10000)

  private def sumOf(some: Array[Byte]): Int = {
    val crc = new CRC32
    crc.update(some)
    crc.getValue.toInt
  }

  private def open(some: Array[Byte]) =
    new CheckedInput(new ByteArrayInputStream(some), sumOf(bytes), new EOFException("others"))

  private val ways = Seq[InputStream => Array[Byte]](
    _.readAllBytes(),
    in => Iterator.continually(in.read()).takeWhile(_ >= 0).map(_.toByte).toArray,
    in => in.readNBytes(17) ++ in.readAllBytes()
  )

  test("bytes with a valid checksum are passed on") {
    ways.foreach(read => assert(read(open(bytes)).sameElements(bytes)))
  }

  test("other bytes are an error at the end, however they are read") {
    val flipped = bytes.updated(5000, (bytes(5000) ^ 4).toByte)
    for (read <- ways; others <- Seq(flipped, bytes.init, bytes :+ 0.toByte, bytes.take(0)))
      assert(intercept[EOFException](read(open(others))).getMessage == "others")
    assert(open(flipped).readNBytes(9999).sameElements(flipped.init), "before the end")
  }
}
