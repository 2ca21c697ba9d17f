import sbt._

/** The sources of the benchmarks that tests use. */
object BenchSources {
  private val nexmark = Seq("NexmarkAnswer", "NexmarkEvents", "NexmarkQuery")
  private val needed = Seq("BenchProcessors", "BenchQuery")

  def ofNexmark(bench: File): Seq[File] =
    (nexmark ++ needed).map(name =>
      bench / "io" / "cleancut" / "bench" / "queries" / s"$name.scala"
    )
}
