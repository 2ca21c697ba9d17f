package io.cleancut.bench.stores

import java.nio.file.{Files, Path}
import java.util.SplittableRandom

import org.apache.spark.sql.execution.streaming.state.StateStoreProvider

import io.cleancut.bench.base.{Directories, Figures}

/**
 * Measures one provider over hundreds of epochs that each change a tenth of its keys, with
 * maintenance after every tenth epoch: the costs of a commit, of a load by a new provider, and of
 * the files. They must depend on the live data and the change, and not on the number of epochs.
 *
 * Arguments: provider class, number of keys, epochs at which to measure (comma-separated), then
 * settings.
 */
object GrowthBench {
  private val MaintenanceEpochs = 10
  private val Loads = 5

  def main(args: Array[String]): Unit = {
    val subject = Subject.parse(args(0), args.drop(3).toSeq)
    val directory = Files.createTempDirectory("cleancut-bench")
    val marks = args(2).split(",").map(_.toInt).toSeq
    try new GrowthBench(subject, directory, args(1).toInt).run(marks)
    finally Directories.deleteBelow(directory)
    System.exit(0)
  }
}

final class GrowthBench(subject: Subject, directory: Path, keys: Int) {
  import GrowthBench._

  private val key = Rows.newRow()
  private val value = Rows.newRow()
  private val random = new SplittableRandom(42)

  def run(marks: Seq[Int]): Unit = {
    val provider = subject.open(directory)
    var version = 0L
    var commits = Seq.empty[Long]
    for (epoch <- 1 to marks.max) {
      val start = System.nanoTime()
      version = change(provider, version, if (epoch == 1) keys else keys / 10)
      commits = (commits :+ (System.nanoTime() - start)).takeRight(MaintenanceEpochs)
      if (epoch % MaintenanceEpochs == 0) provider.doMaintenance()
      if (marks.contains(epoch)) {
        println(s"batch, after $epoch epochs\t0\t${Figures.median(commits)}")
        println(s"load, after $epoch epochs\t0\t${load(version)}")
        println(s"bytes of files, after $epoch epochs\t0\t${Directories.bytesBelow(directory)}")
      }
    }
    provider.close()
  }

  private def change(provider: StateStoreProvider, version: Long, count: Int): Long = {
    val store = provider.getStore(version)
    for (_ <- 0 until count) {
      val k = random.nextLong(keys.toLong)
      store.put(Rows.key(key, k), Rows.value(value, k + version))
    }
    store.commit()
  }

  private def load(version: Long): Long = Figures.median(Seq.fill(Loads) {
    val fresh = subject.open(directory)
    val start = System.nanoTime()
    val store = fresh.getStore(version)
    val taken = System.nanoTime() - start
    store.abort()
    fresh.close()
    taken
  })
}
