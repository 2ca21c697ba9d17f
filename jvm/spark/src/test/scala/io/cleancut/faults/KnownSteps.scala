package io.cleancut.faults

/** All steps of a query on files: the requests to its object store. */
object KnownSteps {

  /** Steps of the first start of a query only. */
  val first: Set[Step] = steps(
    "format note" -> "create",
    "query's metadata" -> "create, list",
    "state metadata" -> "create"
  )

  /** Steps of later starts and their epochs, after a death between the sink and the cut. */
  val later: Set[Step] = steps(
    "checkpoint" -> "list, list uploads",
    "commit log" -> "list",
    "cuts" -> "create, delete, list, read",
    "files before cuts" -> "list",
    "offset log" -> "create, delete, list, read",
    "format note" -> "read",
    "owners" -> "create, list, head",
    "pages" -> "delete, list, put, read",
    "query's metadata" -> "head, read, read a range",
    "savepoints" -> "list",
    "segments" -> ("begin an upload, send a part, complete an upload, put bases, " +
      "put frames by the driver, put frames of an executor, list, read a range, delete"),
    "source log" -> "create, list, read",
    "state metadata" -> "list, read",
    "write probe" -> "create, delete, list, head, put, read, read a range"
  )

  /** The last request of an upload, and the request after its refusal. */
  val uploadEnd: Step = Step("segments", "complete an upload")
  val uploadAbort: Step = Step("segments", "abort an upload")

  /**
   * Additional steps: of a query that dies while one of its tasks is about to write, and reads of
   * Spark's files that its start has not read ahead.
   */
  val possible: Set[Step] = steps(
    "commit log" -> "head, read a range",
    "offset log" -> "head, read a range",
    "source log" -> "head, read a range",
    "state metadata" -> "head, read a range"
  ) + uploadAbort

  val all: Seq[Step] = (first ++ later).toSeq.sortBy(_.toString)

  private def steps(acts: (String, String)*): Set[Step] =
    acts.flatMap { case (place, all) => all.split(", ").map(Step(place, _)) }.toSet
}
