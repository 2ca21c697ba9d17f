package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import scala.util.Random

import Providers._
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SparkException
import org.apache.spark.sql.execution.streaming.state._

import io.cleancut.error.CleancutException

/**
 * File systems that fail during a commit: the old version is kept, and the next attempt succeeds.
 */
class FailingFilesSuite extends AnyFunSuite {

  for (moment <- FailingFiles.Moments)
    test(s"a file system that fails $moment fails the commit, and the next attempt succeeds") {
      val setup = failing()
      val provider = setup.open()
      commit(provider, 0, 1L -> 10L)
      val (store, thrown) = FailingFiles.during(moment, ".delta") {
        val store = provider.getStore(1)
        store.put(key(1), value(11))
        (store, intercept[SparkException](store.commit()))
      }
      val cause = thrown.getCause.asInstanceOf[CleancutException]
      assert(cause.errorId == "CLEANCUT_COMMIT_FAILED")
      assert(cause.getMessage.contains(FailingFiles.Message))
      assert(!store.hasCommitted)
      store.abort()
      assert(rows(provider.getStore(1)) == Map(1L -> 10L))
      val fresh = setup.open()
      assert(commit(fresh, 1, 2L -> 20L) == 2)
      fresh.close()
      provider.close()
      assert(rowsAt(setup, 2) == Map(1L -> 10L, 2L -> 20L))
      assert(rowsAt(setup, 1) == Map(1L -> 10L))
    }

  for (moment <- FailingFiles.Moments; file <- Seq("format.json", ".delta"))
    test(s"the first commit can fail $moment, for $file, and be retried") {
      val setup = failing()
      val provider = setup.open()
      FailingFiles.during(moment, file) {
        val store = provider.getStore(0)
        store.put(key(1), value(10))
        intercept[SparkException](store.commit())
        store.abort()
      }
      assert(commit(provider, 0, 2L -> 20L) == 1)
      provider.close()
      assert(rowsAt(setup, 1) == Map(2L -> 20L))
    }

  test("a change that cannot be written fails, and so does the commit") {
    val setup = failing()
    val provider = setup.open()
    commit(provider, 0, 1L -> 10L)
    val store = provider.getStore(1)
    val large = new Random(1).alphanumeric.take(1 << 20).mkString
    val refused = FailingFiles.during(FailingFiles.Write) {
      intercept[CleancutException] {
        for (i <- 0L until 20L) store.put(key(i, large), value(i))
      }
    }
    assert(refused.errorId == "CLEANCUT_COMMIT_FAILED")
    intercept[StateStoreOperationOutOfOrder](store.commit())
    assert(!store.hasCommitted)
    store.abort()
    assert(commit(provider, 1, 2L -> 20L) == 2)
    provider.close()
    assert(rowsAt(setup, 2) == Map(1L -> 10L, 2L -> 20L))
  }

  for (moment <- FailingFiles.Moments)
    test(
      s"a base that fails $moment is written by the next maintenance, with the version readable"
    ) {
      val setup = failing("spark.sql.streaming.stateStore.minDeltasForSnapshot" -> "2")
      val provider = setup.open()
      for (version <- 0L until 3L) commit(provider, version, version -> version)
      FailingFiles.during(moment, ".base")(provider.doMaintenance())
      assert(rowsAt(setup, 3) == Map(0L -> 0L, 1L -> 1L, 2L -> 2L))
      assert(commit(provider, 3, 3L -> 3L) == 4)
      provider.doMaintenance()
      provider.close()
      assert(setup.frames.exists(_.toString.endsWith(".base")))
      assert(rowsAt(setup, 4) == Map(0L -> 0L, 1L -> 1L, 2L -> 2L, 3L -> 3L))
    }

  for (moment <- FailingFiles.Moments)
    test(s"a forced snapshot that fails $moment fails the commit, and the next attempt succeeds") {
      val setup = failing("spark.sql.streaming.stateStore.minDeltasForSnapshot" -> "2")
      val provider = setup.open()
      commit(provider, 0, 1L -> 10L)
      val store = VersionedStores.open(provider, 1, withBase = true)
      store.put(key(1), value(11))
      FailingFiles.during(moment, ".base")(intercept[SparkException](store.commit()))
      store.abort()
      assert(rows(provider.getStore(1)) == Map(1L -> 10L))
      assert(commit(provider, 1, 2L -> 20L) == 2)
      provider.close()
      assert(rowsAt(setup, 2) == Map(1L -> 10L, 2L -> 20L))
    }

  private def failing(confs: (String, String)*): Setup = Providers
    .setup()
    .copy(
      confs = confs.toMap,
      hadoop = Map(FailingFiles.ManagerKey -> classOf[FailingFiles].getName)
    )
}
