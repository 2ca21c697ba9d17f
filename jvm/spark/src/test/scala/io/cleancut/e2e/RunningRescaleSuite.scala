package io.cleancut.e2e

import java.nio.file.{Files, Path}
import java.util.concurrent.TimeUnit

import scala.util.{Failure, Try}

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.state.cleancut.operations.OfflineOperation
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.running.RunningRescale
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.{DataFrame, SparkSession, classic}

import io.cleancut.base.Clock
import io.cleancut.conf.Keys
import io.cleancut.error.CleancutException
import io.cleancut.testkit.{LoadedStores, LongTest, SmallQueries, StepFileSystem, TestDirectory}
import io.cleancut.{CleancutCheckpointFileManager, CleancutStateStoreProvider}

/**
 * A count by key that is rescaled while it runs. At each call of the file system of the operation,
 * and of the epoch after it, the driver is killed, or only this call fails. Afterwards every count
 * must be correct, in the same run or in the next one, which may require that the operation is
 * repeated.
 */
class RunningRescaleSuite extends AnyFunSuite with BeforeAndAfterAll {
  import RunningRescaleSuite._

  private lazy val spark: SparkSession = SmallQueries.session("local[2]")(
    _.config(s"spark.hadoop.fs.${StepFileSystem.Scheme}.impl", classOf[StepFileSystem].getName)
      .config("spark.sql.extensions", classOf[io.cleancut.CleancutExtensions].getName)
      .config("spark.sql.streaming.stateStore.maintenanceInterval", "1h")
      .config("spark.sql.streaming.stateStore.providerClass", Provider)
      .config("spark.sql.streaming.checkpointFileManagerClass", Manager)
      .config(Keys.Cuts.name, "true")
  )

  // The rescales that failed with CLEANCUT_RESCALE_INTERRUPTED.
  private var interruptions = 0

  override protected def afterAll(): Unit = {
    LoadedStores.stop()
    spark.stop()
    super.afterAll()
  }

  test("a driver that is killed at some steps leaves the old or the new partitions") {
    assert(outcomesAt(every = 5, _ >= _).keySet.subsetOf(Outcomes))
  }

  test("a driver that is killed at each step leaves the old or the new partitions", LongTest) {
    // Before the operation's entry, between the entry and the cut, and after the cut.
    assert(outcomesAt(every = 1, _ >= _).keySet == Outcomes)
  }

  test("a call that fails once does not change the counts", LongTest) {
    interruptions = 0
    assert(outcomesAt(every = 1, _ == _).keySet.subsetOf(Outcomes))
    assert(interruptions > 0)
  }

  /**
   * Runs a trial at every n-th step.
   *
   * @param isFailing
   *   whether a call fails, by its number and that of the step
   * @return
   *   the number of trials with each outcome
   */
  private def outcomesAt(every: Int, isFailing: (Int, Int) => Boolean): Map[String, Int] = {
    val (steps, undisturbed) = trial(Int.MaxValue, isFailing)
    assert(undisturbed == New)
    assert(steps > 10)
    val outcomes = (1 to steps by every).map(step => trial(step, isFailing)._2)
    val counted = outcomes.groupMapReduce(identity)(_ => 1)(_ + _)
    info(s"$steps steps: ${counted.toSeq.sorted.mkString(", ")}")
    counted
  }

  /** Returns the number of calls and the outcome. */
  private def trial(step: Int, isFailing: (Int, Int) => Boolean): (Int, String) = {
    val home = Files.createTempDirectory("cleancut-running")
    val counts = new Counts(spark, home)
    try {
      counts.add()
      val query = counts.start()
      query.processAllAvailable()
      counts.add()
      query.processAllAvailable()
      val steps = StepFileSystem.counting { (number, call) =>
        if (isFailing(number, step)) throw new StepFileSystem.Killed(call)
      } {
        Try(RunningRescale.run(counts.location, After, None, WaitMs, Clock.System)) match {
          case Failure(e: CleancutException) if e.getErrorId == Interrupted =>
            assert(!query.isActive)
            interruptions += 1
          case _ => ()
        }
        // Includes the epoch without input.
        Try(query.processAllAvailable())
        if (isFailing(step + 1, step)) query.stop()
      }
      (steps, check(counts, query, step))
    } finally {
      spark.streams.active.foreach(_.stop())
      LoadedStores.stop()
      TestDirectory.delete(home)
    }
  }

