package io.cleancut.bench.queries

/** How a child JVM is told which query it is to run. */
object WholeQueries {

  /** Name and, of a query of Nexmark or an aggregation, what it was made with. */
  def asked(query: WholeQuery): String = query match {
    case NexmarkQuery(_, events, rows, fill) =>
      val made = Seq(events.perSecond, events.inFlight, events.people, rows, fill)
      (query.name +: made.map(_.toString)).mkString("|")
    case BenchQuery(_, _, _, keys, _, fill, _, _) if query.name.startsWith("aggregation") =>
      s"${query.name}|$keys|$fill"
    case other => other.name
  }

  def named(asked: String): WholeQuery = asked.split('|') match {
    case Array(_)             => BenchQuery.named(asked)
    case Array(_, keys, fill) => BenchQuery.aggregation(keys.toInt, fill.toInt)
    case _                    => nexmark(asked)
  }

  def nexmark(asked: String): NexmarkQuery = {
    val parts = asked.split('|')
    val made = parts.tail.map(_.toInt)
    NexmarkQuery.named(parts(0), NexmarkEvents(made(0), made(1), made(2)), made(3), made(4))
  }
}
