package io.cleancut.testkit

import java.util.SplittableRandom

import scala.util.Random

import org.scalatest.Assertions
import org.scalatest.exceptions.TestFailedException

/** Repeats a test with other random numbers each time, and names the seed where it fails. */
trait Seeded extends Assertions {

  /**
   * Runs `body` for as many of `most` seeds as [[Draws]] asks for; with `CLEANCUT_SEED` in the
   * environment for that one only.
   */
  protected def forSeeds(most: Int)(body: Random => Any): Unit = {
    val first = System.nanoTime()
    val seeds =
      sys.env.get("CLEANCUT_SEED").fold(Seq.tabulate(Draws.of(most))(first + _))(s => Seq(s.toLong))
    for ((seed, i) <- seeds.zipWithIndex)
      try withClue(s"${Seeded.replay(seed, i + 1)}: ")(body(Seeded.random(seed)))
      catch {
        case e: TestFailedException => throw e
        case e: Throwable           => throw new AssertionError(Seeded.replay(seed, i + 1), e)
      }
  }
}

object Seeded {

  /**
   * Random numbers of a seed. `new Random(seed)` does not do: its first numbers are almost the same
   * for thousands of consecutive seeds, so that no run draws the other side of a first choice.
   */
  def random(seed: Long): Random = new Random(spread(seed))

  /** Numbers far from each other for consecutive seeds. */
  def spread(seed: Long): Long = new SplittableRandom(seed).nextLong()

  private def replay(seed: Long, run: Int): String =
    s"CLEANCUT_SEED=$seed repeats this, which is run $run"
}
