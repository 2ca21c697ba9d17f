package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.nio.file.Files
import java.util.concurrent.{Callable, Executors, TimeUnit}

import Providers._
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SparkException
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.session.TestedSpark

import io.cleancut.engine.memory.MemoryAccount
import io.cleancut.error.CleancutException
import io.cleancut.testkit.{Draws, Patience}

/** The contract on which Spark's callers rely, without a session. */
class ProviderContractSuite extends AnyFunSuite {

  test("a new provider reads a committed version and the versions before it") {
    val setup = Providers.setup()
    val provider = setup.open()
    assert(commit(provider, 0, 1L -> 10L, 2L -> 20L) == 1)
    assert(commit(provider, 1, 2L -> 21L, 3L -> 30L) == 2)
    provider.close()
    assert(rowsAt(setup, 0).isEmpty)
    assert(rowsAt(setup, 1) == Map(1L -> 10L, 2L -> 20L))
    assert(rowsAt(setup, 2) == Map(1L -> 10L, 2L -> 21L, 3L -> 30L))
  }

  test("metrics have the duration and bytes of each phase of a load") {
    val setup = Providers.setup()
    val provider = setup.open()
    commit(provider, 0, (0L until 3000L).map(id => id -> id): _*)
    commit(provider, 1, 7L -> 70L)
    provider.close()
    val fresh = setup.open()
    def committed(version: Long) = {
      val store = fresh.getStore(version)
      store.put(key(1), value(1))
      store.commit()
      store.metrics.customMetrics.map { case (metric, value) => metric.name -> value }
    }
    val loaded = committed(2)
    val phases = Seq("Find", "Download", "Decode", "Index").map(p => loaded(s"cleancut${p}Ms"))
    assert(phases.forall(_ >= 0) && loaded("cleancutLoads") == 1)
    assert((0L to phases.size.toLong).contains(loaded("cleancutLoadMs") - phases.sum))
    assert(loaded("cleancutLoadMs") > 0)
    // Rows have two columns of eight bytes and null bits, and keys are slightly longer.
    assert(loaded("cleancutDecodedBytes") > 3000 * 48)
    assert(loaded("cleancutIndexedBytes") > 3000 * 48)
    assert(loaded("cleancutLoadedBytes") == setup.frames.take(2).map(Files.size(_)).sum)
    assert(loaded("cleancutFindBytes") == 0, "there are no cuts")
    val later = committed(3)
    assert(Seq("Loads", "LoadMs", "DecodedBytes").map(m => later(s"cleancut$m")) == Seq(0, 0, 0))
    fresh.close()
  }

  test("an aborted store does not change the version") {
    val setup = Providers.setup()
    val provider = setup.open()
    commit(provider, 0, 1L -> 10L)
    val store = provider.getStore(1)
    store.put(key(1), value(99))
    store.put(key(5), value(50))
    store.abort()
    store.abort()
    assert(!store.hasCommitted)
    assert(rows(provider.getStore(1)) == Map(1L -> 10L))
    provider.close()
  }

  test("a repeated attempt starts from the same version, and the later one counts") {
    val setup = Providers.setup()
    val provider = setup.open()
    commit(provider, 0, 1L -> 10L)
    commit(provider, 1, 2L -> 20L)
    commit(provider, 1, 3L -> 30L)
    assert(setup.frames.size == 3)
    commit(provider, 2, 4L -> 40L)
    provider.close()
    assert(rowsAt(setup, 3) == Map(1L -> 10L, 3L -> 30L, 4L -> 40L))
  }

  test("a missing version is an error, and so is one below 0") {
    val provider = Providers.setup().open()
    val missing = intercept[Throwable](provider.getStore(7))
    assert(cleancutError(missing) == "CLEANCUT_CHECKPOINT_NOT_FOUND")
    commit(provider, 0, 1L -> 10L)
    assert(cleancutError(intercept[Throwable](provider.getStore(7))) == "CLEANCUT_FRAME_MISSING")
    val negative = intercept[SparkException](provider.getStore(-1))
    assert(negative.getMessage.contains("-1"))
    assert(rows(provider.getStore(1)) == Map(1L -> 10L))
    provider.close()
  }

  test("a read store returns its version while a write store changes it") {
    val provider = Providers.setup().open()
    commit(provider, 0, 1L -> 10L, 2L -> 20L)
    val read = provider.getReadStore(1)
    val write = VersionedStores.upgrade(provider, read, 1)
    write.put(key(1), value(11))
    write.remove(key(2))
    write.put(key(3), value(30))
    assert(read.get(key(1)).getLong(0) == 10L)
    assert(rows(read) == Map(1L -> 10L, 2L -> 20L))
    assert(read.get(key(3)) == null)
    assert(rows(write) == Map(1L -> 11L, 3L -> 30L))
    write.commit()
    read.release()
    assert(rows(provider.getStore(2)) == Map(1L -> 11L, 3L -> 30L))
    provider.close()
  }

