package io.cleancut.engine

import org.scalatest.funsuite.AnyFunSuite

/** Blocks that are no sequence of records. Each is refused for its own reason. */
class BlockDecoderSuite extends AnyFunSuite {
  import BlockDecoderSuite._
  import RecordOperation.{Merge, Put, Remove}

  private def decode(raw: Array[Byte], length: Int, records: Int, isBase: Boolean): Int = {
    val decoder = new BlockDecoder(new Damaged(_), isBase)
    decoder.begin(raw, length, records)
    Iterator.continually(decoder.advance()).takeWhile(_ == true).size
  }

  private def problem(bytes: Seq[Int], records: Int = 1, isBase: Boolean = false): String =
    // Buffers are longer than their blocks.
    intercept[Damaged](
      decode(bytes.map(_.toByte).toArray ++ new Array[Byte](300), bytes.size, records, isBase)
    ).getMessage

  private val put = Seq(Put.toInt, 0, 1, 2, 'k'.toInt, 'v'.toInt, 'v'.toInt)

  test("a sequence of records ends with its block") {
    val all = put ++ Seq(Merge.toInt, 0, 1, 1, 'k'.toInt, 'w'.toInt, Remove.toInt, 0, 1, 'k'.toInt)
    assert(decode(all.map(_.toByte).toArray, all.size, 3, isBase = false) == 3)
  }

  test("a key, a value or a number runs past the end of its block") {
    for (length <- 1 until put.size)
      assert(problem(put.take(length)).contains("runs past the end of its block"))
    assert(problem(Seq(Put.toInt, 0, 200, 1)).contains("runs past the end of its block"))
  }

  test("bytes follow the last record") {
    assert(problem(put ++ put).contains("bytes after its last record"))
  }

  test("a base has a removal") {
    assert(problem(Seq(Remove.toInt, 0, 1, 'k'.toInt), isBase = true).contains("a removal"))
  }

  test("an operation is unknown, or a number too long") {
    assert(problem(Seq(99, 0, 1, 'k'.toInt)).contains("unknown operation 99"))
    assert(problem(Put.toInt +: Seq.fill(6)(0x80)).contains("more than five bytes"))
  }
}

private object BlockDecoderSuite {
  final class Damaged(detail: String) extends RuntimeException(detail)
}
