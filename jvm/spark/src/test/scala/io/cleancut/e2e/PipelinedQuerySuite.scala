package io.cleancut.e2e

import java.nio.file.Path
import java.util.concurrent.{ConcurrentLinkedQueue, Executor, TimeUnit}
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.{Path => HadoopPath}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{DataFrame, Encoders, SparkSession}
import org.apache.spark.sql.execution.streaming.runtime.{MemoryStream, StreamingQueryWrapper}
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.DriverCuts
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.{StreamingQuery, StreamingQueryException, Trigger}

import io.cleancut.CleancutSeal
import io.cleancut.base.{Clock, DaemonThreads}
import io.cleancut.conf.Keys
import io.cleancut.coordinator.CutsRuntime
import io.cleancut.testkit.{QueryWaits, TestDirectory}

/** Queries whose epochs begin while the cuts of the epochs before are being written. */
class PipelinedQuerySuite extends AnyFunSuite with CutsSession {
  import PipelinedQuerySuite._

  override protected def master: String = "local[2]"

  override protected def partitions: Int = 2

  test("the status names the reason for which epochs wait for their cuts") {
    def reasonOf(settings: (String, String)*)(input: Run => DataFrame): Option[String] =
      in(_ => slow(0L), settings: _*) { run =>
        val started = run.startOn(input(run))
        QueryWaits.until(started, "an epoch is committed")(run.cuts.nonEmpty)
        val reason = run.coordinator(started).status.unpipelined
        started.stop()
        reason
      }
    def files(run: Run) = {
      run.add(0)
      run.input
    }
    assert(reasonOf()(files).isEmpty)
    val off = reasonOf(Keys.PipelinedCuts.name -> "false")(files)
    assert(off.contains(s"${Keys.PipelinedCuts.name} is false"))
    val auto = reasonOf(Keys.PipelinedCuts.name -> "auto")(files)
    assert(auto.exists(_.endsWith("is auto, and the checkpoint is not in an object store")))
    val noData = SQLConf.STREAMING_NO_DATA_MICRO_BATCHES_ENABLED.key
    assert(reasonOf(noData -> "false")(files).contains(s"$noData is false"))
    val retain = SQLConf.MIN_BATCHES_TO_RETAIN.key
    assert(reasonOf(retain -> "1")(files).contains(s"$retain is 1"))
    val memory = reasonOf() { run =>
      val stream = MemoryStream(Encoders.scalaLong, run.session)
      stream.addData(1L)
      stream.toDF().withColumnRenamed("value", "number")
    }
    assert(memory.exists(_.contains("may react to the commit of an epoch")), memory)
    val cleaned = reasonOf() { run =>
      run.add(0)
      run.inputWith("cleanSource" -> "delete")
    }
    assert(cleaned.contains("a file source cleans up files of completed epochs"))
  }

  for ((mode, format) <- Seq("aligned" -> 1, "unaligned" -> 2))
    test(s"epochs begin before cuts exist, and are sealed after them: $mode, format $format") {
      in(afterBegin) { run =>
        val session = run.session
        session.conf.set(Keys.Mode.name, mode)
        session.conf.set(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key, format.toString)
        (0 until Epochs).foreach(run.add(_))
        QueryWaits.end(run.start(Trigger.AvailableNow()))
        assert(run.cuts == (0L until Epochs.toLong) && run.commits == run.cuts)
        assert(run.rows == run.batch)
        // The run waits for the cut of its first epoch.
        val begun = run.begun.asScala.toSeq
        assert(begun.map(_.epoch) == run.cuts)
        assert(begun.drop(2).forall(!_.isBeforeCommitted), begun.mkString(", "))
        assert(run.lateSeals.isEmpty, "the epoch before was not committed when one was sealed")
      }
    }

  test("processAllAvailable returns after the last cut, and the next run is alone after stop") {
    in(_ => slow(DelayMs)) { run =>
      var started = run.start()
      for (epoch <- 0 until Epochs) {
        run.add(epoch)
        QueryWaits.drain(started)
        assert(run.cuts.size == epoch + 1)
        assert(run.coordinator(started).status.committed.contains(epoch.toLong))
        if (epoch == 2) {
          started.stop()
          started = run.start()
        }
      }
      assert(run.coordinator(started).begin(started.runId.toString).isAlone)
      started.stop()
      assert(run.rows == run.batch)
    }
  }

