package io.cleancut.bench.capture

import java.nio.file.Path
import java.util.concurrent.TimeUnit.MILLISECONDS

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.streaming.{OutputMode, StreamingQueryProgress}

import io.cleancut.bench.base.Directories

/**
 * Times the epochs of a query with a slow key in each mode and on RocksDB, and first without the
 * slow key. A run processes all of its input, one file per epoch, and then the in-flight rows.
 * Fails if the outputs differ, or if rows of a key are out of order.
 *
 * Prints `subject<TAB>figure<TAB>number`: `epoch`, nanoseconds of an epoch with input, except for
 * the first two; `in-flight rows` after each of these epochs; `capture`, nanoseconds from the
 * barrier to the stored rows; `drain`, nanoseconds of all epochs without input.
 *
 * Arguments: Spark's master, timeout of mode auto, partitions, rows per epoch, epochs, milliseconds
 * per row of the slow key and of other keys.
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
      // One run for the JIT compiler, which would make the first subject look slow.
      runToEnd(spark, usual, slow.copy(slowMs = 0, rowMs = 0), input, partitions, _ => ())
      val expected = runToEnd(spark, usual, slow.copy(slowMs = 0), input, partitions, println)
      require(expected.size == slow.rows * slow.epochs, s"${expected.size} rows came out")
      for (subject <- subjects) {
        val actual = runToEnd(spark, subject, slow, input, partitions, println)
        require(actual == expected, s"the output of ${subject.name} differs")
      }
    } finally {
      spark.stop()
      Directories.deleteBelow(input)
    }
    System.exit(0)
  }

  private def session(master: String): SparkSession = CaptureRun
    .session(master)
    // Epochs without input may be more than Spark retains by default.
    .config("spark.sql.streaming.numRecentProgressUpdates", "100000")
    .config("spark.sql.extensions", "io.cleancut.CleancutExtensions")
    .getOrCreate()

  /**
   * Runs the query to the end of its input, and returns its output, which must not depend on
   * in-flight rows.
   */
  private def runToEnd(
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
      say(s"${subject.name}\tin-flight rows\t${CaptureRun.inFlight(epoch)}")
      say(
        s"${subject.name}\tcapture\t${MILLISECONDS.toNanos(CaptureRun.barrierToCaptureMs(epoch))}"
      )
    }
    say(s"${subject.name}\tdrain\t${empty.map(nanos).sum}")
    run.close()
    // The preceding number of each row shows the order within its key.
    run.output.map((row: Row) => row.toString).sorted
  }

  private def nanos(epoch: StreamingQueryProgress): Long =
    MILLISECONDS.toNanos(epoch.durationMs.get("triggerExecution"))
}
