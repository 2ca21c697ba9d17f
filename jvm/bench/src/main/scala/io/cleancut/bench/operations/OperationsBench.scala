package io.cleancut.bench.operations

import java.nio.file.{Files, Path}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.{
  OfflineOperation,
  OfflinePlan
}
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.OfflineSource
import org.apache.spark.sql.streaming.Trigger

import io.cleancut.bench.base.{Directories, Provider}
import io.cleancut.bench.queries.QueryBench

/**
 * Times offline operations that reference the state of a stopped query with many stores: a
 * stream-stream join, which has four stores in each partition, first with few partitions. Each
 * operation starts from the result of the previous one, so all but the first reference bases that
 * contain references themselves. Prints one line `operation<TAB>turn<TAB>nanoseconds` for each.
 *
 * Arguments: partitions, turns.
 */
object OperationsBench {
  final val StoresOfPartition = 4
  private val First = 4
  private val Rows = 1000L

  val Spread = "rescale, from 16"
  val Halved = "rescale, to half of them"
  val Doubled = "rescale, to twice as many"
  val Back = "rollback"
  val Undone = "undo"
  def Operations: Seq[String] = Seq(Spread, Halved, Doubled, Back, Undone)

  def main(args: Array[String]): Unit = {
    val Array(partitions, turns) = args.map(_.toInt): @unchecked
    val spark = QueryBench.session(First)
    val directory = Files.createTempDirectory("cleancut-bench")
    try {
      val bench = new OperationsBench(spark, directory, partitions)
      // In the first turn the JVM has not compiled the code yet.
      for (turn <- -1 until turns) bench.run(turn).foreach { case (operation, ns) =>
        if (turn >= 0) println(s"$operation\t$turn\t$ns")
      }
    } finally {
      spark.stop()
      Directories.deleteBelow(directory)
    }
    System.exit(0)
  }
}

final class OperationsBench(spark: SparkSession, place: Path, partitions: Int) {
  import OperationsBench._

  private val session = {
    val newSession = spark.newSession()
    Provider.Configured.confs.foreach { case (key, value) => newSession.conf.set(key, value) }
    newSession.conf.set("spark.sql.streaming.stateStore.cleancut.cuts", "true")
    // The state format with a separate store for each map.
    newSession.conf.set("spark.sql.streaming.join.stateFormatVersion", "2")
    newSession.asInstanceOf[ClassicSession]
  }

  def run(turn: Int): Seq[(String, Long)] = {
    val at = place.resolve(s"turn-${turn + 1}")
    val input = at.resolve("input").toString
    session.range(Rows).selectExpr("id AS key").write.parquet(input)
    val location = at.resolve("checkpoint").toString
    query(input, location)
    def rescale(to: Int) = OfflineOperation.rescale(to).run(session, location)
    def rollback(to: OfflineSource) = OfflineOperation.rollback(to).run(session, location)
    // Epoch of the first operation, the target of the rollback.
    var spread = 0L
    val operations = Seq[(String, () => OfflinePlan)](
      Spread -> (() => rescale(partitions)),
      Halved -> (() => rescale(partitions / 2)),
      Doubled -> (() => rescale(partitions)),
      Back -> (() => rollback(OfflineSource.Epoch(spread))),
      Undone -> (() => rollback(OfflineSource.BeforeRollback))
    )
    val durations = operations.map { case (name, run) =>
      val start = System.nanoTime()
      val done = run()
      val ns = System.nanoTime() - start
      if (name == Spread) spread = done.epoch
      require(!done.copiesRows, s"$name: $done")
      name -> ns
    }
    Directories.deleteBelow(at)
    durations
  }

  private def query(input: String, location: String): Unit = {
    def side(name: String) = session.readStream.schema("key LONG").parquet(input).as(name)
    side("a")
      .join(side("b"), "key")
      .writeStream
      .format("noop")
      .option("checkpointLocation", location)
      .trigger(Trigger.AvailableNow())
      .start()
      .awaitTermination()
  }
}
