package io.cleancut.protocol

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.StateVersion
import io.cleancut.format.StoreLayout
import io.cleancut.format.frame.Parent
import io.cleancut.testkit.Seeded
import io.cleancut.testkit.Frames.version

class RetentionSuite extends AnyFunSuite {

  test("frames before the newest base that is old enough are deleted, oldest first") {
    val listing = StoreListing(Set(version(3), version(6)), (1L to 9L).map(version(_)).toSet)
    assert(numbers(listing, keepFrom = 7) == Seq(1, 2, 3, 3, 4, 5))
    assert(numbers(listing, keepFrom = 5) == Seq(1, 2))
    assert(numbers(listing, keepFrom = 2).isEmpty)
    assert(numbers(listing, keepFrom = 7, maxNumbers = 2) == Seq(1, 2))
  }

  test("nothing is deleted if a version or one of its attempts has no base") {
    val deltas = (1L to 9L).map(version(_)).toSet
    assert(numbers(StoreListing(Set.empty, deltas), keepFrom = 9).isEmpty)
    val twoAttempts = StoreListing(Set(version(5)), deltas + version(5, attempt = 2))
    assert(numbers(twoAttempts, keepFrom = 9).isEmpty)
  }

  test("temporary files are deleted with adjacent versions") {
    val left = StoreListing.Temporary(2, "left.tmp")
    val current = StoreListing.Temporary(9, "current.tmp")
    val listing =
      StoreListing(Set(version(5)), (1L to 8L).map(version(_)).toSet, Set(left, current))
    val names = Retention.garbage(listing, 6, Int.MaxValue).map(_.name)
    assert(names.contains("left.tmp") && !names.contains("current.tmp"))
  }

  test("deletions do not change the chain of a retained version") {
    for (seed <- 0 until 300) withClue(s"seed $seed: ") {
      val forest = new Forest(Seeded.random(seed))
      val keepFrom = 1L + Seeded.random(seed).nextInt(Forest.Numbers)
      val deleted = Retention.garbage(forest.listing, keepFrom, Int.MaxValue).map(_.name).toSet
      val rest = StoreListing.fromNames(forest.names.filterNot(deleted))
      for (kept <- forest.listing.frames.filter(_.number >= keepFrom)) {
        def chain(listing: StoreListing) =
          Chain.to(listing, kept.number, Some(kept.id), forest.parents)
        assert(rest.frames(kept))
        if (chain(forest.listing).isRight) assert(chain(rest) == chain(forest.listing))
      }
    }
  }

  private def numbers(
      listing: StoreListing,
      keepFrom: Long,
      maxNumbers: Int = Int.MaxValue
  ): Seq[Long] = Retention.garbage(listing, keepFrom, maxNumbers).map(_.number)
}

private object Forest {
  val Numbers = 14
}

/**
 * Attempts at consecutive versions, each based on one of the previous attempts; some have bases.
 */
final private class Forest(random: Random) {
  val parents: Map[StateVersion, Parent] = {
    val byNumber = (1 to Forest.Numbers).map { number =>
      (1 to 1 + random.nextInt(10) / 8).map(attempt => version(number.toLong, attempt))
    }
    byNumber.indices.flatMap { i =>
      byNumber(i).map { v =>
        val below = if (i == 0) Nil else byNumber(i - 1)
        v -> (if (below.isEmpty) Parent(0, None)
              else Parent(i.toLong, Some(below(random.nextInt(below.size)).id)))
      }
    }.toMap
  }

  val listing: StoreListing = StoreListing(
    parents.keySet.filter(_ => random.nextInt(4) == 0),
    parents.keySet.filter(_ => random.nextInt(50) > 0)
  )

  def names: Seq[String] = {
    import io.cleancut.format.FrameKind._
    listing.bases.toSeq.map(StoreLayout.objectName(_, Base)) ++
      listing.deltas.toSeq.map(StoreLayout.objectName(_, Delta))
  }
}
