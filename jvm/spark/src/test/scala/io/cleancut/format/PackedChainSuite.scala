package io.cleancut.format

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, ObjectInputStream, ObjectOutputStream}

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{StateVersion, StoreId}

class PackedChainSuite extends AnyFunSuite {
  private val random = new Random(3)

  private def id(): String = Seq.fill(32)("0123456789abcdef" (random.nextInt(16))).mkString

  private def frame(kind: FrameKind, number: Long): Chains.Frame = (
    kind,
    StateVersion(number, id()),
    FramePlace(
      s"segment-$number",
      random.nextLong(1L << 50),
      random.nextLong(1L << 40),
      random.nextInt()
    )
  )

  private val frames =
    frame(FrameKind.Base, 5) +: Vector.tabulate(9)(n => frame(FrameKind.Delta, 6L + n))

  test("a packed chain is the sequence of its frames") {
    val packed = PackedChain.of(frames)
    assert(packed == frames && frames == packed && packed.hashCode == frames.hashCode)
    assert(packed.last == frames.last && packed.drop(3) == frames.drop(3))
    assert(packed.base.contains(5L) && packed.lastNumber == 14L)
    assert(PackedChain.of(packed) eq packed)
    assert(PackedChain.of(Seq(frame(FrameKind.Delta, 1))).base.isEmpty)
    assert(
      frames.indices
        .drop(1)
        .forall(n => frames.take(n + 1) == PackedChain.of(frames.take(n)).and(frames(n)))
    )
  }

  test("an invalid chain is refused") {
    intercept[IllegalArgumentException](PackedChain.of(frames.patch(4, Nil, 1)))
    intercept[IllegalArgumentException](PackedChain.of(frames :+ frame(FrameKind.Base, 15)))
    intercept[IllegalArgumentException](PackedChain.of(frames).and(frame(FrameKind.Delta, 16)))
    intercept[IllegalArgumentException](PackedChain.of(frames).and(frame(FrameKind.Base, 15)))
  }

  test("only frames that another chain also has take its places") {
    val packed = PackedChain.of(frames)
    val moved =
      frames.slice(2, 6).map(f => f.copy(_3 = f._3.copy(segment = "moved", offset = 7)))
    assert(packed.placedAs(PackedChain.of(moved)) == frames.patch(2, moved, 4))
    assert(
      PackedChain.of(frames.slice(4, 8)).placedAs(PackedChain.of(moved)) ==
        moved.drop(2) ++ frames.slice(6, 8)
    )
    val others = moved.map(f => f.copy(_2 = StateVersion(f._2.number, id())))
    assert(packed.placedAs(PackedChain.of(others)) == frames)
    assert(packed.placedAs(PackedChain.of(Seq(frame(FrameKind.Delta, 40)))) == frames)
    assert(packed.beginsAs(PackedChain.of(frames.take(1))))
    assert(!packed.beginsAs(PackedChain.of(frames.drop(1))))
    assert(!packed.beginsAs(PackedChain.of(Seq(frame(FrameKind.Base, 5)))))
  }

  test("it is serialized with a store of a cut, as for a task that finishes an epoch") {
    val store = StoreCut(StoreId(1, 2, "left"), PackedChain.of(frames))
    val bytes = new ByteArrayOutputStream
    new ObjectOutputStream(bytes).writeObject(store)
    val read = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray)).readObject()
    assert(read == store && read.hashCode == store.hashCode)
  }
}
