package io.cleancut.testkit

import org.scalatest.concurrent.Eventually
import org.scalatest.time.{Millis, Span}

/**
 * Polls for a condition that must become true.
 *
 * The limit costs time only if a test fails. It is long, so that no test fails on a busy machine.
 */
trait Patience extends Eventually {
  implicit override val patienceConfig: PatienceConfig =
    PatienceConfig(Span(Patience.Seconds * 1000, Millis), Span(10, Millis))
}

object Patience {

  /**
   * The limit of every wait in the tests, which `CLEANCUT_PATIENCE_SECONDS` sets. Planted defects
   * may reach it.
   */
  val Seconds: Long = sys.env.get("CLEANCUT_PATIENCE_SECONDS").fold(600L)(_.toLong)
}
