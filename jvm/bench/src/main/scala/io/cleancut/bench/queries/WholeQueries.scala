package io.cleancut.bench.queries

/** Encodes a query as an argument of a child JVM. */
object WholeQueries {

  /** The name and, for a Nexmark query or an aggregation, its parameters. */
  def argumentOf(query: WholeQuery): String = query match {
    case NexmarkQuery(_, events, rows, fill) =>
      val made = Seq(events.perSecond, events.inFlight, events.people, rows, fill)
      (query.name +: made.map(_.toString)).mkString("|")
    case BenchQuery(_, _, _, keys, _, fill, _, _) if query.name.startsWith("aggregation") =>
      s"${query.name}|$keys|$fill"
    case other => other.name
  }

  def named(argument: String): WholeQuery = argument.split('|') match {
    case Array(_)             => BenchQuery.named(argument)
    case Array(_, keys, fill) => BenchQuery.aggregation(keys.toInt, fill.toInt)
    case _                    => nexmark(argument)
  }

  def nexmark(argument: String): NexmarkQuery = {
    val parts = argument.split('|')
    val made = parts.tail.map(_.toInt)
    NexmarkQuery.named(parts(0), NexmarkEvents(made(0), made(1), made(2)), made(3), made(4))
  }
}
