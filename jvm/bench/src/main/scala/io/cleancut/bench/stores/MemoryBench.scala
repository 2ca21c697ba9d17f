package io.cleancut.bench.stores

import java.nio.file.{Files, Path}
import java.util.SplittableRandom

import scala.io.Source
import scala.util.Using

import org.apache.spark.sql.execution.streaming.state.StateStoreProvider

import io.cleancut.bench.base.Directories

/**
 * Measures one provider whose state is a multiple of its memory limit, over the epochs of an hour
 * at ten seconds each: random gets and puts, maintenance after every sixth epoch, and the resident
 * memory of the process (Linux only). Prints the mean time of an epoch and the memory after each
 * tenth of the epochs, once the store has been filled.
 *
 * Arguments: provider class, number of keys, epochs, then settings.
 */
object MemoryBench {
  private val MaintenanceEpochs = 6
  private val Changes = 5000
  private val Marks = 10

  def main(args: Array[String]): Unit = {
    val subject = Subject.parse(args(0), args.drop(3).toSeq)
    val directory = Files.createTempDirectory("cleancut-bench")
    try new MemoryBench(subject, directory, args(1).toInt).run(args(2).toInt)
    finally Directories.deleteBelow(directory)
    System.exit(0)
  }

  /** Resident bytes of this process: anonymous memory, and mapped files. */
  private def resident(): (Long, Long) = Using.resource(Source.fromFile("/proc/self/status")) {
    source =>
      val kilobytes = source.getLines().map(_.split("\\s+")).collect {
        case Array(name @ ("RssAnon:" | "RssFile:"), number, _) => name -> number.toLong * 1024
      }
      val sizes = kilobytes.toMap
      (sizes("RssAnon:"), sizes("RssFile:"))
  }
}

final class MemoryBench(subject: Subject, directory: Path, keys: Int) {
  import MemoryBench._

  private val FillBatch = 200000
  private val key = Rows.newRow()
  private val value = Rows.newRow()
  private val random = new SplittableRandom(42)
  private var version = 0L
  private var sink = 0L

  def run(epochs: Int): Unit = {
    val provider = subject.open(directory)
    for (from <- 0 until keys by FillBatch) fill(provider, from)
    provider.doMaintenance()
    val every = epochs / Marks
    var start = System.nanoTime()
    for (epoch <- 1 to epochs) {
      change(provider)
      if (epoch % MaintenanceEpochs == 0) provider.doMaintenance()
      if (epoch % every == 0) {
        mark(epoch, (System.nanoTime() - start) / every)
        start = System.nanoTime()
      }
    }
    provider.close()
    println(s"# $sink")
  }

  private def mark(epoch: Int, meanNs: Long): Unit = {
    // Garbage that is not collected yet would hide the memory of the store.
    System.gc()
    val (anonymous, mapped) = resident()
    println(s"time of an epoch, up to epoch $epoch\t0\t$meanNs")
    println(s"bytes resident, anonymous, epoch $epoch\t0\t$anonymous")
    println(s"bytes resident, mapped files, epoch $epoch\t0\t$mapped")
  }

  private def fill(provider: StateStoreProvider, from: Int): Unit = {
    val store = provider.getStore(version)
    for (i <- from until Math.min(from + FillBatch, keys))
      store.put(Rows.key(key, i.toLong), Rows.value(value, i.toLong)): Unit
    version = store.commit()
  }

  private def change(provider: StateStoreProvider): Unit = {
    val store = provider.getStore(version)
    for (_ <- 0 until Changes) {
      val k = random.nextLong(keys.toLong)
      val row = store.get(Rows.key(key, k))
      if (row != null) sink += row.getLong(0)
      store.put(Rows.key(key, k), Rows.value(value, k + version))
    }
    version = store.commit()
  }
}