  private def check(counts: Counts, query: StreamingQuery, step: Int): String = {
    counts.add()
    var isRepeated = false
    if (query.isActive) Try(query.processAllAvailable())
    if (!query.isActive) {
      LoadedStores.stop()
      val again = Try(counts.run())
      again.failed.foreach { e =>
        assert(isIncomplete(e), s"step $step: $e")
        isRepeated = true
        val session = spark.asInstanceOf[classic.SparkSession]
        OfflineOperation.rescale(After).run(session, counts.location)
        counts.run()
      }
    }
    spark.streams.active.foreach(_.stop())
    assert(counts.wrong.isEmpty, s"step $step: ${counts.wrong}")
    val partitions = counts.partitions
    assert(Set(Before, After)(partitions), s"step $step")
    // Another run loads the state from its files.
    LoadedStores.stop()
    counts.add()
    counts.run()
    assert(counts.wrong.isEmpty, s"after step $step: ${counts.wrong}")
    if (isRepeated) Repeated else if (partitions == After) New else Old
  }
}

private object RunningRescaleSuite {
  private val Provider = classOf[CleancutStateStoreProvider].getName
  private val Manager = classOf[CleancutCheckpointFileManager].getName
  private val Incomplete = "CLEANCUT_OPERATION_INCOMPLETE"
  private val Interrupted = "CLEANCUT_RESCALE_INTERRUPTED"
  private val WaitMs = TimeUnit.MINUTES.toMillis(5)
  private val Before = 3
  private val After = 6
  private val Old = "old"
  private val New = "new"
  private val Repeated = "repeated"
  private val Outcomes = Set(Old, New, Repeated)
  private val KeyCount = 24

  private def isIncomplete(e: Throwable): Boolean =
    RandomRuns.causes(e).exists(cause => String.valueOf(cause.getMessage).contains(Incomplete))

  /** Counts rows by key; each file has each key once. */
  final private class Counts(spark: SparkSession, home: Path) {
    val location = s"${StepFileSystem.Scheme}:${home.resolve("checkpoint")}"
    private val input = Files.createDirectories(home.resolve("in"))
    private var files = 0
    @volatile private var counts = Map.empty[Long, Long]

    def add(): Unit = {
      val lines = (0 until KeyCount).map(key => s"""{"k":$key}""").mkString("\n")
      Files.writeString(input.resolve(s"$files.json"), lines)
      files += 1
    }

    def start(): StreamingQuery = {
      spark.conf.set("spark.sql.shuffle.partitions", Before.toString)
      spark.readStream
        .schema("k long")
        .option("maxFilesPerTrigger", 1)
        .json(s"file:$input")
        .groupBy("k")
        .count()
        .writeStream
        .outputMode("update")
        .option("checkpointLocation", location)
        .foreachBatch { (batch: DataFrame, _: Long) =>
          val rows = batch.collect().map(row => row.getLong(0) -> row.getLong(1))
          counts ++= rows
        }
        .start()
    }

    /** Runs the query until it has processed all input. */
    def run(): Unit = {
      val query = start()
      try query.processAllAvailable()
      finally query.stop()
    }

    def partitions: Int = {
      val last = home.resolve("checkpoint/offsets").toFile.list.flatMap(_.toIntOption).max
      val entry = Files.readString(home.resolve(s"checkpoint/offsets/$last"))
      """"spark.sql.shuffle.partitions":"(\d+)"""".r.findFirstMatchIn(entry).get.group(1).toInt
    }

    def wrong: Map[Long, Long] =
      if (counts.size == KeyCount) counts.filter(_._2 != files.toLong) else counts
  }
}
