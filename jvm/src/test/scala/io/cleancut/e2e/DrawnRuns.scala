package io.cleancut.e2e

import java.util.SplittableRandom

import scala.util.{Failure, Random, Success, Try}

/** What suites of drawn queries share: which seeds they take, and how they draw and have ended. */
object DrawnRuns {

  /**
   * `CLEANCUT_SEED` alone, or some from `CLEANCUT_FIRST_SEED` on.
   *
   * @param count
   *   the variable of the environment that says how many
   */
  def seeds(count: String, default: Long): Seq[Long] = {
    def number(name: String): Option[Long] = sys.env.get(name).map(_.toLong)
    val first = number("CLEANCUT_FIRST_SEED").getOrElse(1L)
    number("CLEANCUT_SEED")
      .map(Seq(_))
      .getOrElse(first until first + number(count).getOrElse(default))
  }

  /** Numbers that have nothing in common with those of the next seed, as those of Java's have. */
  def random(seed: Long): Random = new Random(spread(seed))

  /** Of neighbouring seeds, numbers that are far from each other. */
  def spread(seed: Long): Long = new SplittableRandom(seed).nextLong()

  def ending(run: Try[_]): String = run match {
    case Success(_) => "succeeded"
    case Failure(e) => s"failed: ${causes(e).map(_.toString.linesIterator.next()).mkString(" <- ")}"
  }

  /** Whether it is an incident that has ended a query. */
  def isInjected(e: Throwable): Boolean =
    causes(e).exists(_.toString.contains(classOf[InjectedFailure].getName))

  private def causes(e: Throwable): Seq[Throwable] =
    Iterator.iterate(e)(_.getCause).takeWhile(_ != null).toSeq
}
