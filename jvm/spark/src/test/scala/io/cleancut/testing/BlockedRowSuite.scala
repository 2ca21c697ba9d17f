package io.cleancut.testing

import java.nio.file.Files
import java.util.concurrent.{TimeoutException, TimeUnit}

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.testkit.{ManualClock, TestDirectory}

class BlockedRowSuite extends AnyFunSuite {

  /** Each wait takes as long as it says; `during` is called in each. */
  final private class Steps(during: Int => Unit) extends ManualClock {
    var waits = 0
    override def sleep(duration: Long, unit: TimeUnit): Unit = {
      waits += 1
      super.sleep(duration, unit)
      during(waits)
    }
  }

  test("a row that comes tells so, and waits until it is released") {
    TestDirectory.use("block") { root =>
      val clock = new Steps(wait => {
        assert(Files.exists(root.resolve("reached")))
        if (wait == 3) Files.createFile(root.resolve("released"))
        ()
      })
      assert(BlockedRow.await(root.toString, 1000L, clock) == "")
      assert(clock.waits == 3)
      assert(BlockedRow.await(root.toString, 1000L, clock) == "")
      assert(clock.waits == 3, "a block that is released holds nobody")
    }
  }

  test("a row that nobody releases fails in time, and names its block") {
    TestDirectory.use("block") { root =>
      val clock = new Steps(_ => ())
      val failed = intercept[TimeoutException](BlockedRow.await(root.toString, 1000L, clock))
      assert(failed.getMessage.contains(root.toString))
      assert(clock.waits == 201)
    }
  }
}
