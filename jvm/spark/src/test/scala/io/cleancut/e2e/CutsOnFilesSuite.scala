package io.cleancut.e2e

import java.nio.file.{Files, Path}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path => HadoopPath}
import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.Clock
import io.cleancut.cutstore.CutArchive
import io.cleancut.format.{CutLayout, FrameKind}
import io.cleancut.objectstore.hadoop.HadoopStore
import io.cleancut.testkit.{ChildDriver, LongTest, KillableFileSystem, TestDirectory}
import io.cleancut.e2e.KillableQuery.Job

/**
 * A query whose epochs are committed by cuts on a Hadoop file system. Drivers are killed by SIGKILL
 * between two of their writes. Executors are separate processes with the packaged jar. The rows are
 * compared with those of a batch job on the same input.
 */
class CutsOnFilesSuite extends AnyFunSuite with KillableRuns {
  import KillableRuns._

  private def inDirectory(body: (Path, Job) => Assertion): Assertion =
    TestDirectory.use("cuts-on-files") { home =>
      val checkpoint = Files.createDirectory(home.resolve("q"))
      body(checkpoint, jobIn(home, s"${KillableFileSystem.Scheme}:$checkpoint"))
    }

  private def archive(checkpoint: Path) = {
    val root = new HadoopPath(checkpoint.resolve("cleancut").toUri)
    new CutArchive(HadoopStore.open(root, new Configuration, Clock.System), Clock.System)
  }

  private def entries(checkpoint: Path): Map[Long, String] = {
    val files = checkpoint.resolve("commits").toFile.listFiles.toSeq
    files.flatMap(f => f.getName.toLongOption.map(_ -> Files.readString(f.toPath))).toMap
  }

  test("executors die between task and cut, and a driver between cut and commit entry", LongTest) {
    inDirectory { (checkpoint, job) =>
      (0 until 2).foreach(KillableQuery.write(job, _))
      val before = run(job, Local)
      assert(before.exitCode == 0, before.printed)
      assert(archive(checkpoint).cuts.epochs() == Nil, "cuts are not enabled")

      (2 until 6).foreach(KillableQuery.write(job, _))
      val died =
        run(job, Cluster, CutsOn, KillableQuery.LateExecutorDeathKey -> "2", fatal("commits/3"))
      assert(died.exitCode == 137, died.printed)
      assert(archive(checkpoint).cuts.epochs() == Seq(2L, 3L))
      assert(entries(checkpoint).keySet == Set(0L, 1L, 2L))
      // The state of level 0 is in the first cut.
      val first = archive(checkpoint).cuts.read(2).get
      assert(first.stores.map(_.store.partition).sorted == Seq(0, 1, 2))
      assert(first.stores.forall(_.frames.map(_._1) == Seq(FrameKind.Base)))
      // It consists of frames of executors that were dead by then.
      def makers(epoch: Long) =
        archive(checkpoint).cuts.read(epoch).get.costs.get.slowest.map(_.executor).toSet
      val (dead, living) = (makers(2), makers(3))
      assert(dead.nonEmpty && living.nonEmpty && dead.intersect(living).isEmpty, s"$dead, $living")

      // The key is not required again, because the checkpoint has cuts.
      val last = run(job, Local)
      assert(last.exitCode == 0, last.printed)
      val committed = entries(checkpoint)
      // Epoch 4 has no input, because the previous run has no end marker and could still plan it.
      assert(
        committed.keySet == (0L to 6L).toSet && archive(checkpoint).cuts.epochs() == (2L to 6L)
      )
      (2L to 6L).foreach(e => assert(archive(checkpoint).cuts.read(e).get.commit == committed(e)))
      assert(KillableQuery.calls(job) == (0 to 6).map(_.toString), "an epoch ran again")
      checkRows(job, files = 6, last)
    }
  }

  test("a function skips a repeated epoch whose frames are deleted", LongTest) {
    inDirectory { (checkpoint, job) =>
      val confs = Seq(Local, CutsOn) ++ Skipping
      val last = runWithoutFrames(checkpoint, job, confs)(_ => ())
      assert(KillableQuery.calls(job) == Seq("0", "0 skipped", "1", "2", "2 skipped", "3"))
      checkRows(job, files = 4, last)
    }
  }

  test("Spark's file sink skips a repeated epoch whose frames are deleted", LongTest) {
    inDirectory { (checkpoint, job) =>
      val confs = Seq(Local, CutsOn, KillableQuery.FilesKey -> "true")
      val last = runWithoutFrames(checkpoint, job, confs) { epoch =>
        assert(
          Files.exists(KillableQuery.fileSinkEntry(job, epoch)),
          "the sink has not committed the epoch"
        )
      }
      val keys =
        KillableQuery.expected(job, files = 4).map(_.takeWhile(_ != ' ').toInt).toSeq.sorted
      assert(last.lines(KillableQuery.FileRows) == Seq(keys.mkString(" ")))
      val state = last.lines(KillableQuery.StateRows).flatMap("\\[(\\d+)".r.findAllMatchIn(_))
      assert(state.map(_.group(1).toInt).sorted == keys)
    }
  }

  /**
   * Drivers die between the sink and the cut of two epochs, and the frames of these epochs are
   * deleted. Before the first of them no cut lists the stores.
   */
  private def runWithoutFrames(checkpoint: Path, job: Job, confs: Seq[(String, String)])(
      afterDeath: Long => Any
  ): ChildDriver.End = {
    (0 until 4).foreach(KillableQuery.write(job, _))
    for (epoch <- Seq(0L, 2L)) {
      val cut = CutLayout.cut(epoch).split('/').last
      val died = run(job, confs :+ fatal(cut): _*)
      assert(died.exitCode == 137, died.printed)
      assert(archive(checkpoint).cuts.epochs() == (0L until epoch))
      afterDeath(epoch)
      val segments = archive(checkpoint).segments.keys().collect { case (`epoch`, key) => key }
      assert(segments.nonEmpty)
      archive(checkpoint).delete(segments)
    }
    val last = run(job, confs: _*)
    assert(last.exitCode == 0, last.printed)
    assert(archive(checkpoint).cuts.epochs() == (0L to 3L))
    last
  }
}
