package io.cleancut.testing

import java.nio.file.Files
import java.util.concurrent.{TimeoutException, TimeUnit}

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.testkit.{ManualClock, TestDirectory}

class BlockedRowSuite extends AnyFunSuite {

  /** Advances by each sleep, and calls `during` in each. */
  final private class Steps(during: Int => Unit) extends ManualClock {
    var waits = 0
    override def sleep(duration: Long, unit: TimeUnit): Unit = {
      waits += 1
      super.sleep(duration, unit)
      during(waits)
    }
  }

  test("a row reports that it is reached, and waits until it is released") {
    TestDirectory.use("block") { root =>
      val clock = new Steps(wait => {
        assert(Files.exists(root.resolve("reached")))
        if (wait == 3) Files.createFile(root.resolve("released"))
        ()
      })
      assert(BlockedRow.await(root.toString, 1000L, clock) == "")
      assert(clock.waits == 3)
      assert(BlockedRow.await(root.toString, 1000L, clock) == "")
      assert(clock.waits == 3, "a released block blocks no row")
    }
  }

  test("a row that is not released times out with an error that names its block") {
    TestDirectory.use("block") { root =>
      val clock = new Steps(_ => ())
      val failed = intercept[TimeoutException](BlockedRow.await(root.toString, 1000L, clock))
      assert(failed.getMessage.contains(root.toString))
      assert(clock.waits == 201)
    }
  }
}