  test("a returned row does not change with its key") {
    val store = Providers.setup().open().getStore(0)
    store.put(key(1), value(10))
    val row = store.get(key(1)).asInstanceOf[UnsafeRow]
    store.put(key(1), value(11))
    store.remove(key(1))
    assert(row.getLong(0) == 10L && row.getDouble(1) == 5.0)
    store.abort()
  }

  test("a returned row does not change when other rows are read") {
    val provider = Providers.setup().open()
    commit(provider, 0, 1L -> 10L, 2L -> 20L)
    val store = provider.getStore(1)
    val held = Seq(1L, 2L).map(k => store.get(key(k)))
    assert(held.map(_.getLong(0)) == Seq(10L, 20L))
    val several = store.multiGet(Array(key(1), key(2)), StateStore.DEFAULT_COL_FAMILY_NAME)
    assert(several.toSeq.map(_.getLong(0)) == Seq(10L, 20L))
    store.abort()
    provider.close()
  }

  test("an iterator continues after the removal of its current row") {
    val provider = Providers.setup().open()
    commit(provider, 0, (1L to 500L).map(i => i -> i): _*)
    val store = provider.getStore(1)
    var seen = 0
    store.iterator().foreach { pair =>
      seen += 1
      store.remove(pair.key)
    }
    assert(seen == 500)
    assert(rows(store).isEmpty)
    store.commit()
    assert(store.metrics.numKeys == 0)
    provider.close()
  }

  test("a prefix scan returns the rows of the prefix and no others") {
    val setup = Providers.setup().copy(encoder = ByPrefix)
    val provider = setup.open()
    val store = provider.getStore(0)
    for (id <- 1L to 50L; n <- 0L until id % 7) store.put(key(id, s"s$n"), value(n))
    store.remove(key(6, "s3"))
    store.commit()
    provider.close()
    val loaded = setup.open().getStore(1)
    for (id <- 0L to 51L) {
      val names = loaded.prefixScan(prefix(id)).map(_.key.getString(1)).toSet
      val written = if (id >= 1 && id <= 50) (0L until id % 7).map(n => s"s$n") else Nil
      assert(names == written.filterNot(id == 6 && _ == "s3").toSet)
    }
    loaded.abort()
  }

  test(
    "the metrics of an open store have its rows, and no counts that are reported after the commit"
  ) {
    val store = Providers.setup().open().getStore(0)
    store.put(key(1), value(1))
    val open = store.metrics
    assert(open.numKeys == 1 && open.memoryUsedBytes > 0)
    store.commit()
    def counted(metrics: StateStoreMetrics) =
      metrics.customMetrics.keySet.exists(_.name == "cleancutCommitBytes")
    assert(!counted(open) && counted(store.metrics))
  }

  test("the change feed reports each key that a range deletion removed") {
    val provider =
      Providers.setup().copy(encoder = RangeKeyScanStateEncoderSpec(KeySchema, Seq(0))).open()
    commit(provider, 0, 1L -> 10L, 2L -> 20L, 3L -> 30L)
    val store = provider.getStore(1)
    store.deleteRange(key(1), key(3), StateStore.DEFAULT_COL_FAMILY_NAME)
    store.commit()
    val reader = provider match {
      case replay: SupportsFineGrainedReplay => replay.getStateStoreChangeDataReader(2, 2)
      case other                             => fail(s"$other has no change feed")
    }
    val changes = reader.map { case (kind, key, value, epoch) =>
      (kind, key.getLong(0), Option(value), epoch)
    }.toSet
    val deleted = Set(1L, 2L).map(id => (RecordType.DELETE_RECORD, id, None, 1L))
    assert(changes == deleted)
    provider.close()
  }

  test("operations out of order are refused") {
    val provider = Providers.setup().open()
    val store = provider.getStore(0)
    intercept[IllegalStateException](store.get(null))
    intercept[IllegalArgumentException](store.put(key(1), null))
    store.put(key(1), value(1))
    store.commit()
    for (
      operation <- Seq[() => Any](
        () => store.put(key(2), value(2)),
        () => store.get(key(1)),
        () => store.remove(key(1)),
        () => store.commit(),
        () => store.abort(),
        () => store.iterator()
      )
    ) intercept[StateStoreOperationOutOfOrder](operation())
    assert(store.hasCommitted)
    assert(rows(provider.getStore(1)) == Map(1L -> 1L))
    provider.close()
  }

