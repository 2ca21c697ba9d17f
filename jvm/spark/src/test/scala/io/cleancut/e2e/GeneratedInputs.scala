package io.cleancut.e2e

import java.nio.file.Path

import io.cleancut.testkit.inputs.InputLog

/**
 * Writes the inputs of randomized queries, without their runs: for the number of seeds that `make
 * chaos` runs.
 */
object GeneratedInputs {
  def main(args: Array[String]): Unit = {
    val log = new InputLog(Some(Path.of(args(0))))
    val (queries, withCuts) = (args(1).toLong, args(2).toLong)
    (1L to queries).foreach { seed =>
      log.add(RandomQueryInputs.Space, seed, new RandomQuery(seed).covered)
    }
    for (operations <- OperationInputs.Operations.values; seed <- 1L to OperationInputs.Enough) {
      val inputs = OperationInputs.covered(operations, new RandomQuery(seed))
      log.addPart(OperationInputs.Space, s"$operations $seed", inputs)
    }
    (1L to withCuts).foreach { seed =>
      log.add(UnalignedInputs.Space, seed, new UnalignedFate(seed).covered)
    }
  }
}
