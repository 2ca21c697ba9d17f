package io.cleancut.testkit

import scala.util.Random

import org.scalatest.Assertions

/** Repeats a test with other random numbers each time, and names the seed where it fails. */
trait Seeded extends Assertions {

  /** Runs `body` for `times` seeds; with `CLEANCUT_SEED` in the environment for that one only. */
  protected def forSeeds(times: Int)(body: Random => Any): Unit = {
    val first = System.nanoTime()
    val seeds =
      sys.env.get("CLEANCUT_SEED").fold(Seq.tabulate(times)(first + _))(s => Seq(s.toLong))
    for (seed <- seeds)
      withClue(s"CLEANCUT_SEED=$seed repeats this: ") {
        body(new Random(seed))
      }
  }
}
