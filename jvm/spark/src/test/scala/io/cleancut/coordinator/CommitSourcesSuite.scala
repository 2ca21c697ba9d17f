package io.cleancut.coordinator

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.StoreId
import io.cleancut.format.StoreCut

class CommitSourcesSuite extends AnyFunSuite {
  private def stores(partitions: Int*): Seq[StoreCut] = partitions.map { partition =>
    val store = StoreId(0L, partition, "default")
    StoreCut(store, Vector(LedgerFrames.delta(store, 1L, 1L)))
  }

  private val Lacks = Left(Set(StoreId(0L, 0, "default")))
  private val Nothing = Right(stores())
  private val One = Right(stores(1))
  private val Two = Right(stores(1, 2))

  /** Frames of this run, frames of an earlier run, stores that the plan requires, result. */
  private val cases = Seq(
    (Lacks, Lacks, 0, None),
    (Lacks, One, 0, One.toOption),
    (Lacks, Nothing, 0, None),
    (Nothing, Nothing, 0, Nothing.toOption),
    (Nothing, One, 0, One.toOption),
    (One, Lacks, 0, One.toOption),
    (One, Nothing, 0, One.toOption),
    (One, Two, 0, Two.toOption),
    (Two, One, 0, Two.toOption),
    (One, Lacks, 2, None),
    (One, Two, 2, Two.toOption),
    (Two, One, 2, Two.toOption),
    (Lacks, One, 2, None)
  )

  test("a complete run counts, and of two complete runs this one unless it has fewer stores") {
    for ((current, earlier, needed, expected) <- cases)
      withClue(s"$current, $earlier, $needed: ") {
        assert(CommitSources.choose(current, earlier, _.size >= needed) == expected)
      }
  }

  test("an earlier run with as many stores does not replace this one") {
    val other = Right(stores(3))
    assert(CommitSources.choose(One, other, _ => true).contains(One.value))
  }
}
