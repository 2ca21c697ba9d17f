package io.cleancut.bench.stores

import java.nio.file.{Files, Path}
import java.util.SplittableRandom

import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreProvider}

import io.cleancut.bench.base.Directories

/**
 * Measures one provider in one JVM: operations on a store of `keys` keys, the calls around a batch,
 * and loading. Prints the figures of [[Measured]]; the caller computes medians, and compares
 * providers that it ran in turn.
 *
 * Arguments: provider class, number of keys, rounds, then settings as `key=value` (with the prefix
 * `hadoop:` for the Hadoop configuration).
 */
object StoreBench {

  def main(args: Array[String]): Unit = {
    val subject = Subject.parse(args(0), args.drop(3).toSeq)
    val directory = Files.createTempDirectory("cleancut-bench")
    try new StoreBench(subject, directory, args(1).toInt, new Measured(args(2).toInt)).run()
    finally Directories.deleteBelow(directory)
    // Providers leave non-daemon threads running.
    System.exit(0)
  }
}

final class StoreBench(subject: Subject, directory: Path, keys: Int, measured: Measured) {
  import measured.{per, record, repeated, time}

  private val key = Rows.newRow()
  private val value = Rows.newRow()
  private val random = new SplittableRandom(42)
  private val operations = 100000
  private val changes = Math.min(keys, 10000)
  private var version = 0L
  private var sink = 0L

  def run(): Unit = {
    val provider = subject.open(directory.resolve("operations"))
    bulkLoad(provider)
    repeated {
      operationsRound(provider)
      // The background thread does the same: without maintenance the history would grow with the
      // rounds.
      provider.doMaintenance()
    }
    provider.close()
    replacing()
    shortHistory()
    measured.print()
    println(s"# $sink")
  }

  /**
   * Epochs that change each key more than once, on a separate store. Replaced values must be
   * disposed of; the next epoch shows whether it pays for that.
   */
  private def replacing(): Unit = {
    val provider = subject.open(directory.resolve("replacing"))
    version = 0L
    bulkLoad(provider)
    val changed = Math.min(keys, operations)
    repeated {
      val store = provider.getStore(version)
      per("each key three times: a put", 3 * changed) {
        for (_ <- 0 until 3; k <- 0 until changed) put(store, k.toLong)
      }
      time("each key three times: commit") { version = store.commit() }
      val next = provider.getStore(version)
      put(next, 0L)
      time("each key three times: the commit after") { version = next.commit() }
      provider.doMaintenance()
    }
    provider.close()
  }

  /**
   * Figures that depend on the number of epochs after the last snapshot, on a separate store:
   * RocksDB replays its changelog since then, including the operations above.
   */
  private def shortHistory(): Unit = {
    val place = directory.resolve("loads")
    val provider = subject.open(place)
    version = 0L
    bulkLoad(provider)
    provider.doMaintenance()
    load("load: the base alone", place)
    writtenBytes(provider, place)
    load("load: the base and a delta of 10 k", place)
    repeated(aborted(provider))
    for (_ <- 0 until 8) version = batch(provider)
    load("load: the base and nine deltas of 10 k", place)
    repeated(batchRound(provider))
    repeated(iterated(provider))
    repeated(emptyBatch(provider))
    provider.close()
  }

  private def bulkLoad(provider: StateStoreProvider): Unit = {
    val store = provider.getStore(0)
    per("bulk load: put", keys) {
      for (i <- 0 until keys) store.put(Rows.key(key, i), Rows.value(value, i))
    }
    time("bulk load: commit") { version = store.commit() }
    sink += store.metrics.numKeys
  }

  private def operationsRound(provider: StateStoreProvider): Unit = {
    val store = provider.getStore(version)
    val existing = Array.fill(operations)(random.nextLong(keys.toLong))
    val fresh = Array.tabulate(operations)(i => keys.toLong * 2 + i)
    per("get existing", operations)(existing.foreach(k => get(store, k)))
    per("get missing", operations)(existing.foreach(k => get(store, -k - 1)))
    per("put overwrite", operations)(existing.foreach(put(store, _)))
    per("put new", operations)(fresh.foreach(put(store, _)))
    per("remove existing", operations)(fresh.foreach(k => store.remove(Rows.key(key, k))))
    version = store.commit()
  }

  /** Epochs of one size, as in a query. */
  private def batchRound(provider: StateStoreProvider): Unit = {
    var store: StateStore = null
    time("batch: total") {
      time("batch: getStore") { store = provider.getStore(version) }
      time("batch: 10 k get and put") {
        for (_ <- 0 until changes) {
          val k = random.nextLong(keys.toLong)
          get(store, k)
          put(store, k)
        }
      }
      time("batch: commit of 10 k") { version = store.commit() }
    }
    time("batch: metrics")(sink += store.metrics.numKeys)
    provider.doMaintenance()
  }

  private def iterated(provider: StateStoreProvider): Unit = {
    val store = provider.getStore(version)
    val walks = Math.max(1, operations / keys)
    per("iterate, a row", keys * walks)((0 until walks).foreach(_ => iterate(store)))
    store.abort()
  }

  private def batch(provider: StateStoreProvider): Long = {
    val store = provider.getStore(version)
    for (_ <- 0 until changes) put(store, random.nextLong(keys.toLong))
    store.commit()
  }

  private def writtenBytes(provider: StateStoreProvider, place: Path): Unit = {
    val before = Directories.bytesBelow(place)
    version = batch(provider)
    val written = Directories.bytesBelow(place) - before
    // In thousandths, because records are integers.
    record("bytes written per changed byte, 1/1000", written * 1000 / (changes * Rows.PairBytes))
  }

  private def emptyBatch(provider: StateStoreProvider): Unit = time("empty batch") {
    val store = provider.getStore(version)
    version = store.commit()
  }

  private def aborted(provider: StateStoreProvider): Unit = {
    val doomed = provider.getStore(version)
    for (i <- 0 until changes) put(doomed, i.toLong)
    doomed.abort()
    var next: StateStore = null
    time("getStore after an abort") { next = provider.getStore(version) }
    next.abort()
  }

  /** Opens the version repeatedly, as a new executor would. */
  private def load(name: String, place: Path): Unit = repeated {
    val provider = subject.open(place)
    var store: StateStore = null
    time(name) { store = provider.getStore(version) }
    store.abort()
    provider.close()
  }

  private def get(store: StateStore, k: Long): Unit = {
    val row = store.get(Rows.key(key, k))
    if (row != null) sink += row.getLong(0)
  }

  private def put(store: StateStore, k: Long): Unit =
    store.put(Rows.key(key, k), Rows.value(value, k + measured.round))

  private def iterate(store: StateStore): Unit = {
    val rows = store.iterator()
    while (rows.hasNext) sink += rows.next().value.getLong(0)
    rows.close()
  }
}
