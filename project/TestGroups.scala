import sbt._

/** Which suites share a JVM. */
object TestGroups {

  /** Without the second compiler the JVM keeps little room for code by itself. */
  private val FirstCompiler = Seq("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m")

  /**
   * Whole queries run much code once: there the second compiler costs more than it saves. What is
   * nearer to memory is tested with it, as users run it.
   */
  def byKind(suites: Seq[TestDefinition], fork: ForkOptions): Seq[Tests.Group] = {
    val (queries, others) = suites.partition(_.name.startsWith("io.cleancut.e2e."))
    val quick = fork.withRunJVMOptions(fork.runJVMOptions ++ FirstCompiler)
    Seq(
      Tests.Group("others", others, Tests.SubProcess(fork)),
      Tests.Group("queries", queries, Tests.SubProcess(quick))
    ).filter(_.tests.nonEmpty)
  }
}
