package io.cleancut.engine

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.testkit.{Seeded, TestMemory}

class StateLogModelSuite extends AnyFunSuite with Seeded {
  for (mode <- TestMemory.modes)
    test(s"a log holds what a map for each version holds, in $mode memory") {
      forSeeds(if (mode == "checked") 60 else 120) { random =>
        TestMemory.using(mode)(new LogMachine(random, _).run(steps = 400))
      }
    }
}
