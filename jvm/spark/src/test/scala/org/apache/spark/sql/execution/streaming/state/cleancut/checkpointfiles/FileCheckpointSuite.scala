package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.hadoop.hdfs.MiniDFSCluster
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.{Assertion, BeforeAndAfterAll, BeforeAndAfterEach}

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.{
  CheckpointLogs,
  LastOffsets
}
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.QueryCommitter

import io.cleancut.CleancutCheckpointFileManager
import io.cleancut.base.{Clock, StateVersion, StoreId}
import io.cleancut.conf.Keys
import io.cleancut.coordinator.state.Begun
import io.cleancut.cutstore.CutArchive
import io.cleancut.cutstore.gc.CutRetention
import io.cleancut.error.CleancutException
import io.cleancut.format.{Channels, CutLayout, FrameKind, FramePlace, StoreCut}
import io.cleancut.format.cut.{Cut, RunId}
import io.cleancut.objectstore.ObjectKey
import io.cleancut.objectstore.hadoop.HadoopStore
import io.cleancut.testkit.TestDirectory

/** A checkpoint location on a Hadoop file system, through Spark's file manager. */
abstract class FileCheckpointContract
    extends AnyFunSuite
    with BeforeAndAfterAll
    with BeforeAndAfterEach {
  private var count = 0

  /** The directory of the checkpoints, with its scheme. */
  protected def home: Path

  private def checkpoint = new Path(home, s"q$count")

  private def commits = new Path(checkpoint, "commits")

  private def entry(epoch: Long) = new Path(commits, epoch.toString)

  private def fileSystem = FileSystem.get(home.toUri, new Configuration)

  private def archive = {
    val root = new Path(checkpoint, "cleancut")
    new CutArchive(HadoopStore.open(root, new Configuration, Clock.System), Clock.System)
  }

  override protected def beforeEach(): Unit = count += 1

  private def manager(path: Path, cuts: String): CheckpointFileManager = {
    val conf = new Configuration
    conf.set(Keys.Cuts.name, cuts)
    new CleancutCheckpointFileManager(path, conf)
  }

  /** Does what Spark does at the start of a query, before it reads anything. */
  private def start(cuts: String = "auto"): CheckpointFileManager = {
    assert(manager(checkpoint, cuts).createCheckpointDirectory() == checkpoint)
    val log = manager(commits, cuts)
    if (!log.exists(commits)) log.mkdirs(commits)
    log
  }

  private def write(log: CheckpointFileManager, epoch: Long, text: String): Unit = {
    val out = log.createAtomic(entry(epoch), overwriteIfPossible = false)
    out.write(text.getBytes(UTF_8))
    out.close()
  }

  private def read(epoch: Long): Option[String] =
    if (!fileSystem.exists(entry(epoch))) None
    else
      Some(
        Using.resource(fileSystem.open(entry(epoch)))(in => new String(in.readAllBytes(), UTF_8))
      )

  private def cut(
      epoch: Long,
      text: String,
      withStore: Boolean = true,
      queryId: Option[String] = None
  ): Assertion = {
    val place = FramePlace(CutLayout.segment(epoch, "driver", id), 0L, 1L, 0)
    val version = StateVersion(epoch + 1, id)
    val store = StoreCut(StoreId(0, 0, Channels.name(0)), Seq((FrameKind.Base, version, place)))
    val run = RunId(queryId, "r", 1)
    val stores = if (withStore) Seq(store) else Nil
    writeOffsets(epoch)
    assert(archive.cuts.create(Cut(epoch, run, id, 0, text, "offsets", stores, Map.empty)))
  }

  /** Creates the entry of an epoch, which precedes its cut. */
  private def writeOffsets(epoch: Long): Unit =
    fileSystem.create(new Path(checkpoint, s"offsets/$epoch")).close()

  private def id = StateVersion.newId(Clock.System)

  /** The error of a method, or of a start, which is converted for its caller. */
  private def errorOf(body: => Any): CleancutException = intercept[RuntimeException](body) match {
    case error: CleancutException            => error
    case converted: IllegalArgumentException => converted.getCause.asInstanceOf[CleancutException]
    case other                               => throw other
  }

  private def listed(log: CheckpointFileManager): Set[String] =
    log.list(commits).map(_.getPath.getName).filterNot(_.startsWith(".")).toSet

  test("without the key and without cuts the checkpoint is as Spark's own") {
    for (cuts <- Seq("auto", "false")) {
      val log = start(cuts)
      write(log, 0, "entry 0")
      assert(read(0).contains("entry 0") && listed(log) == Set("0"))
      assert(!fileSystem.exists(new Path(checkpoint, "cleancut")))
      count += 1
    }
  }

  /** Does what a run does after it became the owner. */
  private def begin(): Unit = {
    val cut = archive.cuts.last()
    val begun =
      Begun(cut.fold(-1L)(_.head.epoch), cut.map(_.whole), generation = 1L, isAlone = true)
    FileCheckpoint.prepare(checkpoint, archive, new Configuration)(begun)
  }

  test("the next owner writes the entry of a cut if the previous driver died before it did") {
    cut(6, "v1 of 6")
    cut(7, "v1 of 7")
    // A run that is not the owner yet does not, because its predecessor may still do.
    assert(listed(start()) == Set.empty)
    begin()
    assert(listed(start()) == Set("7") && read(7).contains("v1 of 7"))
    // Once more, because a driver may die at any time.
    begin()
    assert(listed(start("true")) == Set("7"))
  }

  test("existing entries are kept, also those before the first cut") {
    val log = start()
    (0L to 2L).foreach(epoch => write(log, epoch, s"level 0, $epoch"))
    cut(3, "v1 of 3")
    begin()
    assert(listed(start()) == Set("0", "1", "2", "3"))
    assert((0L to 2L).forall(epoch => read(epoch).contains(s"level 0, $epoch")))
  }

  private def writeMetadata(text: String): Unit =
    Using.resource(fileSystem.create(new Path(checkpoint, "metadata"), true)) { out =>
      out.write(text.getBytes(UTF_8))
    }

  test("a lost file with the ID of the query is detected before Spark creates another one") {
    cut(3, "v1 of 3", queryId = Some("abc"))
    val lost = errorOf(start())
    assert(lost.errorId == "CLEANCUT_METADATA_MISSING" && lost.getMessage.contains("abc"))
    assert(lost.getMessage.contains(s"restore-metadata $checkpoint"))
    writeMetadata("""{"id":"abc"}""")
    start()
    for (other <- Seq("""{"id":"xyz"}""", "{", "")) {
      writeMetadata(other)
      val changed = errorOf(start())
      assert(
        changed.errorId == "CLEANCUT_CUT_CORRUPTED" && changed.getMessage.contains("/metadata")
      )
    }
  }

  test("a start is refused if the offset log ends before the last cut") {
    cut(3, "v1 of 3")
    cut(4, "v1 of 4")
    start()
    fileSystem.delete(new Path(checkpoint, "offsets/4"), false)
    val deleted = errorOf(start())
    assert(deleted.errorId == "CLEANCUT_OFFSETS_DELETED")
    assert(deleted.getMessage.contains(s"ends with epoch 3"))
    assert(deleted.getMessage.contains(s"cleancut rollback $checkpoint --to-epoch 4 --apply"))
    fileSystem.delete(new Path(checkpoint, "offsets"), true)
    assert(errorOf(start()).getMessage.contains("is empty"))
    LastOffsets.restore(checkpoint, archive, manager(checkpoint, "true"))
    start()
    assert(read(4).contains("v1 of 4"))
  }

  test("a missing entry of the offset log is an error that names it") {
    val files = HadoopStore.open(checkpoint, new Configuration, Clock.System)
    val logs = new CheckpointLogs(checkpoint.toString, files, CutRetention(100))
    files.put(ObjectKey("offsets/6"), "v1".getBytes(UTF_8))
    assert(logs.offsets(6) == "v1")
    val missing = errorOf(logs.offsets(7))
    assert(missing.errorId == "CLEANCUT_OFFSETS_MISSING")
    assert(missing.getMessage.contains(s"$checkpoint/offsets/7"))
  }

  test("a checkpoint with cuts is refused if the key disables them, and the key is named") {
    cut(4, "v1 of 4")
    val error = errorOf(start("false"))
    assert(error.getErrorId == "CLEANCUT_CUTS_REQUIRED")
    val named = Seq(checkpoint.toString, "epoch 4", s"${Keys.Cuts.name} is false")
    assert(named.forall(error.getMessage.contains(_)), error.getMessage)
    assert(read(4).isEmpty)
  }

  test("a driver without cuts stops after another has begun to commit by cuts") {
    val log = start()
    write(log, 0, "entry 0")
    cut(1, "v1 of 1")
    val error = errorOf(write(log, 1, "entry 1"))
    assert(error.getErrorId == "CLEANCUT_FENCED" && read(1).isEmpty)
  }

  test("an entry is written once when its epoch is committed, by any driver") {
    val plain = manager(new Path(checkpoint, "other"), "false")
    val cutting = new Committing(epoch => cut(epoch, s"v1 of $epoch"))
    val files = new CutCommits(commits, plain, cutting)
    files.mkdirs(commits)
    write(files, 0, "v1 of 0")
    assert(read(0).contains("v1 of 0") && archive.cuts.epochs() == Seq(0L))
    // Another driver rolls forward between the cut and its entry.
    val overtaken = new CutCommits(
      commits,
      plain,
      new Committing({ epoch =>
        cut(epoch, s"v1 of $epoch")
        begin()
      })
    )
    write(overtaken, 1, "v1 of 1")
    assert(read(1).contains("v1 of 1"))
    val foreign = new CutCommits(
      commits,
      plain,
      new Committing(epoch => fileSystem.create(entry(epoch)).close())
    )
    assert(errorOf(write(foreign, 2, "v1 of 2")).getErrorId == "CLEANCUT_FENCED")
  }

  test("nothing is written if the epoch is not committed, or if the entry is cancelled") {
    start("true")
    val log = manager(commits, "true")
    // This process is no query's driver.
    val error = errorOf(write(log, 0, "entry 0"))
    assert(error.getErrorId == "CLEANCUT_COORDINATOR_UNREACHABLE")
    val out = log.createAtomic(entry(0), overwriteIfPossible = false)
    out.write("entry 0".getBytes(UTF_8))
    out.cancel()
    out.close()
    assert(read(0).isEmpty && archive.cuts.epochs() == Nil)
  }

  test(
    "a start with cuts deletes the objects of its probe, and refuses invalid values of the key"
  ) {
    start("true")
    val left = fileSystem.listStatus(new Path(checkpoint, "cleancut")).map(_.getPath.getName).toSet
    assert(left == Set(".cleancut-pending"))
    assert(errorOf(start("perhaps")).getErrorId == "CLEANCUT_CONF_INVALID")
  }

  private class Committing(act: Long => Any) extends QueryCommitter {
    override def begin(): Option[Begun] = None
    override def atStart(name: String)(act: Begun => Unit): Unit = ()
    override def checkOwner(): Unit = ()
    override def commit(epoch: Long, entry: String)(written: String => Unit): String = {
      act(epoch)
      written(entry)
      entry
    }
  }
}

/** A local disk. */
class FileCheckpointSuite extends FileCheckpointContract {
  private lazy val directory = Files.createTempDirectory("file-checkpoint")

  // Hadoop writes local paths with one slash.
  override protected lazy val home: Path = new Path(s"file:$directory")

  override protected def afterAll(): Unit = TestDirectory.delete(directory)
}

/** HDFS. */
class HdfsCheckpointSuite extends FileCheckpointContract {
  private lazy val directory = Files.createTempDirectory("hdfs-checkpoint")
  private lazy val cluster = {
    val started =
      new MiniDFSCluster.Builder(new Configuration, directory.toFile).numDataNodes(1).build()
    started.waitActive()
    started
  }

  override protected lazy val home: Path = new Path(s"${cluster.getURI}/checkpoints")

  override protected def afterAll(): Unit = {
    cluster.shutdown()
    TestDirectory.delete(directory)
  }
}
