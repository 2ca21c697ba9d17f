package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files
import java.util.concurrent.{CompletableFuture, CountDownLatch, Executors, TimeUnit}

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.BeforeAndAfterEach
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.QueryCommitter

import io.cleancut.base.{Clock, StoreId}
import io.cleancut.coordinator.state.Begun
import io.cleancut.error.{CleancutException, Errors}
import io.cleancut.format.Channels
import io.cleancut.format.cut.{ChannelReport, Cut, RowsDigest, RunId}
import io.cleancut.testkit.{Patience, TestDirectory}

/** The offset log of a query whose epochs another driver may plan. */
class OwnedLogSuite extends AnyFunSuite with BeforeAndAfterEach {
  private var home: java.nio.file.Path = _
  private var hasOwner = true
  private var begun = Option.empty[Begun]

  private class TheGate extends QueryCommitter {
    private var done = Set.empty[String]
    override def begin(): Option[Begun] = begun
    override def atStart(name: String)(act: Begun => Unit): Unit = begun.foreach { start =>
      val isNew = !done(name)
      done += name
      if (isNew) act(start)
    }
    override def checkOwner(): Unit =
      if (hasOwner) throw Errors.fenced("there", 1L, "run r2 on host")
    override def commit(epoch: Long, entry: String)(written: String => Unit): String = entry
  }

  override protected def beforeEach(): Unit = {
    home = Files.createTempDirectory("owned-log")
    hasOwner = true
    begun = None
  }

  override protected def afterEach(): Unit = TestDirectory.delete(home)

  private def directory = new Path(s"file:$home/offsets")

  private def entry(epoch: Long) = new Path(directory, epoch.toString)

  private def files = {
    val manager = new FileContextBasedCheckpointFileManager(directory, new Configuration)
    manager.mkdirs(directory)
    manager
  }

  private def log(): OwnedLog =
    new StartOfRun(new TheGate, directory, files, _ => (), Clock.System).ofOffsets(files)

  private def write(log: OwnedLog, epoch: Long, text: String): Unit = {
    val out = log.createAtomic(entry(epoch), overwriteIfPossible = false)
    try {
      out.write(text.getBytes(UTF_8))
      out.close()
    } catch {
      case e: Throwable =>
        out.cancel()
        throw e
    }
  }

  private def read(epoch: Long): String =
    Using.resource(files.open(entry(epoch)))(in => new String(in.readAllBytes(), UTF_8))

  private def listed(log: OwnedLog): Set[String] =
    log.list(directory, (_: Path) => true).map(_.getPath.getName).toSet

  private val offsets = "v1\n{\"batchWatermarkMs\":0,\"batchTimestampMs\":5}\n{\"of\":7}"

  private def begunAfterCut(isAlone: Boolean): Option[Begun] = {
    val cut = Cut(0L, RunId(None, "r1", 1L), "t", 0L, "v1\n{}", offsets, Nil, Map.empty)
    Some(Begun(0L, Some(cut), generation = 1L, isAlone))
  }

  private def withInFlightRows: Option[Begun] = {
    val rows = RowsDigest(1, 1)
    val channel = ChannelReport(StoreId(0L, 0, Channels.name(0)), rows, rows)
    begunAfterCut(isAlone = true).map { start =>
      start.copy(cut = start.cut.map(_.copy(channels = Seq(channel))))
    }
  }

  test("a run ends at an entry of a later owner, with an error that names the owner") {
    val late = log()
    assert(listed(late).isEmpty && !late.exists(entry(0)))
    val out = late.createAtomic(entry(0), overwriteIfPossible = false)
    write(log(), 0, "of the owner")
    for (step <- Seq[() => Any](() => out.close(), () => late.exists(entry(0)))) {
      val error = intercept[CleancutException](step())
      assert(error.getErrorId == "CLEANCUT_FENCED" && error.getMessage.contains("r2 on host"))
    }
    out.cancel()
    assert(read(0) == "of the owner")
  }

  test("a run whose entry was deleted by a later owner ends with an error that names the owner") {
    val late = log()
    write(log(), 0, "of an operation")
    assert(listed(late) == Set("0"))
    files.delete(entry(0))
    val error = intercept[CleancutException](late.open(entry(0)))
    assert(error.getErrorId == "CLEANCUT_FENCED" && error.getMessage.contains("r2 on host"))
    // Spark also requests entries that were never there.
    intercept[FileNotFoundException](late.open(entry(1)))
    hasOwner = false
    intercept[FileNotFoundException](late.open(entry(0)))
  }

