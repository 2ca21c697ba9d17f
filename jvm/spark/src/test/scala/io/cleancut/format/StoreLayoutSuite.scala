package io.cleancut.format

import java.util.concurrent.TimeUnit

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.cleancut.base.{Clock, StateVersion, StoreId}

class StoreLayoutSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  import StoreLayoutSuite._

  private val versions = for {
    number <- Gen.chooseNum(1L, Long.MaxValue)
    digits <- Gen.listOfN(32, Gen.oneOf("0123456789abcdef"))
  } yield StateVersion(number, digits.mkString)

  private val kinds = Gen.oneOf(FrameKind.all)

  private val names =
    Gen.nonEmptyListOf(Gen.oneOf(Gen.alphaNumChar, Gen.oneOf("._-%/ \\:é状\n"))).map(_.mkString)

  test("the name of an object is parsed to its version and kind") {
    forAll(versions, kinds) { (version, kind) =>
      val name = StoreLayout.objectName(version, kind)
      assert(StoreLayout.parseObjectName(name).contains((version, kind)))
      assert(StoreLayout.parseTemporaryName(name).isEmpty)
    }
  }

  test("names of greater versions come later in a listing") {
    forAll(versions, versions, kinds) { (a, b, kind) =>
      whenever(a.number != b.number) {
        val byName = StoreLayout.objectName(a, kind) < StoreLayout.objectName(b, kind)
        assert(byName == (a.number < b.number))
      }
    }
  }

  test("a temporary file of an object is recognized by its version, and is no object") {
    forAll(versions, kinds, Gen.alphaNumStr) { (version, kind, unique) =>
      val name = s".${StoreLayout.objectName(version, kind)}.$unique.tmp"
      assert(StoreLayout.parseTemporaryName(name).contains(version.number))
      assert(StoreLayout.parseObjectName(name).isEmpty)
      assert(StoreLayout.parseTemporaryName(s".$name.crc").isEmpty)
    }
  }

  test("a name with added characters is no object's") {
    forAll(versions, kinds, Gen.chooseNum(0, 58), Gen.oneOf("\n x.A-")) { (version, kind, at, c) =>
      val name = StoreLayout.objectName(version, kind)
      assert(StoreLayout.parseObjectName(name.patch(at, c.toString, 0)).isEmpty)
    }
  }

  test("stores of different names have different directories, with plain characters only") {
    forAll(names, names) { (a, b) =>
      val directories = Seq(a, b).map(name => StoreLayout.storeDirectory(StoreId(3L, 7, name)))
      assert((directories.head == directories.last) == (a == b))
      assert(directories.forall(_.matches("stores/3/7/[A-Za-z0-9_%-]+")))
    }
  }

  test("later ids sort later and are valid") {
    val ids =
      Seq(0L, 1L, 255L, 256L, 1L << 40, (1L << 48) - 1).map(ms => StateVersion.newId(new At(ms)))
    assert(ids == ids.sorted && ids.distinct.size == ids.size)
    assert(ids.forall(id => StateVersion.isId(id) && id(12) == '7' && "89ab".contains(id(16))))
    assert(StateVersion.newId(Clock.System) != StateVersion.newId(Clock.System))
  }
}

object StoreLayoutSuite {

  /** A stopped clock. */
  final private class At(override val wallMs: Long) extends Clock {
    override def monotonicNs(): Long = 0L
    override def randomBytes(count: Int): Array[Byte] = Clock.System.randomBytes(count)
    override def sleep(duration: Long, unit: TimeUnit): Unit = ()
  }
}
