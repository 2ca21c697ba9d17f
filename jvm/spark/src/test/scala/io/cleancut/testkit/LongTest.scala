package io.cleancut.testkit

import org.scalatest.Tag

/** A test for `make chaos`; `make test` covers its feature by a shorter test. */
object LongTest extends Tag("io.cleancut.testkit.LongTest")
