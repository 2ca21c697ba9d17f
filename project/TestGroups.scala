import sbt._

/** The groups of suites that share a JVM. */
object TestGroups {

  /** An option for `rm`, which Spark starts for each directory that it deletes. */
  private val QuickFork = "-Djdk.lang.Process.launchMechanism=VFORK"

  /**
   * For JVMs that run much code once: there the second compiler and concurrent garbage collection
   * cost more than they save. Without the second compiler the JVM reserves little space for code by
   * default. A variable, so that executors have it too.
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
   * Suites of queries: each query generates its own classes, so that its code runs briefly, unless
   * there are hundreds. Suites of memory run with all compilers, like users.
   */
  def byKind(suites: Seq[TestDefinition], fork: ForkOptions): Seq[Tests.Group] = {
    def in(packages: Seq[String])(suite: TestDefinition) = packages.exists(suite.name.startsWith(_))
    val (queries, rest) = suites.partition(in(Queries))
    val (ofMemory, others) = rest.partition(in(Memory))
    val brief = fork.withEnvVars(fork.envVars + ForBriefWork)
    val isCampaign = sys.env.contains("CLEANCUT_CAMPAIGN")
    val long = fork.withRunJVMOptions(fork.runJVMOptions ++ ForLongWork)
    // In two JVMs: they take longer than all others, and the last one would run alone.
    val (even, odd) = queries.sortBy(_.name).zipWithIndex.partition(_._2 % 2 == 0)
    val ofQueries = Tests.SubProcess(if (isCampaign) long else brief)
    Seq(
      Tests.Group("memory", ofMemory, Tests.SubProcess(fork)),
      Tests.Group("others", others, Tests.SubProcess(brief)),
      Tests.Group("queries", even.map(_._1), ofQueries),
      Tests.Group("other queries", odd.map(_._1), ofQueries)
    ).filter(_.tests.nonEmpty)
  }

  private val Queries = Seq("io.cleancut.e2e.", "io.cleancut.faults.")

  // The simulation, whose code is hot.
  private val Memory = Seq(
    "io.cleancut.coordinator.CutSimulationSuite",
    "io.cleancut.engine.",
    "io.cleancut.format.",
    "org.apache.spark.sql.execution.streaming.state.cleancut.statestore."
  )
}