  test("a forced snapshot writes a base and a delta, and an empty start only a base") {
    val setup = Providers.setup()
    val provider = setup.open()
    commit(provider, 0, 1L -> 10L)
    val forced = VersionedStores.open(provider, 1, withBase = true)
    forced.put(key(2), value(20))
    forced.commit()
    assert(setup.frames.map(_.toString.takeRight(5)) == Seq("delta", ".base", "delta"))
    val fresh = VersionedStores.open(provider, 2, isEmpty = true)
    fresh.put(key(9), value(90))
    assert(fresh.commit() == 3)
    provider.close()
    assert(setup.frames.last.toString.endsWith(".base"))
    assert(rowsAt(setup, 3) == Map(9L -> 90L))
    assert(rowsAt(setup, 2) == Map(1L -> 10L, 2L -> 20L))
  }

  test("maintenance writes bases and deletes files that no retained version requires") {
    val setup = Providers
      .setup()
      .copy(confs =
        Map(
          "spark.sql.streaming.minBatchesToRetain" -> "4",
          "spark.sql.streaming.stateStore.minDeltasForSnapshot" -> "3"
        )
      )
    val provider = setup.open()
    for (v <- 0L until 30L) {
      commit(provider, v, (v % 5) -> v, (100 + v) -> v)
      TestedSpark.maintain(provider)
    }
    provider.close()
    assert(setup.frames.exists(_.toString.endsWith(".base")))
    assert(setup.frames.size < 25)
    for (v <- 26L to 30L) assert(rowsAt(setup, v).size == 5 + v)
  }

  test("a second user waits for the first, and the error after the limit names it") {
    val acquire = "spark.sql.streaming.stateStore.cleancut.lockAcquireTimeout"
    val provider = Providers.setup().copy(confs = Map(acquire -> "300ms")).open()
    commit(provider, 0, 1L -> 10L)
    val held = provider.getStore(1)
    val other = Executors.newSingleThreadExecutor()
    try {
      val attempt: Callable[Throwable] = () => intercept[Throwable](provider.getStore(1))
      val refused = other.submit(attempt).get(Patience.Seconds, TimeUnit.SECONDS)
      assert(cleancutError(refused) == "CLEANCUT_STORE_BUSY")
      val message = causes(refused).map(_.getMessage).mkString
      assert(message.contains(Thread.currentThread.getName))
      held.abort()
      val next: Callable[Map[Long, Long]] = () => {
        val store = provider.getStore(1)
        try rows(store)
        finally store.abort()
      }
      assert(other.submit(next).get(Patience.Seconds, TimeUnit.SECONDS) == Map(1L -> 10L))
    } finally other.shutdown()
    provider.close()
  }

  test("a handle works after its provider is closed, and then releases its memory") {
    val before = MemoryAccount.process.usedBytes
    val setup = Providers.setup()
    val provider = setup.open()
    commit(provider, 0, 1L -> 10L)
    val store = provider.getStore(1)
    provider.close()
    store.put(key(2), value(20))
    assert(rows(store) == Map(1L -> 10L, 2L -> 20L))
    store.commit()
    assert(MemoryAccount.process.usedBytes == before)
    assert(rowsAt(setup, 2) == Map(1L -> 10L, 2L -> 20L))
    assert(MemoryAccount.process.usedBytes == before)
  }

  test("repeatedly opening, writing and closing a store leaks no memory") {
    val setup = Providers.setup()
    val first = setup.open()
    commit(first, 0, (1L to 300L).map(i => i -> i): _*)
    first.close()
    val before = MemoryAccount.process.usedBytes
    for (i <- 0 until Draws.of(1000)) {
      val provider = setup.open()
      val store = provider.getStore(1)
      store.put(key(i.toLong), value(1))
      if (i % 100 == 0) store.commit() else store.abort()
      provider.close()
    }
    assert(MemoryAccount.process.usedBytes == before)
  }

  test("the log of a constantly overwritten store stays within a few times its rows") {
    val provider = Providers.setup().open()
    var peak = 0L
    for (v <- 0L until 120L) {
      commit(provider, v, (0L until 2000L).map(i => i -> (i + v)): _*)
      val store = provider.getStore(v + 1)
      store.abort()
      peak = Math.max(peak, store.metrics.memoryUsedBytes)
    }
    val store = provider.getStore(120)
    assert(rows(store) == (0L until 2000L).map(i => i -> (i + 119)).toMap)
    // 2,000 rows of 80 bytes; without compaction 120 epochs would take 19 MB.
    assert(peak < (6L << 20), s"peak was $peak bytes")
    provider.close()
  }

  private def causes(thrown: Throwable): Seq[Throwable] =
    Iterator.iterate(thrown)(_.getCause).takeWhile(_ != null).toSeq

  private def cleancutError(thrown: Throwable): String =
    causes(thrown).collectFirst { case e: CleancutException => e.getErrorId }.getOrElse("none")
}
