package io.cleancut.testkit

import org.scalatest.concurrent.Eventually
import org.scalatest.time.{Millis, Span}

/**
 * Polls for a condition that must become true.
 *
 * The limit costs time only where a test fails. It is long, because a busy machine must not fail a
 * test.
 */
trait Patience extends Eventually {
  implicit override val patienceConfig: PatienceConfig =
    PatienceConfig(Span(Patience.Seconds * 1000, Millis), Span(10, Millis))
}

object Patience {

  /** The limit of every wait in the tests. */
  val Seconds: Long = 600L
}
