package io.cleancut.bench.stores

import java.nio.file.{Files, Path}
import java.util.SplittableRandom

import org.apache.spark.sql.execution.streaming.state._

import io.cleancut.bench.base.Directories

/**
 * Measures scans of one provider in one JVM, on a store with ordered keys: by a prefix of ten keys
 * each, as joins and sessions use it, and by range, as timers use it.
 *
 * Arguments: provider class, number of keys, rounds, `prefix` or `range`, then settings.
 */
object ScanBench {

  def main(args: Array[String]): Unit = {
    val encoder = args(3) match {
      case "prefix" => PrefixKeyScanStateEncoderSpec(Rows.KeySchema, 1)
      case "range"  => RangeKeyScanStateEncoderSpec(Rows.KeySchema, Seq(0))
    }
    val subject = Subject.parse(args(0), args.drop(4).toSeq).copy(encoder = encoder)
    val directory = Files.createTempDirectory("cleancut-bench")
    val measured = new Measured(args(2).toInt)
    val bench = new ScanBench(subject, directory, args(1).toInt, measured)
    try if (args(3) == "prefix") bench.prefixes() else bench.ranges()
    finally Directories.deleteBelow(directory)
    System.exit(0)
  }
}

final class ScanBench(subject: Subject, directory: Path, keys: Int, measured: Measured) {
  import measured.{per, repeated, time}

  private val PerPrefix = 10
  private val FirstRows = 100
  private val key = Rows.newRow()
  private val value = Rows.newRow()
  private val random = new SplittableRandom(42)
  private val groups = keys / PerPrefix
  private val scans = 10000
  private val changes = Math.min(keys, 10000)
  private var version = 0L
  private var sink = 0L

  def prefixes(): Unit = within { provider =>
    val prefixes = Array.tabulate(groups)(group => Rows.prefix(group.toLong))
    repeated {
      val store = provider.getStore(version)
      per("prefix scan, a row", scans * PerPrefix) {
        for (_ <- 0 until scans) {
          val rows = store.prefixScan(prefixes(random.nextInt(groups)))
          while (rows.hasNext) sink += rows.next().value.getLong(0)
          rows.close()
        }
      }
      per("put overwrite, ordered by prefix", changes)(overwrite(store))
      version = store.commit()
    }
  }

  def ranges(): Unit = within { provider =>
    repeated {
      val store = provider.getStore(version)
      per("range scan, a row", keys) {
        val rows = store.iterator()
        while (rows.hasNext) sink += rows.next().value.getLong(0)
        rows.close()
      }
      time(s"range scan, the first $FirstRows rows") {
        val rows = store.iterator()
        for (_ <- 0 until FirstRows) sink += rows.next().value.getLong(0)
        rows.close()
      }
      per("put overwrite, ordered by range", changes)(overwrite(store))
      version = store.commit()
    }
  }

  private def within(body: StateStoreProvider => Unit): Unit = {
    val provider = subject.open(directory)
    val store = provider.getStore(0)
    for (i <- 0 until keys) put(store, i)
    version = store.commit()
    body(provider)
    provider.close()
    measured.print()
    println(s"# $sink")
  }

  private def overwrite(store: StateStore): Unit =
    for (_ <- 0 until changes) put(store, random.nextInt(keys))

  // The keys of a prefix are inserted at different times.
  private def put(store: StateStore, i: Int): Unit = {
    val id = (i % groups).toLong
    store.put(Rows.key(key, id, i.toLong), Rows.value(value, i.toLong + measured.round))
  }
}
