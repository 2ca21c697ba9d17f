package io.cleancut.e2e

import java.net.URI
import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Using

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streaming.StreamingQuery

import io.cleancut.CleancutCoordinator
import io.cleancut.conf.Keys
import io.cleancut.error.CleancutException
import io.cleancut.testkit.{Patience, TestDirectory}

/**
 * A query on a bucket that is started and waits before it takes ownership. Until it is released it
 * changes nothing in its checkpoint.
 */
class ParkedQuerySuite extends AnyFunSuite with RestartedQuery with Patience {
  import ParkedQuerySuite._

  override protected def settings: Map[String, String] =
    Map("spark.ui.enabled" -> "true", "spark.ui.port" -> "0")

  private def tab: String = {
    val page = new URI(spark.sparkContext.uiWebUrl.get + "/cuts/").toURL
    Using.resource(page.openStream())(in => new String(in.readAllBytes(), UTF_8))
  }

  private def status: JsonNode =
    new ObjectMapper().readTree(CleancutCoordinator.status(location, spark))

  /** Starts the query after two epochs of an earlier run, and waits until it is parked. */
  private def parked(settings: (String, String)*): StreamingQuery = {
    run(epochs = 2)
    settings.foreach { case (key, value) => spark.conf.set(key, value) }
    proxy.reset()
    assert(CleancutCoordinator.park(location, spark) == location)
    val query = start()
    eventually(assert(CleancutCoordinator.isWaiting(location)))
    query
  }

  private def writes: Seq[String] = proxy.timedRequests
    .map(_.request)
    .filterNot(request => Reads(request.method))
    .map(_.first)

  private def refusal(location: String): String = {
    val refused = intercept[CleancutException](CleancutCoordinator.park(location, spark))
    assert(refused.getErrorId == "CLEANCUT_OPERATION_REFUSED")
    refused.getMessage
  }

  test("a parked query writes nothing, and continues from the last epoch when it is released") {
    val query = parked()
    try {
      addInput()
      assert(refusal(location).contains("prepared a successor already"))
      Thread.sleep(PauseMs)
      assert(query.isActive && writes == Nil)
      CleancutCoordinator.unpark(location)
      query.processAllAvailable()
      assert(writes.count(_.contains("/offsets/")) == 1)
      assert(refusal(location).contains("runs in this driver"))
    } finally query.stop()
    assert(query.exception.isEmpty)
  }

  test(
    "the status and the tab report since when a query has been parked, and whether it stands by"
  ) {
    val startedMs = System.currentTimeMillis()
    val query = parked()
    try {
      val sinceMs = status.path("parkedSinceMs").asLong
      assert(sinceMs >= startedMs && sinceMs <= System.currentTimeMillis())
      assert(status.path("committed").isNumber && !status.has("runId"))
      assert(tab.contains(s"A successor at $location has waited since"))
      Using.resource(CleancutCoordinator.standby(location, spark, silenceMs = 0L)) { _ =>
        assert(status.path("isStandby").asBoolean && tab.contains(s"A standby at $location"))
      }
      assert(!status.path("isStandby").asBoolean(true))
      CleancutCoordinator.unpark(location)
      eventually(assert(status.has("runId")))
      assert(!status.has("parkedSinceMs") && !tab.contains("has waited since"))
    } finally query.stop()
  }

  test("a query that is stopped while it is parked ends without an error and a trace") {
    val query = parked()
    query.stop()
    assert(query.exception.isEmpty && writes == Nil)
    assert(!CleancutCoordinator.isWaiting(location))
    run(epochs = 1)
  }

  test("the start of a parked query does not rescale its state") {
    try {
      parked(Keys.StatePartitions.name -> "5").stop()
      assert(writes == Nil)
    } finally spark.conf.unset(Keys.StatePartitions.name)
  }

  test("a query whose epochs are not committed by cuts has no owner, and is not parked") {
    TestDirectory.use("parked") { home =>
      assert(refusal(home.resolve("q").toString).contains("not committed by cuts"))
    }
  }
}

object ParkedQuerySuite {
  private val Reads = Set("GET", "HEAD")

  /** Longer than the start of a run. */
  private val PauseMs = 500L
}
