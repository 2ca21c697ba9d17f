package io.cleancut.engine

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.testkit.{Seeded, TestMemory}

class StateLogModelSuite extends AnyFunSuite with Seeded {
  for (mode <- TestMemory.modes)
    test(s"a log holds what a map for each version holds, in $mode memory") {
      var attached = 0
      forSeeds(if (mode == "checked") 60 else 120) { random =>
        TestMemory.using(mode) { owned =>
          val machine = new LogMachine(random, owned)
          machine.run(steps = 400)
          attached += machine.attached
        }
      }
      assert(attached > 0 || sys.env.contains("CLEANCUT_SEED"))
    }
}
