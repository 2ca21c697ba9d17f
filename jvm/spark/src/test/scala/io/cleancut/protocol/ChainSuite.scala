package io.cleancut.protocol

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.StateVersion
import io.cleancut.format.frame.Parent
import io.cleancut.testkit.Frames.version

class ChainSuite extends AnyFunSuite {
  private val notRead: StateVersion => Parent = v => fail(s"the header of $v was read")

  test("deltas lead to version 0, and no header is read if each number has one id") {
    val listing = StoreListing(Set.empty, Set(version(1), version(2), version(3)))
    val chain = Chain.to(listing, 3, None, notRead)
    assert(chain == Right(Chain(None, Seq(version(1), version(2), version(3)))))
  }

  test("deltas lead to the newest base of the chain") {
    val listing = StoreListing(Set(version(2), version(4)), (1L to 6L).map(version(_)).toSet)
    val chain = Chain.to(listing, 6, None, notRead)
    assert(chain == Right(Chain(Some(version(4)), Seq(version(5), version(6)))))
    assert(Chain.to(listing, 4, None, notRead) == Right(Chain(Some(version(4)), Nil)))
  }

  test("the greatest of several ids counts, unless one is requested") {
    val (early, late) = (version(1, attempt = 1), version(1, attempt = 2))
    val listing = StoreListing(Set.empty, Set(early, late))
    assert(Chain.to(listing, 1, None, notRead).map(_.target) == Right(late))
    assert(Chain.to(listing, 1, Some(early.id), notRead).map(_.target) == Right(early))
  }

  test("if a number has several ids, the header names the parent") {
    val (early, late) = (version(1, attempt = 1), version(1, attempt = 2))
    val listing = StoreListing(Set.empty, Set(early, late, version(2)))
    val chain = Chain.to(listing, 2, None, _ => Parent(1, Some(early.id)))
    assert(chain == Right(Chain(None, Seq(early, version(2)))))
  }

  test("a gap is reported with the number at which the chain breaks") {
    val listing = StoreListing(Set.empty, Set(version(1), version(3)))
    assert(Chain.to(listing, 3, None, notRead).left.map(_.number) == Left(2))
    assert(Chain.to(listing, 5, None, notRead).left.map(_.number) == Left(5))
    assert(Chain.to(listing, 3, Some("f" * 32), notRead).left.map(_.number) == Left(3))
    val attempts = StoreListing(Set.empty, Set(version(1, 1), version(1, 2), version(2)))
    val foreign = Chain.to(attempts, 2, None, _ => Parent(1, Some("f" * 32)))
    assert(foreign.left.map(_.number) == Left(1))
  }

  test("a long chain is resolved without deep recursion") {
    val listing = StoreListing(Set.empty, (1L to 20000L).map(version(_)).toSet)
    assert(Chain.to(listing, 20000, None, notRead).map(_.deltas.size) == Right(20000))
  }
}
