package io.cleancut.e2e

/** The totals of many runs of randomized queries. */
final case class CampaignTally(runs: Seq[CheckedRun]) {
  private val ended = runs.flatMap(run => run.outcome.toOption)
  private val cuts = ended.map(_._1)
  private val differences = ended.map(_._2)

  def epochsInFlight: Int = cuts.map(_.inFlight.values.count(_ > 0)).sum

  /** A row of the table in `docs/project/campaign-records.md`, without date and commit. */
  def row(seeds: Seq[Long]): String = Seq[Any](
    s"${seeds.head}–${seeds.last}",
    runs.size,
    epochs,
    epochsInFlight,
    rowsInFlight,
    failures,
    restarts,
    lost,
    duplicated,
    disordered,
    wrong
  ).mkString("| ", " | ", " |")

  override def toString: String =
    s"queries ${runs.size}, epochs $epochs, with in-flight rows $epochsInFlight, in-flight rows " +
      s"$rowsInFlight, failures $failures, restarts $restarts, epochs that ran again after " +
      s"their seal ${cuts.map(_.repeated).sum}, second actions ${cuts.map(_.secondActions).sum}; " +
      s"lost $lost, duplicated $duplicated, out of order $disordered; wrong runs $wrong; " +
      s"never with in-flight rows: ${never.mkString(", ")}; runs with ${traits.mkString(", ")}"

  private def epochs = cuts.map(_.inFlight.size).sum
  private def rowsInFlight = cuts.map(_.inFlight.values.sum).sum
  private def failures = cuts.map(_.struck).sum
  private def lost = differences.map(_.lost.size).sum
  private def duplicated = differences.map(_.duplicated.size).sum
  private def disordered = differences.map(_.disordered.size).sum
  private def wrong = runs.count(!_.isRight)
  private def restarts = cuts.map(_.starts - 1).sum

  private def traits: Seq[String] = runs
    .filter(_.outcome.isSuccess)
    .flatMap(_.fate.traits)
    .groupBy(identity)
    .toSeq
    .sortBy(_._1)
    .map { case (name, all) => s"$name ${all.size}" }

  /** Operators without in-flight rows in any run. */
  private def never: Seq[String] = runs
    .groupBy(_.fate.query.operator.name)
    .collect {
      case (name, all) if all.flatMap(_.outcome.toOption).forall(_._1.inFlight.values.sum == 0) =>
        name
    }
    .toSeq
    .sorted
}
