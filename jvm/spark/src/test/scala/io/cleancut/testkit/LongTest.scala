package io.cleancut.testkit

import org.scalatest.Tag

/** Left to `make chaos`, since `make test` meets the same feature in a shorter test. */
object LongTest extends Tag("io.cleancut.testkit.LongTest")
