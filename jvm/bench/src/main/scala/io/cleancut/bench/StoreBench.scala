package io.cleancut.bench

import java.nio.file.{Files, Path}
import java.util.SplittableRandom

import scala.collection.mutable

import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreProvider}

/**
 * Measures one provider in one JVM: operations on a store of `keys` keys, the calls around a batch,
 * and loading. Prints one line `name<TAB>round<TAB>nanoseconds` for each figure and round; the
 * caller takes medians, and compares providers that it ran in turn.
 *
 * Arguments: provider class, number of keys, rounds, then confs as `key=value` (`hadoop:` before
 * those that belong into the Hadoop configuration).
 */
object StoreBench {

  def main(args: Array[String]): Unit = {
    val confs = args.drop(3).map(_.split("=", 2)).map(p => p(0) -> p(1)).toMap
    val (hadoop, sql) = confs.partition(_._1.startsWith("hadoop:"))
    val subject = Subject(args(0), sql, hadoop.map { case (k, v) => k.stripPrefix("hadoop:") -> v })
    val directory = Files.createTempDirectory("cleancut-bench")
    try new StoreBench(subject, directory, args(1).toInt, args(2).toInt).run()
    finally deleteBelow(directory)
    // Providers leave threads behind that are not daemons.
    System.exit(0)
  }

  // A file that a background thread deletes meanwhile is as good as deleted.
  private def deleteBelow(directory: Path): Unit = {
    val files = Files.walk(directory)
    try files.sorted(java.util.Comparator.reverseOrder()).forEach(f => f.toFile.delete(): Unit)
    catch { case _: java.io.UncheckedIOException => () }
    finally files.close()
  }
}

final class StoreBench(subject: Subject, directory: Path, keys: Int, rounds: Int) {
  private val key = Rows.newRow()
  private val value = Rows.newRow()
  private val random = new SplittableRandom(42)
  private val operations = Math.min(keys, 100000)
  private val changes = Math.min(keys, 10000)
  private val records = mutable.ArrayBuffer.empty[String]
  private var round = 0
  private var version = 0L
  private var sink = 0L

  def run(): Unit = {
    val provider = subject.open(directory)
    bulkLoad(provider)
    repeated {
      operationsRound(provider)
      batchRound(provider)
    }
    writtenBytes(provider)
    repeated(emptyBatch(provider))
    repeated(aborted(provider))
    provider.doMaintenance()
    loads("load: the base alone")
    version = batch(provider)
    loads("load: the base and a delta of 10 k")
    for (_ <- 0 until 8) version = batch(provider)
    loads("load: the base and nine deltas of 10 k")
    provider.close()
    records.foreach(println)
    println(s"# $sink")
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
    per("iterate", keys) {
      val rows = store.iterator()
      while (rows.hasNext) sink += rows.next().value.getLong(0)
      rows.close()
    }
    version = store.commit()
  }

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
  }

  private def batch(provider: StateStoreProvider): Long = {
    val store = provider.getStore(version)
    for (_ <- 0 until changes) put(store, random.nextLong(keys.toLong))
    store.commit()
  }

  private def writtenBytes(provider: StateStoreProvider): Unit = {
    val before = Subject.bytesBelow(directory)
    version = batch(provider)
    val written = Subject.bytesBelow(directory) - before
    // In thousandths, since records are whole numbers.
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

  /** Opens the version as a fresh executor would, again and again. */
  private def loads(name: String): Unit = repeated {
    val provider = subject.open(directory)
    var store: StateStore = null
    time(name) { store = provider.getStore(version) }
    store.abort()
    provider.close()
  }

  private def repeated(body: => Unit): Unit = for (r <- -3 until rounds) {
    round = r
    body
  }

  private def get(store: StateStore, k: Long): Unit = {
    val row = store.get(Rows.key(key, k))
    if (row != null) sink += row.getLong(0)
  }

  private def put(store: StateStore, k: Long): Unit =
    store.put(Rows.key(key, k), Rows.value(value, k + round))

  private def time(name: String)(body: => Unit): Unit = per(name, 1)(body)

  private def per(name: String, count: Int)(body: => Unit): Unit = {
    val start = System.nanoTime()
    body
    record(name, (System.nanoTime() - start) / count)
  }

  // Rounds below 0 warm up.
  private def record(name: String, number: Long): Unit =
    if (round >= 0) records += s"$name\t$round\t$number"
}
