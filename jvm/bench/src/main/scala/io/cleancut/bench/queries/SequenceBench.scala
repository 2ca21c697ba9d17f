package io.cleancut.bench.queries

import java.nio.file.{Files, Path}
import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.spark.scheduler.{SparkListener, SparkListenerJobStart, SparkListenerTaskEnd}
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.streaming.{StreamingQueryProgress, Trigger}

import io.cleancut.CleancutSequence
import io.cleancut.bench.base.{Directories, Provider}

/**
 * `in_sequence` compared with `dropDuplicates` of the same rows, which only stores their numbers.
 * The input is one set of files per epoch, in which some events are late, some are duplicates, and
 * none is missing. Prints a line `subject<TAB>turn<TAB>nanoseconds<TAB>nanoseconds` for each run
 * over all files: the time of its epochs and the CPU time of their tasks, without the first epoch,
 * which starts the query.
 *
 * Arguments: events, epochs, keys, turns, and, for a profile, a prefix of a subject's name.
 */
object SequenceBench {
  private val Partitions = 4

  /** Late events per thousand, and their largest delay. */
  private val LatePart = 50
  private val LateBy = 10000
  private val TwicePart = 10

  def main(args: Array[String]): Unit = {
    val Array(events, epochs, keys, turns) = args.take(4).map(_.toInt): @unchecked
    val spark = QueryBench.session(Partitions)
    val home = Files.createTempDirectory("cleancut-bench")
    try {
      val input = home.resolve("events")
      val sent = write(spark, input, events, epochs, keys)
      System.err.println(s"$sent rows of $events events")
      spark.sparkContext.addSparkListener(processors)
      val subjects = for {
        (provider, settings) <- Seq("Cleancut" -> Provider.Configured) ++
          Provider.RocksForQueries.map(rocks => rocks.name -> rocks)
        (what, query) <- Seq[(String, DataFrame => DataFrame)](
          "in_sequence" -> inSequence,
          "dropDuplicates" -> (_.dropDuplicates("key", "number"))
        )
        name = s"$what, $provider"
        if args.drop(4).forall(name.startsWith)
      } yield new Run(spark, name, settings, query, input, home)
      for (turn <- -1 until turns; subject <- subjects) {
        val (ns, cpuNs) = subject.time(events)
        if (turn >= 0) println(s"${subject.name}\t$turn\t$ns\t$cpuNs")
      }
    } finally {
      spark.stop()
      Directories.deleteBelow(home)
    }
    System.exit(0)
  }

  private def inSequence(rows: DataFrame): DataFrame = CleancutSequence.inSequence(
    rows,
    """{"key": ["key"], "sequence": "number", "first": 0, "onGap": "wait", "maxHeld": 100000,
      | "metrics": "in_sequence"}""".stripMargin
  )

  /** Writes the input, and returns the number of rows. */
  private def write(
      spark: SparkSession,
      input: Path,
      events: Int,
      epochs: Int,
      keys: Int
  ): Int = {
    val random = new Random(30)
    val places = (0 until events).flatMap { event =>
      def place = event + (if (random.nextInt(1000) < LatePart) random.nextInt(LateBy) else 0)
      Seq.fill(if (random.nextInt(1000) < TwicePart) 2 else 1)(place -> event)
    }
    val sent = places.sortBy(_._1).map(_._2).toArray
    import spark.implicits._
    sent.grouped((sent.length + epochs - 1) / epochs).zipWithIndex.foreach { case (some, file) =>
      some.toSeq
        .toDF("event")
        .selectExpr(
          s"cast(event % $keys as long) as key",
          s"cast(event div $keys as long) as number",
          "timestamp_millis(1700000000000 + event) as at",
          "concat('payload of ', event) as payload"
        )
        .coalesce(2)
        .write
        .parquet(input.resolve(f"all/epoch=$file%04d").toString)
    }
    sent.length
  }

  private val EpochKey = "streaming.sql.batchId"
  // Time until Spark has notified its listeners of all tasks.
  private val NotificationMs = 1000L

  /** CPU time in nanoseconds by epoch. */
  private object processors extends SparkListener {
    private val epochs = mutable.Map.empty[Int, Long]
    private val cpuNs = mutable.Map.empty[Long, Long]

    def clear(): Unit = synchronized(cpuNs.clear())

    def without(epoch: Long): Long = synchronized(cpuNs.collect {
      case (other, ns) if other != epoch => ns
    }.sum)

    override def onJobStart(job: SparkListenerJobStart): Unit = synchronized {
      val epoch =
        Option(job.properties).flatMap(properties => Option(properties.getProperty(EpochKey)))
      for (number <- epoch; stage <- job.stageIds) epochs(stage) = number.toLong
    }

    override def onTaskEnd(task: SparkListenerTaskEnd): Unit = synchronized {
      for (epoch <- epochs.get(task.stageId); metrics <- Option(task.taskMetrics))
        cpuNs(epoch) = cpuNs.getOrElse(epoch, 0L) + metrics.executorCpuTime
    }
  }

  final private class Run(
      spark: SparkSession,
      val name: String,
      provider: Provider,
      query: DataFrame => DataFrame,
      input: Path,
      home: Path
  ) {
    private var runs = 0

    def time(events: Int): (Long, Long) = {
      processors.clear()
      val session = spark.newSession()
      provider.confs.foreach { case (key, value) => session.conf.set(key, value) }
      val rows = session.readStream
        .schema("key long, number long, at timestamp, payload string")
        // Each epoch has two files.
        .option("maxFilesPerTrigger", 2)
        .parquet(s"$input/all/*")
      runs += 1
      val running = query(rows).writeStream
        .format("noop")
        .option("checkpointLocation", home.resolve(s"$name-$runs").toString)
        .trigger(Trigger.AvailableNow())
        .start()
      running.awaitTermination()
      val progresses = running.recentProgress.filter(_.numInputRows > 0).sortBy(_.batchId).toSeq
      StateStore.stop()
      val emitted = progresses.map(_.sink.numOutputRows).sum
      require(emitted == events, s"$name: $emitted rows of $events events")
      val counted = progresses.tail
      System.err.println(describe(counted))
      Thread.sleep(NotificationMs)
      def ofAll(total: Long): Long = total * events / counted.map(_.numInputRows).sum
      val ms = counted.map(_.durationMs.get("triggerExecution").longValue).sum
      val cpuNs = processors.without(progresses.head.batchId)
      (ofAll(TimeUnit.MILLISECONDS.toNanos(ms)), ofAll(cpuNs))
    }

    private def describe(epochs: Seq[StreamingQueryProgress]): String = {
      val phases = epochs.flatMap(_.durationMs.asScala.toSeq).groupMap(_._1)(_._2.longValue)
      val means = phases.toSeq.sortBy(_._1).map { case (p, ms) => s"$p ${ms.sum / ms.size}" }
      val last = epochs.last
      val rows = epochs.map(_.sink.numOutputRows).sum
      s"$name: ${means.mkString(", ")}; $rows rows; ${last.observedMetrics}; " +
        last.stateOperators.head.json
    }
  }
}