  test("a query that is idle ends if another run has begun before the check after its cut") {
    in(_ => slow(DelayMs)) { run =>
      run.afterSeal = epoch => if (epoch == 3) run.takeOver()
      val started = run.start()
      val failure = intercept[StreamingQueryException] {
        for (epoch <- 0 until Epochs) {
          run.add(epoch)
          QueryWaits.drain(started)
        }
      }
      assert(failure.getMessage.contains("CLEANCUT_FENCED"))
      assert(run.cuts == (0L to 3L) && run.commits == (0L to 2L))
      QueryWaits.end(run.start(Trigger.AvailableNow()))
      assert(run.commits == run.cuts && run.rows == run.batch)
    }
  }

  private def in[A](writes: Run => Executor, settings: (String, String)*)(body: Run => A): A =
    TestDirectory.use("pipelined") { root =>
      val session = spark.newSession()
      val all = Seq(Keys.PipelinedCuts.name -> "true", Keys.Mode.name -> "aligned") ++ settings
      all.foreach { case (key, value) => session.conf.set(key, value) }
      body(new Run(session, root, writes))
    }

  /** Begins each write while the sink of the next epoch runs, or late if there is none. */
  private def afterBegin(run: Run): Executor = write =>
    threads.execute { () =>
      val endNs = System.nanoTime + TimeUnit.SECONDS.toNanos(IdleSeconds)
      while (!run.isInSink && System.nanoTime < endNs) Thread.sleep(1)
      write.run()
    }

  /** A query on files, one in each epoch, with its results by epoch. */
  final private class Run(
      val session: SparkSession,
      root: Path,
      writes: Run => Executor
  ) {
    private val files = new NumberedFiles(session, root)
    import files.{archive, checkpoint, totals}
    val begun = new ConcurrentLinkedQueue[Begin]
    private val ended = new AtomicInteger

    /** Whether the sink of an epoch runs. */
    def isInSink: Boolean = begun.size > ended.get
    @volatile var afterSeal: Long => Unit = _ => ()
    val lateSeals = new ConcurrentLinkedQueue[Long]
    val location: String = new HadoopPath(checkpoint.toUri).toString

    DriverCuts.runOn(location)(CutsRuntime.onThreads(_, Clock.System).copy(writes = writes(this)))

    def add(number: Int): Unit = files.add(number)

    def input: DataFrame = inputWith()

    def inputWith(options: (String, String)*): DataFrame = files.input(options: _*)

    def start(trigger: Trigger = Trigger.ProcessingTime(0L)): StreamingQuery =
      startOn(input, trigger)

    def startOn(rows: DataFrame, trigger: Trigger = Trigger.ProcessingTime(0L)): StreamingQuery =
      totals(rows).writeStream
        .outputMode("update")
        .option("checkpointLocation", checkpoint.toString)
        .trigger(trigger)
        .foreachBatch { (batch: DataFrame, epoch: Long) =>
          begun.add(Begin(epoch, cuts.contains(epoch - 1)))
          val sealedRows = CleancutSeal.seal(batch, epoch)
          if (epoch > 0 && !cuts.contains(epoch - 1)) lateSeals.add(epoch)
          afterSeal(epoch)
          files.publish(epoch, sealedRows)
          sealedRows.unpersist()
          ended.incrementAndGet()
          ()
        }
        .start()

    def coordinator(started: StreamingQuery) = started match {
      case query: StreamingQueryWrapper =>
        DriverCuts.of(query.streamingQuery.resolvedCheckpointRoot).get
      case other => fail(s"$other")
    }

    /** Another run becomes the owner. */
    def takeOver(): Unit = {
      archive.owners.take(None, "rival", "another host", archive.owners.names())
      ()
    }

    def cuts: Seq[Long] = files.cuts
    def commits: Seq[Long] = files.entries("commits")
    def rows: Map[Long, Long] = files.rows
    def batch: Map[Long, Long] = files.batch
  }
}

object PipelinedQuerySuite {
  private val Epochs = 6
  private val DelayMs = 300L
  private val IdleSeconds = 10L

  /** The begin of an epoch's sink. */
  final private case class Begin(epoch: Long, isBeforeCommitted: Boolean)

  private lazy val threads = DaemonThreads.pool("slow-writes", 4)

  /** Executor of the writes between two epochs. */
  private def slow(delayMs: Long): Executor = write =>
    threads.execute { () =>
      Thread.sleep(delayMs)
      write.run()
    }
}
