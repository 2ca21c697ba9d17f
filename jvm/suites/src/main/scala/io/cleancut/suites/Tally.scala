package io.cleancut.suites

import org.scalatest.Reporter
import org.scalatest.events._

/** Prints the result of each test of one suite, and counts results. */
final class Tally(val suite: String) extends Reporter {

  private val reasons =
    NotApplicable.all.filter(_.suite == suite).map(entry => entry.test -> entry.reason).toMap

  private var passed, notApplicable, ignoredBySpark, canceled = 0
  private var failures = Vector.empty[String]

  def failed: Seq[String] = synchronized(failures)

  override def apply(event: Event): Unit = synchronized {
    event match {
      case test: TestSucceeded =>
        passed += 1
        println(s"- ${test.testName} (${test.duration.getOrElse(0L)} ms)")
      case test: TestFailed => fail(test.testName, test.message, test.throwable)
      case test: TestIgnored if reasons.contains(test.testName) =>
        notApplicable += 1
        println(s"- ${test.testName} !!! NOT APPLICABLE: ${reasons(test.testName)}")
      case test: TestIgnored =>
        ignoredBySpark += 1
        println(s"- ${test.testName} !!! IGNORED BY SPARK")
      case test: TestCanceled =>
        canceled += 1
        println(s"- ${test.testName} !!! CANCELED: ${test.message}")
      case aborted: SuiteAborted => fail("(the suite)", aborted.message, aborted.throwable)
      case _                     => ()
    }
  }

  def fail(test: String, message: String, cause: Option[Throwable]): Unit = synchronized {
    failures :+= test
    println(s"- $test *** FAILED *** $message")
    cause.foreach(_.printStackTrace(Console.out))
  }

  def summary: String = synchronized {
    f"$suite%-45s$passed%5d passed$notApplicable%4d not applicable${failures.size}%4d failed" +
      f"$ignoredBySpark%4d ignored by Spark$canceled%4d canceled"
  }
}
