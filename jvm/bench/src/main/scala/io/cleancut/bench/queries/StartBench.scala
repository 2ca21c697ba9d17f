package io.cleancut.bench.queries

import java.nio.file.{Files, Path}
import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, Encoder, Encoders}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.functions.{col, count}

import io.cleancut.bench.base.{Directories, Provider}

/**
 * Times the restart of a query on a warm local disk, in a JVM that has started such queries before:
 * from `start()` until the first epoch has ended, which has `rows` rows. The subjects take turns:
 * an aggregation over `keys` keys on Cleancut without cuts and with cuts, and on RocksDB, and on
 * Spark's default provider an aggregation that has no state before, and a filter.
 *
 * Prints a line `subject<TAB>turn<TAB>nanoseconds` for each restart. Arguments: number of keys,
 * rows, turns, and, for a profile, a prefix of a subject's name.
 */
object StartBench {
  private val WarmUps = 5

  /** The names of the subjects without state, to which the others are compared. */
  final val Filter = "filter"
  final val Stateless = "aggregation without earlier state"

  implicit private val long: Encoder[Long] = Encoders.scalaLong

  def main(args: Array[String]): Unit = {
    val Array(keys, rows, turns) = args.take(3).map(_.toInt): @unchecked
    val spark = QueryBench.session().asInstanceOf[SparkSession]
    val aggregation: DataFrame => DataFrame = _.groupBy("value").agg(count("*"))
    val cuts =
      Provider.Configured.confs + ("spark.sql.streaming.stateStore.cleancut.cuts" -> "true")
    val subjects = Seq(
      new Subject(spark, Filter, Provider.Hdfs.confs, 0, _.filter(col("value") >= 0)),
      new Subject(spark, Stateless, Provider.Hdfs.confs, 0, aggregation),
      new Subject(spark, "Cleancut", Provider.Configured.confs, keys, aggregation),
      new Subject(spark, "Cleancut, cuts", cuts, keys, aggregation),
      new Subject(spark, "RocksDB", Provider.RocksForQueries.head.confs, keys, aggregation)
    ).filter(subject => args.drop(3).forall(subject.name.startsWith))
    try {
      subjects.foreach(_.fill())
      for (turn <- -WarmUps until turns; subject <- subjects) {
        val ns = subject.restart(rows)
        if (turn >= 0) println(s"${subject.name}\t$turn\t$ns")
      }
    } finally {
      subjects.foreach(_.close())
      spark.stop()
    }
    System.exit(0)
  }

  final private class Subject(
      spark: SparkSession,
      val name: String,
      confs: Map[String, String],
      keys: Int,
      build: DataFrame => DataFrame
  ) {
    private val home: Path = Files.createTempDirectory("cleancut-bench")
    private val session = spark.newSession().asInstanceOf[SparkSession]
    confs.foreach { case (key, value) => session.conf.set(key, value) }
    private val input = MemoryStream[Long](session)
    private var next = 0L

    def fill(): Unit = epoch(Math.max(keys, 1)): Unit

    /** Restarts the query, and returns the nanoseconds until its first epoch has ended. */
    def restart(rows: Int): Long = epoch(rows)

    private def epoch(rows: Int): Long = {
      input.addData(Seq.tabulate(rows)(i => (next + i * 7919L) % Math.max(keys, 1)))
      next += 1
      val began = System.nanoTime()
      val query = build(input.toDF()).writeStream
        .format("noop")
        .outputMode("update")
        .option("checkpointLocation", home.toString)
        .start()
      query.processAllAvailable()
      val ns = System.nanoTime() - began
      val progress = query.recentProgress.filter(_.numInputRows > 0).last
      val phases = progress.durationMs.asScala.toSeq.sortBy(_._1)
      System.err.println(s"$name: ${TimeUnit.NANOSECONDS.toMillis(ns)} ms, ${phases.mkString(" ")}")
      query.stop()
      // The next start loads the state as a new process does.
      StateStore.stop()
      ns
    }

    def close(): Unit = Directories.deleteBelow(home)
  }
}
