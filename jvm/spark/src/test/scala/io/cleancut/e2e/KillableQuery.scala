package io.cleancut.e2e

import java.nio.file.{Files, Path, StandardCopyOption, StandardOpenOption}

import scala.util.Random

import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.functions.{count, sum}
import org.apache.spark.sql.streaming.Trigger

/**
 * The main class of a driver that may be killed. Its query processes the existing files and ends.
 * System properties configure its session.
 */
object KillableQuery {

  /** The arguments in order: the checkpoint location, and directories. */
  final case class Job(location: String, input: Path, output: Path) {
    def args: Seq[String] = Seq(location, input.toString, output.toString)
  }

  /** Whether the sink skips a repeated epoch. */
  val SkipKey = "spark.cleancut.test.skips"

  /** Whether the query writes distinct keys to Spark's file sink instead of sums. */
  val FilesKey = "spark.cleancut.test.files"

  /** The epoch whose sink kills an executor before it reads the rows. */
  val ExecutorDeathKey = "spark.cleancut.test.executorDeath"

  /** The epoch whose sink kills all executors when it is done, after the last task. */
  val LateExecutorDeathKey = "spark.cleancut.test.lateExecutorDeath"

  /** The epoch whose sink kills the driver after it has written the rows. */
  val DriverDeathKey = "spark.cleancut.test.driverDeath"

  val StateRows = "rows of state: "
  val FileRows = "rows of the files: "

  private val Schema = "key long, value long"
  private val Keys = 40

  def main(args: Array[String]): Unit = {
    val job = Job(args(0), Path.of(args(1)), Path.of(args(2)))
    val spark = SparkSession.builder().getOrCreate()
    try {
      run(spark, job)
      val state = spark.read.format("statestore").load(job.location)
      println(s"$StateRows${state.selectExpr("key.key", "value.*").collect().mkString(" ")}")
      if (isTrue(spark, FilesKey)) {
        val rows = spark.read.json(filesOf(job).toString).select("key").collect()
        println(s"$FileRows${rows.map(_.getLong(0)).sorted.mkString(" ")}")
      }
    } finally spark.stop()
  }

  private def isTrue(spark: SparkSession, key: String): Boolean =
    spark.conf.getOption(key).contains("true")

  private def filesOf(job: Job): Path = job.output.resolve("files")

  /** The log entry of Spark's file sink for an epoch. */
  def fileSinkEntry(job: Job, epoch: Long): Path =
    filesOf(job).resolve(s"_spark_metadata/$epoch")

  private def run(spark: SparkSession, job: Job): Unit = {
    val rows = spark.readStream
      .schema(Schema)
      .option("maxFilesPerTrigger", 1)
      .json(job.input.toString)
    val writer =
      if (isTrue(spark, FilesKey)) {
        val keys = rows.dropDuplicates("key").writeStream.outputMode("append")
        keys.format("json").option("path", filesOf(job).toString)
      } else {
        val skips = isTrue(spark, SkipKey)
        val sums = rows.groupBy("key").agg(count("*"), sum("value")).writeStream
        sums.outputMode("update").foreachBatch(sink(job, skips)(_: DataFrame, _: Long))
      }
    writer
      .option("checkpointLocation", job.location)
      .trigger(Trigger.AvailableNow())
      .start()
      .awaitTermination()
  }

  private def sink(job: Job, skips: Boolean)(batch: DataFrame, epoch: Long): Unit = {
    val spark = batch.sparkSession
    def isDeath(key: String) = spark.conf.getOption(key).contains(epoch.toString)
    if (isDeath(ExecutorDeathKey)) killExecutors(1)
    val file = job.output.resolve(s"$epoch.txt")
    val isRepeated = skips && Files.exists(file)
    if (isRepeated) record(job, s"$epoch skipped")
    else {
      val rows = batch.collect().map(_.toSeq.mkString(" "))
      val whole = Files.writeString(job.output.resolve(s".$epoch"), rows.mkString("\n"))
      Files.move(whole, file, StandardCopyOption.REPLACE_EXISTING)
      record(job, s"$epoch")
    }
    // The effect of SIGKILL, which the process cannot send to itself.
    if (isDeath(DriverDeathKey) && !isRepeated) Runtime.getRuntime.halt(137)
    if (isDeath(LateExecutorDeathKey)) killExecutors(Int.MaxValue)
  }

  /** Kills executors; returns when they have ended. */
  private def killExecutors(max: Int): Unit = {
    val children = ProcessHandle.current.descendants.toArray.toSeq.collect {
      case child: ProcessHandle => child
    }
    val executors = children.filter {
      _.info.commandLine.orElse("").contains("CoarseGrainedExecutorBackend")
    }
    val killed = executors.take(max).filter(_.destroyForcibly())
    if (killed.isEmpty) throw new IllegalStateException("no executor was killed")
    killed.foreach(_.onExit().get())
  }

  private def record(job: Job, call: String): Unit = {
    Files.writeString(
      job.output.resolve("calls"),
      s"$call\n",
      StandardOpenOption.CREATE,
      StandardOpenOption.APPEND
    )
    ()
  }

  /** The epochs that the sink has written or skipped. */
  def calls(job: Job): Seq[String] =
    Files.readString(job.output.resolve("calls")).linesIterator.toSeq

  /** Adds an input file. */
  def write(job: Job, file: Int): Unit = {
    val random = new Random(4300L + file)
    val lines = Seq.fill(100) {
      s"""{"key":${random.nextInt(Keys)},"value":${random.nextInt(100)}}"""
    }
    Files.writeString(job.input.resolve(f"$file%05d.json"), lines.mkString("\n"))
    ()
  }

  /** The expected rows of all input files: key, count and sum. */
  def expected(job: Job, files: Int): Set[String] = {
    val row = """\{"key":(\d+),"value":(\d+)\}""".r
    val rows = (0 until files).flatMap { file =>
      row
        .findAllMatchIn(Files.readString(job.input.resolve(f"$file%05d.json")))
        .map(row => row.group(1).toLong -> row.group(2).toLong)
    }
    rows
      .groupMap(_._1)(_._2)
      .map { case (key, values) => s"$key ${values.size} ${values.sum}" }
      .toSet
  }

  /** The last row of each key in the sink. */
  def result(job: Job): Set[String] = {
    val epochs = calls(job).flatMap(_.toLongOption).distinct.sorted
    val rows = epochs.flatMap { epoch =>
      Files.readString(job.output.resolve(s"$epoch.txt")).linesIterator.filter(_.nonEmpty)
    }
    rows.map(row => row.takeWhile(_ != ' ') -> row).toMap.values.toSet
  }
}
