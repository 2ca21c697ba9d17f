package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.LockSupport

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.testkit.{Patience, Seeded}

class ProviderModelSuite extends AnyFunSuite with Seeded {
  private val PauseNs = 200000L

  for ((format, name) <- Seq(1 -> "number", 2 -> "id"))
    test(s"a provider has the rows of a map for each version, requested by $name") {
      forSeeds(2)(random => finish(machine(random, format)._1))
    }

  for ((format, name) <- Seq(1 -> "number", 2 -> "id"))
    test(s"concurrent maintenance affects neither tasks nor versions, requested by $name") {
      forSeeds(2) { random =>
        val (driven, setup) = machine(random, format, isMaintained = true)
        @volatile var isRunning = true
        val maintenance = Tasks.inThread {
          var rounds = 0
          while (isRunning) {
            driven.maintain()
            rounds += 1
            LockSupport.parkNanos(PauseNs)
          }
          rounds
        }
        try finish(driven)
        finally isRunning = false
        val rounds = maintenance.get(Patience.Seconds, TimeUnit.SECONDS)
        info(s"$rounds rounds of maintenance, ${setup.frames.size} files remain")
        assert(setup.frames.exists(_.toString.endsWith(".base")))
      }
    }

  private def finish(machine: ProviderMachine): Unit = {
    machine.run(steps = 100)
    assert(machine.versions.last.number > 10)
    ()
  }

  private def machine(
      random: Random,
      format: Int,
      isMaintained: Boolean = false
  ): (ProviderMachine, Providers.Setup) = {
    val setup = Providers
      .setup()
      .copy(
        confs = Map(
          "spark.sql.streaming.minBatchesToRetain" -> ProviderMachine.Retained.toString,
          "spark.sql.streaming.ratioExtraSpaceAllowedInCheckpoint" -> "0",
          "spark.sql.streaming.stateStore.minDeltasForSnapshot" -> "3",
          "spark.sql.streaming.stateStore.checkpointFormatVersion" -> format.toString
        ),
        hadoop = Map(FailingFiles.ManagerKey -> classOf[FailingFiles].getName)
      )
    (new ProviderMachine(random, setup, withIds = format == 2, isMaintained), setup)
  }
}
