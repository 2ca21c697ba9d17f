package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import Providers._
import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SparkException

import io.cleancut.engine.memory.MemoryAccount
import io.cleancut.error.CleancutException

/**
 * Corrupted files of a store. A read of a version that requires the file fails with an error that
 * names it, by the checksum of the file system or of the frame. All other versions are readable.
 */
class DamagedFilesSuite extends AnyFunSuite {
  import DamagedFilesSuite._

  private lazy val intact: Setup = {
    val setup = Providers.setup()
    for (partition <- Seq(0, 1)) {
      val provider = setup.copy(partition = partition).open()
      for (v <- 0L until Latest) {
        val store = VersionedStores.open(provider, v, withBase = v + 1 == BaseVersion)
        changes(v + 1).foreach { case (id, count) => store.put(key(id), value(count + partition)) }
        store.commit()
      }
      provider.close()
    }
    setup
  }

  for (damage <- Damages; keepsSum <- Seq(true, false)) {
    val sum = if (keepsSum) "with its checksum file" else "without a checksum file"
    test(s"a file that is ${damage.name}, $sum, is detected and named") {
      for (name <- Seq("2.delta", "5.delta", "6.delta", "3.base")) withClue(s"$name: ") {
        val setup = copyOf(intact)
        val victim = file(setup, name)
        val before = Files.readAllBytes(victim)
        damage.apply(victim, setup)
        if (!keepsSum) Files.deleteIfExists(sumOf(victim))
        assert(!Files.readAllBytes(victim).sameElements(before))
        verify(setup, name) { error =>
          assert(damage.errors(error.errorId))
          assert(error.getMessage.contains(victim.getFileName.toString))
        }
      }
    }
  }

  test("a corrupted checksum file never causes a wrong result") {
    for (cut <- Seq(0, 3, 8, 11); name <- Seq("2.delta", "6.delta", "3.base")) {
      val setup = copyOf(intact)
      val sum = sumOf(file(setup, name))
      Files.write(sum, Files.readAllBytes(sum).take(cut))
      for (v <- 1L to Latest) readOrError(setup, v) match {
        case Right(rows) => assert(rows == expected(v))
        case Left(error) =>
          assert(requires(v, name) && error.errorId == "CLEANCUT_FRAME_CORRUPTED", s"$name at $v")
      }
    }
  }

  for ((problem, content) <- Notes) test(s"a format object that is $problem is refused and named") {
    val setup = copyOf(intact)
    val note = setup.directory.resolve("cleancut/format.json")
    Files.deleteIfExists(sumOf(note))
    content match {
      case Some(text) => Files.writeString(note, text)
      case None       => Files.delete(note)
    }
    val error = readOrError(setup, Latest).left.toOption.get
    val expected =
      if (content.isEmpty) "CLEANCUT_CHECKPOINT_NOT_FOUND" else "CLEANCUT_FORMAT_UNKNOWN"
    assert(error.errorId == expected)
    assert(error.getMessage.contains("format.json"))
    assert(readOrError(setup, 0) == Right(Map.empty))
  }

  test("a format object that does not match its checksum file is refused and named") {
    val setup = copyOf(intact)
    val note = setup.directory.resolve("cleancut/format.json")
    Files.writeString(note, Files.readString(note).replace("cleancut", "cleencut"))
    val error = readOrError(setup, Latest).left.toOption.get
    assert(error.errorId == "CLEANCUT_FORMAT_UNKNOWN")
    assert(error.getMessage.contains("format.json"))
  }

  for (name <- Seq("1.delta", "2.delta", "5.delta", "6.delta"))
    test(s"a missing file $name is an error for each version that requires it") {
      val setup = copyOf(intact)
      Files.delete(file(setup, name))
      verify(setup, name) { error =>
        assert(error.errorId == "CLEANCUT_FRAME_MISSING")
        assert(error.params.contains("version" -> name.take(1)))
      }
    }

  test("a missing base is no error while its deltas exist") {
    val setup = copyOf(intact)
    Files.delete(file(setup, "3.base"))
    for (v <- 0L to Latest) assert(readOrError(setup, v) == Right(expected(v)))
  }

  test("a provider with a corrupted version serves earlier versions, and continues from them") {
    val setup = copyOf(intact)
    Damages.head.apply(file(setup, "6.delta"), setup)
    val provider = setup.open()
    intercept[SparkException](provider.getStore(6))
    intercept[SparkException](provider.getReadStore(6))
    assert(commit(provider, 5, 60L -> 60L) == 6)
    provider.close()
    assert(readOrError(setup, 6) == Right(expected(5) + (60L -> 60L)))
  }

