package io.cleancut.e2e

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SPARK_VERSION

import io.cleancut.testkit.{Fault, SerialChain, TimedRequest}

/** The requests of a query's start on a bucket, which depend on the order of Spark's reads. */
class StartRequestsSuite extends AnyFunSuite with RestartedQuery {
  import StartRequestsSuite._

  test("a restart makes few serial requests before its first task") {
    run(epochs = 3)
    proxy.reset()
    proxy.harm(Fault.Delay(DelayMs), times = Int.MaxValue)(_ => true)
    firstTaskNs.set(Long.MaxValue)
    run(epochs = 1)
    val requests = withoutSearch(proxy.timedRequests)
    val chain = SerialChain.longest(requests, firstTaskNs.get)
    note(chain.map(_.request.first).mkString("\n"))
    assert(firstTaskNs.get < Long.MaxValue && chain.size <= MostSerial)
    // Every object of Spark is read at most twice: by the checks, and by the run.
    val reads = requests.map(_.request).filter(_.method == "GET").map(_.target)
    val repeated = reads.filter(_.matches(".*/(offsets|state|commits|sources)/.*"))
    val most = repeated.groupBy(identity).map { case (target, all) => target -> all.size }
    assert(most.nonEmpty && most.values.max <= 2, most)
  }
}

object StartRequestsSuite {

  /** Longer than the time in which a busy machine starts a thread. */
  private val DelayMs = 300L

  /** The search for remains of killed processes is not part of the start: uploads, and probes. */
  private def withoutSearch(requests: Seq[TimedRequest]): Seq[TimedRequest] = {
    def isUploads(one: TimedRequest) = one.request.target.contains("uploads")
    def isProbes(one: TimedRequest) = one.request.target.contains("delimiter=%2F&prefix=started%2F")
    val search = requests.filter(isUploads(_)).map(_.beginNs).minOption.getOrElse(Long.MaxValue)
    requests.filterNot(one => isUploads(one) || isProbes(one) && one.beginNs >= search)
  }

  /** Spark 4.0 also checks for the offset log before its run begins. */
  private val MostSerial = if (SPARK_VERSION.startsWith("4.0")) 14 else 12
}
