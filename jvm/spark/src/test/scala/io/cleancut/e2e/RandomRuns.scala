package io.cleancut.e2e

import scala.util.{Failure, Random, Success, Try}

import io.cleancut.testkit.Seeded

/** Seeds, random numbers and errors of suites with randomized queries. */
object RandomRuns {

  /** Seeds from environment variables, by default this many from 1. */
  def seeds(count: String, default: Long): Seq[Long] = seeds(count, 1L to default)

  /**
   * The seed of `CLEANCUT_SEED`, or several seeds from `CLEANCUT_FIRST_SEED`.
   *
   * @param count
   *   name of the environment variable with the number of seeds
   * @param usual
   *   seeds if no variable is set
   */
  def seeds(count: String, usual: Seq[Long]): Seq[Long] = {
    def number(name: String): Option[Long] = sys.env.get(name).map(_.toLong)
    val (first, runs) = (number("CLEANCUT_FIRST_SEED"), number(count))
    number("CLEANCUT_SEED")
      .map(Seq(_))
      .orElse(Option.when(first.isEmpty && runs.isEmpty)(usual))
      .getOrElse {
        val from = first.getOrElse(1L)
        from until from + runs.getOrElse(usual.size.toLong)
      }
  }

  def random(seed: Long): Random = Seeded.random(seed)

  def spread(seed: Long): Long = Seeded.spread(seed)

  def ending(run: Try[_]): String = run match {
    case Success(_) => "succeeded"
    case Failure(e) => s"failed: ${causes(e).map(_.toString.linesIterator.next()).mkString(" <- ")}"
  }

  /** Whether a query failed because of an incident. */
  def isInjected(e: Throwable): Boolean =
    causes(e).exists(_.toString.contains(classOf[InjectedFailure].getName))

  def causes(e: Throwable): Seq[Throwable] =
    Iterator.iterate(e)(_.getCause).takeWhile(_ != null).toSeq
}
