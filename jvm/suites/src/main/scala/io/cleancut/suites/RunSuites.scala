package io.cleancut.suites

import java.lang.reflect.InvocationTargetException

import scala.util.control.NonFatal

import org.scalatest.{Args, Suite}

/** Runs Spark's suites on this provider. Exits with 1 unless every applicable test passes. */
object RunSuites {

  def main(args: Array[String]): Unit = {
    val selection = Selection.parse(args.toSeq)
    val tallies = selection.suites.map(run(_, selection))
    println()
    tallies.foreach(tally => println(tally.summary))
    for (tally <- tallies; test <- tally.failed) println(s"FAILED ${tally.suite}: $test")
    // An explicit exit: Spark's non-daemon threads would keep the process alive.
    sys.exit(if (tallies.exists(_.failed.nonEmpty)) 1 else 0)
  }

  private def run(suiteClass: Class[_ <: Suite], selection: Selection): Tally = {
    val tally = new Tally(suiteClass.getSimpleName)
    println(s"${tally.suite}:")
    try {
      val suite = newInstance(suiteClass)
      val status = suite.run(None, Args(tally, filter = selection.filter(suite)))
      if (!status.succeeds() && tally.failed.isEmpty)
        tally.fail("(the suite)", "It did not succeed, but no test failed.", None)
    } catch {
      // ScalaTest aborts the run if a class does not fit.
      case e @ (NonFatal(_) | _: LinkageError) =>
        tally.fail("(the suite)", "It could not run.", Some(e))
    }
    tally
  }

  private def newInstance(suiteClass: Class[_ <: Suite]): Suite =
    try suiteClass.getDeclaredConstructor().newInstance()
    catch { case e: InvocationTargetException => throw e.getCause }
}
