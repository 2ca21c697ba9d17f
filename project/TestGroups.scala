import sbt._

/** Which suites share a JVM. */
object TestGroups {

  /**
   * For JVMs that run much code once: there the second compiler, and collecting garbage beside the
   * work, cost more than they save. Without the second compiler the JVM keeps little room for code
   * by itself. The last option is about `rm`, which Spark starts for each directory that it
   * deletes. A variable, so that executors have it too.
   */
  private val ForBriefWork =
    "JAVA_TOOL_OPTIONS" ->
      ("-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC " +
        "-Djdk.lang.Process.launchMechanism=VFORK")

  /**
   * Whole queries. Each makes classes of its own, so that its code is soon done with, however many
   * there are. What is nearer to memory is tested with all compilers, as users run it.
   */
  def byKind(suites: Seq[TestDefinition], fork: ForkOptions): Seq[Tests.Group] = {
    val (queries, others) = suites.partition(suite => Queries.exists(suite.name.startsWith(_)))
    val brief = fork.withEnvVars(fork.envVars + ForBriefWork)
    Seq(
      Tests.Group("others", others, Tests.SubProcess(fork)),
      Tests.Group("queries", queries, Tests.SubProcess(brief))
    ).filter(_.tests.nonEmpty)
  }

  private val Queries = Seq("io.cleancut.e2e.", "io.cleancut.faults.")
}