  /**
   * Checks that versions that require the file fail, all others are readable, and all memory is
   * freed.
   */
  private def verify(setup: Setup, name: String)(check: CleancutException => Assertion): Unit = {
    def left(): Long = {
      val usedBytes = MemoryAccount.process.usedBytes
      for (v <- 0L to Latest) withClue(s"version $v: ")(readOrError(setup, v) match {
        case Right(rows) => assert(!requires(v, name) && rows == expected(v))
        case Left(error) =>
          assert(requires(v, name), error)
          check(error)
      })
      MemoryAccount.process.usedBytes - usedBytes
    }
    // Threads of an earlier suite may still run; bytes that this suite leaves recur each time.
    val leaks = Iterator.continually(left()).take(Attempts).takeWhile(_ != 0L).toSeq
    assert(leaks.size < Attempts, s"each attempt has left bytes: $leaks")
    ()
  }

  private def readOrError(setup: Setup, version: Long): Either[CleancutException, Map[Long, Long]] =
    try Right(rowsAt(setup, version))
    catch {
      case e: SparkException =>
        Left(
          Iterator
            .iterate[Throwable](e)(_.getCause)
            .takeWhile(_ != null)
            .collectFirst { case error: CleancutException => error }
            .getOrElse(throw e)
        )
    }
}

object DamagedFilesSuite {
  private val Latest = 6L
  private val Attempts = 3
  private val BaseVersion = 3L

  private def changes(version: Long): Seq[(Long, Long)] =
    (0L until 40L).map(i => (version * 7 + i * 3) % 60 -> (version * 100 + i))

  private def expected(version: Long): Map[Long, Long] = (1L to version).flatMap(changes).toMap

  /** Whether a read of a version requires the file; the base replaces earlier files. */
  private def requires(version: Long, name: String): Boolean = {
    val number = name.head.asDigit.toLong
    if (name.endsWith("base")) version >= number
    else if (number < BaseVersion) version >= number && version < BaseVersion
    else version >= number
  }

  private def file(setup: Setup, name: String): Path = {
    val number = f"${name.takeWhile(_ != '.').toLong}%020d-"
    val frame = setup.frames.find { path =>
      val full = path.getFileName.toString
      full.startsWith(number) && full.endsWith(name.dropWhile(_ != '.'))
    }
    frame.get
  }

  private def sumOf(file: Path): Path = file.resolveSibling(s".${file.getFileName}.crc")

  /** A kind of corruption of a file, and the errors that may report it. */
  final private case class Damage(name: String, errors: Set[String], apply: (Path, Setup) => Unit)

  private val Damaged = Set("CLEANCUT_FRAME_CORRUPTED")
  private val Misplaced = Set("CLEANCUT_FRAME_MISPLACED") ++ Damaged

  private def edited(change: Array[Byte] => Array[Byte]): (Path, Setup) => Unit =
    (path, _) => {
      Files.write(path, change(Files.readAllBytes(path)))
      ()
    }

  private def flipped(at: Int => Int): (Path, Setup) => Unit = edited { bytes =>
    bytes(at(bytes.length)) = (bytes(at(bytes.length)) ^ 0x10).toByte
    bytes
  }

  private val Damages: Seq[Damage] = Seq(
    Damage("flipped in its identity", Damaged, flipped(_ => 60)),
    Damage("flipped in its middle", Damaged, flipped(_ / 2)),
    Damage("flipped at its end", Damaged, flipped(_ - 1)),
    Damage("emptied", Damaged, edited(_ => Array.emptyByteArray)),
    Damage("cut in the header", Damaged, edited(_.take(9))),
    Damage("cut in half", Damaged, edited(bytes => bytes.take(bytes.length / 2))),
    Damage("cut by a byte", Damaged, edited(_.dropRight(1))),
    Damage("lengthened", Damaged, edited(_ :+ 0.toByte)),
    Damage("filled with zeros", Damaged, edited(bytes => new Array[Byte](bytes.length))),
    Damage(
      "replaced by that of another partition",
      Misplaced,
      (path, setup) => {
        val name = path.getFileName.toString
        val short = s"${name.takeWhile(_ != '-').toLong}.${name.split('.').last}"
        Files.write(path, Files.readAllBytes(file(setup.copy(partition = 1), short)))
        ()
      }
    ),
    Damage(
      "replaced by that of another version",
      Misplaced,
      (path, setup) => {
        Files.write(path, Files.readAllBytes(file(setup, "4.delta")))
        ()
      }
    )
  )

  private val Notes: Seq[(String, Option[String])] = Seq(
    "missing" -> None,
    "empty" -> Some(""),
    "no JSON" -> Some("{\"format\":\"cleancut\","),
    "of another format" -> Some("{\"format\":\"other\",\"version\":1}"),
    "of a later version" -> Some("{\"format\":\"cleancut\",\"version\":2}"),
    "of an older build" -> Some("{\"format\":\"cleancut\",\"formatVersion\":3}")
  )

  private def copyOf(setup: Setup): Setup = {
    val target = Providers.setup().directory
    val walk = Files.walk(setup.directory)
    try
      walk.iterator.asScala.foreach { path =>
        val copy = target.resolve(setup.directory.relativize(path).toString)
        if (path != setup.directory) Files.copy(path, copy)
      }
    finally walk.close()
    setup.copy(directory = target)
  }
}
