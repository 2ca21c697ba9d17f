package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import scala.util.Random

import Providers._
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.state.{
  RangeKeyScanStateEncoderSpec,
  StateStoreMetrics,
  StateStoreProvider
}

import io.cleancut.conf.Keys
import io.cleancut.engine.memory.{MappedFiles, MemoryAccount}

/** State that is several times larger than `maxOffHeapMemory`. */
class MemoryBoundSuite extends AnyFunSuite with BeforeAndAfterAll {
  private val Bound = 4L << 20
  private val bounded = Map(Keys.MaxOffHeapMemory.name -> "4m")

  // The limit applies to the process, so it is restored for other suites.
  private val usual = MemoryAccount.process.boundBytes
  override protected def afterAll(): Unit =
    MemoryAccount.process.limit(usual, () => throw new IllegalStateException("no directory"))

  test(
    "state of eight times the limit is correct through epochs, aborts, restarts and compaction"
  ) {
    val before = MemoryAccount.process.usedBytes
    val setup = Providers.setup().copy(confs = bounded)
    val random = new Random(5)
    var provider = setup.open()
    var rows = Map.empty[Long, Long]
    var version = 0L
    for (epoch <- 1 to 12) {
      val changed = change(provider, version, rows, random, isAborted = epoch % 4 == 0)
      if (changed != rows) version += 1
      rows = changed
      provider.doMaintenance()
      if (epoch % 5 == 0) {
        provider.close()
        provider = setup.open()
      }
    }
    val account = MemoryAccount.process
    assert(account.mappedBytes > 8 * Bound)
    assert(account.residentBytes - before < Bound + MappedFiles.PageBytes)
    assert(readAll(provider, version) == rows)
    provider.close()
    assert(rowsAt(setup, version) == rows)
    assert(account.usedBytes == before)
  }

  test(
    "many small stores together observe the limit, and their metrics add up to the used memory"
  ) {
    val account = MemoryAccount.process
    val resident = account.residentBytes
    val mapped = account.mappedBytes
    val inOrder = RangeKeyScanStateEncoderSpec(KeySchema, Seq(0))
    val providers = Seq.tabulate(200) { partition =>
      val encoder = if (partition % 2 == 0) Plain else inOrder
      setup().copy(confs = bounded, partition = partition, encoder = encoder).open()
    }
    val metrics = providers.map { provider =>
      val store = provider.getStore(0)
      for (id <- 0L until 800L) store.put(key(id), value(id))
      store.commit()
      store.metrics
    }
    assert(metrics.map(_.memoryUsedBytes).sum == account.residentBytes - resident)
    assert(metrics.flatMap(mappedBytes).sum == account.mappedBytes - mapped)
    // Each store has a few kilobytes that are too small for a file.
    val used = account.usedBytes - resident - mapped
    info(s"${used >> 10} KiB, ${(account.residentBytes - resident) >> 10} of them in memory")
    assert(used > 5 * Bound && account.residentBytes - resident < Bound + (1L << 20))
    val expected = (0L until 800L).map(id => id -> id).toMap
    providers.foreach(provider => assert(readAll(provider, 1) == expected))
    providers.foreach(_.close())
    assert(account.residentBytes == resident && account.mappedBytes == mapped)
  }

  private def mappedBytes(metrics: StateStoreMetrics): Option[Long] =
    metrics.customMetrics.collectFirst {
      case (metric, bytes) if metric.name == "cleancutMappedBytes" => bytes
    }

  private def change(
      provider: StateStoreProvider,
      version: Long,
      rows: Map[Long, Long],
      random: Random,
      isAborted: Boolean
  ): Map[Long, Long] = {
    val store = provider.getStore(version)
    var changed = rows
    for (_ <- 0 until 60000) {
      val id = random.nextInt(400000).toLong
      if (random.nextInt(10) == 0) {
        store.remove(key(id))
        changed -= id
      } else {
        val count = random.nextInt(1000).toLong
        store.put(key(id), value(count))
        changed += id -> count
      }
    }
    if (isAborted) {
      store.abort()
      rows
    } else {
      store.commit()
      val metrics = store.metrics
      assert(metrics.numKeys == changed.size)
      assert(mappedBytes(metrics).exists(_ > 0L))
      changed
    }
  }

  private def readAll(provider: StateStoreProvider, version: Long): Map[Long, Long] = {
    val store = provider.getReadStore(version)
    try rows(store)
    finally store.release()
  }
}