  test("an owner whose entry exists already must restart, and continues with the entry") {
    hasOwner = false
    val owner = log()
    assert(listed(owner).isEmpty)
    write(log(), 0, "of the run before")
    // Spark checks first, and another run may write after that.
    for (step <- Seq[() => Any](() => owner.exists(entry(0)), () => write(owner, 0, "own"))) {
      val error = intercept[CleancutException](step())
      assert(
        error.getErrorId == "CLEANCUT_OFFSET_LOG_CONFLICT" && error.getMessage.contains("offsets/0")
      )
    }
    assert(listed(log()).contains("0") && read(0) == "of the run before")
  }

  test("an entry exists for its run, and is read, while it is being written") {
    hasOwner = false
    val mayWrite = new CountDownLatch(1)
    val writer = Executors.newSingleThreadExecutor()
    val gate = new TheGate {
      override def plan(epoch: Long)(write: => Unit): CompletableFuture[Unit] =
        CompletableFuture
          .runAsync(
            () => {
              assert(mayWrite.await(Patience.Seconds, TimeUnit.SECONDS))
              write
            },
            writer
          )
          .thenApply[Unit](_ => ())
    }
    try {
      val current = new StartOfRun(gate, directory, files, _ => (), Clock.System).ofOffsets(files)
      assert(listed(current).isEmpty)
      write(current, 0, "own")
      def text = Using.resource(current.open(entry(0)))(in => new String(in.readAllBytes(), UTF_8))
      assert(!files.exists(entry(0)))
      assert(current.exists(entry(0)) && text == "own")
      mayWrite.countDown()
      write(current, 1, "next")
      writer.shutdown()
      assert(writer.awaitTermination(Patience.Seconds, TimeUnit.SECONDS))
      assert(current.exists(entry(0)) && text == "own" && read(1) == "next")
    } finally writer.shutdown()
  }

  test("the failure of a write is reported where its entry is read") {
    hasOwner = false
    val failure = Errors.fenced("there", 0L, "run r2")
    val gate = new TheGate {
      override def plan(epoch: Long)(write: => Unit): CompletableFuture[Unit] =
        CompletableFuture.failedFuture(failure)
    }
    val current = new StartOfRun(gate, directory, files, _ => (), Clock.System).ofOffsets(files)
    assert(listed(current).isEmpty)
    write(current, 0, "own")
    assert(intercept[CleancutException](current.exists(entry(0))) eq failure)
    assert(intercept[CleancutException](current.open(entry(0))) eq failure)
    assert(!current.exists(entry(1)))
  }

  test("a run does not check the owner for entries that it has listed or written itself") {
    write(log(), 0, "before")
    val current = log()
    assert(listed(current) == Set("0"))
    write(current, 1, "own")
    assert(current.exists(entry(0)) && current.exists(entry(1)) && !current.exists(entry(2)))
  }

  test("the epoch after the last cut is planned before Spark reads, if another run may plan it") {
    begun = begunAfterCut(isAlone = false)
    val first = log()
    assert(first.exists(directory) && listed(first) == Set("1"))
    val Seq(version, metadata, source) = read(1).linesIterator.toSeq: @unchecked
    assert(version == "v1" && metadata.contains("batchTimestampMs") && source == "{\"of\":7}")
    // Once per run.
    begun = begun.map(start => start.copy(cut = start.cut.map(_.copy(epoch = 1L))))
    assert(listed(first) == Set("1"))
  }

  test("an earlier entry of the other driver is run") {
    write(log(), 1, "of the other")
    begun = begunAfterCut(isAlone = false)
    assert(listed(log()) == Set("1") && read(1) == "of the other")
  }

  test("nothing is planned after a run that has recorded its end") {
    begun = begunAfterCut(isAlone = true)
    assert(listed(log()).isEmpty)
  }

  test("an epoch without input is planned for in-flight rows, unless the run has only one epoch") {
    begun = withInFlightRows.map(_.copy(isSingleEpoch = true))
    assert(listed(log()).isEmpty)
    begun = withInFlightRows
    assert(listed(log()) == Set("1"))
  }
}
