package io.cleancut.e2e

/** What many runs of drawn queries were like. */
final case class CampaignTally(runs: Seq[JudgedRun]) {
  private val ended = runs.flatMap(run => run.outcome.toOption)
  private val cuts = ended.map(_._1)
  private val differences = ended.map(_._2)

  def epochsInFlight: Int = cuts.map(_.inFlight.values.count(_ > 0)).sum

  /** A line of the table in `docs/campaigns.md`, but for date and commit. */
  def row(seeds: Seq[Long]): String = Seq[Any](
    s"${seeds.head}–${seeds.last}",
    runs.size,
    epochs,
    epochsInFlight,
    rowsInFlight,
    failures,
    restarts,
    lost,
    doubled,
    disordered,
    wrong
  ).mkString("| ", " | ", " |")

  override def toString: String =
    s"queries ${runs.size}, epochs $epochs, with rows in flight $epochsInFlight, rows in flight " +
      s"$rowsInFlight, failures $failures, restarts $restarts, epochs that ran again behind " +
      s"their seal ${cuts.map(_.again).sum}, second actions ${cuts.map(_.acted).sum}; " +
      s"lost $lost, doubled $doubled, out of order $disordered; runs that are wrong $wrong; " +
      s"never with rows in flight: ${never.mkString(", ")}; runs with ${traits.mkString(", ")}"

  private def epochs = cuts.map(_.inFlight.size).sum
  private def rowsInFlight = cuts.map(_.inFlight.values.sum).sum
  private def failures = cuts.map(_.struck).sum
  private def lost = differences.map(_.lost.size).sum
  private def doubled = differences.map(_.doubled.size).sum
  private def disordered = differences.map(_.disordered.size).sum
  private def wrong = runs.count(!_.isRight)
  private def restarts = cuts.map(_.starts - 1).sum

  private def traits: Seq[String] = runs
    .filter(_.outcome.isSuccess)
    .flatMap(_.fate.traits)
    .groupBy(identity)
    .toSeq
    .sortBy(_._1)
    .map { case (name, found) => s"$name ${found.size}" }

  /** Operators that had none in any run. */
  private def never: Seq[String] = runs
    .groupBy(_.fate.query.operator.name)
    .collect {
      case (name, of) if of.flatMap(_.outcome.toOption).forall(_._1.inFlight.values.sum == 0) =>
        name
    }
    .toSeq
    .sorted
}
