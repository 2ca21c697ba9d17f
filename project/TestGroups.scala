import sbt._

/** Which suites share a JVM. */
object TestGroups {

  /** About `rm`, which Spark starts for each directory that it deletes. */
  private val QuickFork = "-Djdk.lang.Process.launchMechanism=VFORK"

  /**
   * For JVMs that run much code once: there the second compiler, and collecting garbage beside the
   * work, cost more than they save. Without the second compiler the JVM keeps little room for code
   * by itself. A variable, so that executors have it too.
   */
  private val ForBriefWork =
    "JAVA_TOOL_OPTIONS" ->
      s"-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC $QuickFork"

  /**
   * For campaigns: the second compiler has paid for itself after some minutes, and a large young
   * generation is hardly ever full. Last on the command line, so that they count.
   */
  private val ForLongWork =
    Seq("-XX:+UseParallelGC", "-Xms6g", "-Xmx6g", "-Xmn2g", "-XX:MetaspaceSize=512m", QuickFork)

  /**
   * Whole queries. Each makes classes of its own, so that its code is soon done with, unless there
   * are hundreds. What is nearer to memory is tested with all compilers, as users run it.
   */
  def byKind(suites: Seq[TestDefinition], fork: ForkOptions): Seq[Tests.Group] = {
    val (queries, others) = suites.partition(suite => Queries.exists(suite.name.startsWith(_)))
    val ofQueries =
      if (sys.env.contains("CLEANCUT_CAMPAIGN"))
        fork.withRunJVMOptions(fork.runJVMOptions ++ ForLongWork)
      else fork.withEnvVars(fork.envVars + ForBriefWork)
    Seq(
      Tests.Group("others", others, Tests.SubProcess(fork)),
      Tests.Group("queries", queries, Tests.SubProcess(ofQueries))
    ).filter(_.tests.nonEmpty)
  }

  private val Queries = Seq("io.cleancut.e2e.", "io.cleancut.faults.")
}
