package io.cleancut.testkit

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
      try withClue(s"${Seeded.replay(seed, i + 1)}: ")(body(new Random(seed)))
      catch {
        case e: TestFailedException => throw e
        case e: Throwable           => throw new AssertionError(Seeded.replay(seed, i + 1), e)
      }
  }
}

object Seeded {
  private def replay(seed: Long, run: Int): String =
    s"CLEANCUT_SEED=$seed repeats this, which is run $run"
}
