package io.cleancut.engine

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.testkit.{Seeded, TestMemory}

class StateLogModelSuite extends AnyFunSuite with Seeded {
  private var attached = 0
  private var readAlone = 0
  private var seeded = 0

  for (mode <- TestMemory.modes)
    test(s"a log has the rows of a map for each version, in $mode memory") {
      forSeeds(if (mode == "checked") 60 else 120) { random =>
        TestMemory.using(mode) { owned =>
          val machine = new LogMachine(random, owned)
          machine.run(steps = 400)
          attached += machine.attached
          readAlone += machine.readAlone
          if (machine.isSeeded) seeded += 1
        }
      }
    }

  test("some logs began with an unread base, and some indexes were seeded") {
    info(s"$attached unread bases, $readAlone keys read alone, $seeded logs with a seeded index")
    val isEach = attached > 0 && readAlone > 0 && seeded > 0
    assert(isEach || sys.env.contains("CLEANCUT_SEED"))
  }
}
