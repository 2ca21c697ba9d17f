package io.cleancut.testkit

import java.util.SplittableRandom

import scala.util.Random

import org.scalatest.Assertions
import org.scalatest.exceptions.TestFailedException

/** Repeats a test with different random numbers, and reports the seed of a failure. */
trait Seeded extends Assertions {

  /**
   * Runs `body` for at most `max` seeds, reduced by [[Draws]], or only for the seed in
   * `CLEANCUT_SEED`. `CLEANCUT_FIRST_SEED` sets the first seed.
   */
  protected def forSeeds(max: Int)(body: Random => Any): Unit = {
    val first = sys.env.get("CLEANCUT_FIRST_SEED").fold(System.nanoTime())(_.toLong)
    val seeds =
      sys.env.get("CLEANCUT_SEED").fold(Seq.tabulate(Draws.of(max))(first + _))(s => Seq(s.toLong))
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
   * Random numbers of a seed. The first numbers of `new Random(seed)` are almost equal for
   * thousands of consecutive seeds, so all runs would make the same first choice.
   */
  def random(seed: Long): Random = new Random(spread(seed))

  /** A number that differs strongly between consecutive seeds. */
  def spread(seed: Long): Long = new SplittableRandom(seed).nextLong()

  private def replay(seed: Long, run: Int): String =
    s"CLEANCUT_SEED=$seed repeats this, which is run $run"
}
