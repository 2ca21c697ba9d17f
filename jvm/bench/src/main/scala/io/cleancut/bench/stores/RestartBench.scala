package io.cleancut.bench.stores

import java.nio.file.{Files, Path}
import java.util.SplittableRandom

import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreProvider}

import io.cleancut.bench.base.Directories

/**
 * Measures how long a new executor waits when it opens a store of `keys` keys that is on a warm
 * local disk: until the store is open, the first row, a thousand rows, and all rows. Measured with
 * only the last snapshot, and with nine deltas of 10,000 keys after it.
 *
 * Arguments: see [[StoreBench]].
 */
object RestartBench {
  private val Changes = 10000
  private val Deltas = 9
  private val SomeRows = 1000

  def main(args: Array[String]): Unit = {
    val subject = Subject.parse(args(0), args.drop(3).toSeq)
    val directory = Files.createTempDirectory("cleancut-bench")
    try new RestartBench(subject, directory, args(1).toInt, new Measured(args(2).toInt)).run()
    finally Directories.deleteBelow(directory)
    // Providers leave non-daemon threads running.
    System.exit(0)
  }
}

final class RestartBench(subject: Subject, place: Path, keys: Int, measured: Measured) {
  import RestartBench._
  import measured.{repeated, time}

  private val key = Rows.newRow()
  private val value = Rows.newRow()
  private val random = new SplittableRandom(42)
  private var version = 0L
  private var sink = 0L

  def run(): Unit = {
    val provider = subject.open(place)
    change(provider)(store => for (i <- 0 until keys) put(store, i.toLong))
    provider.doMaintenance()
    opened("the snapshot alone")
    for (_ <- 0 until Deltas)
      change(provider)(store =>
        for (_ <- 0 until Math.min(Changes, keys)) put(store, random.nextLong(keys.toLong))
      )
    opened("nine deltas after it")
    provider.close()
    measured.print()
    println(s"# $sink")
  }

  private def opened(name: String): Unit = repeated {
    val provider = subject.open(place)
    var store: StateStore = null
    time(s"$name: all rows") {
      time(s"$name: a thousand rows") {
        time(s"$name: the first row") {
          time(s"$name: the store is open") { store = provider.getStore(version) }
          get(store)
        }
        for (_ <- 1 until SomeRows) get(store)
      }
      val rows = store.iterator()
      while (rows.hasNext) sink += rows.next().value.getLong(0)
      rows.close()
    }
    store.abort()
    provider.close()
  }

  private def change(provider: StateStoreProvider)(body: StateStore => Unit): Unit = {
    val store = provider.getStore(version)
    body(store)
    version = store.commit()
  }

  private def get(store: StateStore): Unit =
    sink += store.get(Rows.key(key, random.nextLong(keys.toLong))).getLong(0)

  private def put(store: StateStore, k: Long): Unit =
    store.put(Rows.key(key, k), Rows.value(value, k))
}
