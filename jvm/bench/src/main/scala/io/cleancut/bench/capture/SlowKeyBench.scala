package io.cleancut.bench.capture

import java.nio.file.Path
import java.util.concurrent.TimeUnit.MILLISECONDS

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.streaming.{OutputMode, StreamingQueryProgress}

import io.cleancut.bench.base.Directories

/**
 * Times the epochs of a query with a slow key in each mode and on RocksDB, and without the slow key
 * before. A run takes all of its input, an epoch a file, and then what is left in flight. Fails if
 * the outputs differ, or rows of a key came out of order.
 *
 * Prints `subject<TAB>figure<TAB>number`: `epoch`, nanoseconds of an epoch with input, but for the
 * first two; `rows in flight` behind each of them, and `capture`, nanoseconds from the barrier to
 * it; `drain`, nanoseconds of all epochs without.
 *
 * Arguments: Spark's master, timeout of mode auto, partitions, rows of an epoch, epochs,
 * milliseconds of a slow row and of another one.
 */
object SlowKeyBench {
  private val WarmUps = 2
  val WithoutSlowKey = "without the slow key"

  def main(args: Array[String]): Unit = {
    val Array(partitions, rows, epochs, slowMs, rowMs) = args.drop(2).map(_.toInt): @unchecked
    val slow = SlowKeyQuery(rows, epochs + WarmUps, slowMs, rowMs)
    val input = CaptureRun.temporary()
    slow.write(input)
    val spark = session(master = args(0))
    val subjects =
      CaptureSubject.modes.map(CaptureSubject.mode(_, timeout = args(1))) :+ CaptureSubject.Rocks
    try {
      val usual = subjects.head.copy(name = WithoutSlowKey)
      // Once for the compilers of the JVM, which would make the first look slow.
      taken(spark, usual, slow.copy(slowMs = 0, rowMs = 0), input, partitions, _ => ())
      val expected = taken(spark, usual, slow.copy(slowMs = 0), input, partitions, println)
      require(expected.size == slow.rows * slow.epochs, s"${expected.size} rows came out")
      for (subject <- subjects) {
        val found = taken(spark, subject, slow, input, partitions, println)
        require(found == expected, s"the output of ${subject.name} differs")
      }
    } finally {
      spark.stop()
      Directories.deleteBelow(input)
    }
    System.exit(0)
  }

  private def session(master: String): SparkSession = CaptureRun
    .session(master)
    // Epochs that only take up what is in flight may be many more than Spark remembers.
    .config("spark.sql.streaming.numRecentProgressUpdates", "100000")
    .config("spark.sql.extensions", "io.cleancut.CleancutExtensions")
    .getOrCreate()

  /** Runs the query to the end of its input; its output, as it must be whatever was in flight. */
  private def taken(
      spark: SparkSession,
      subject: CaptureSubject,
      query: SlowKeyQuery,
      input: Path,
      partitions: Int,
      say: String => Unit
  ): Seq[String] = {
    val run =
      new CaptureRun(spark.newSession(), subject, OutputMode.Append(), partitions, keepsRows = true)
    val running = run.start(query.build(_, input))
    running.processAllAvailable()
    val (full, empty) = running.recentProgress.toSeq
      .filter(_.durationMs.containsKey("addBatch"))
      .sortBy(_.batchId)
      .partition(_.numInputRows > 0)
    running.stop()
    for (epoch <- full.drop(WarmUps)) {
      say(s"${subject.name}\tepoch\t${nanos(epoch)}")
      say(s"${subject.name}\trows in flight\t${CaptureRun.inFlight(epoch)}")
      say(
        s"${subject.name}\tcapture\t${MILLISECONDS.toNanos(CaptureRun.barrierToCaptureMs(epoch))}"
      )
    }
    say(s"${subject.name}\tdrain\t${empty.map(nanos).sum}")
    run.close()
    // The number before each row tells the order within its key.
    run.output.map((row: Row) => row.toString).sorted
  }

  private def nanos(epoch: StreamingQueryProgress): Long =
    MILLISECONDS.toNanos(epoch.durationMs.get("triggerExecution"))
}
