package io.cleancut.e2e

import java.nio.file.{Files, Path => NioPath}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.hadoop.hdfs.MiniDFSCluster
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.Clock
import io.cleancut.cutstore.CutArchive
import io.cleancut.format.{CutLayout, FrameKind}
import io.cleancut.objectstore.hadoop.HadoopStore
import io.cleancut.testkit.{LongTest, KillableHdfs, TestDirectory}

/**
 * A query with its checkpoint on HDFS, from epochs without cuts to epochs with cuts. Its drivers
 * and an executor are killed by SIGKILL. Drivers that die at a selected write have a special HDFS
 * client; the others have that of Hadoop.
 */
class QueryOnHdfsSuite extends AnyFunSuite with KillableRuns with BeforeAndAfterAll {
  import KillableRuns._

  private val conf = new Configuration
  private var directory: NioPath = _
  private var cluster: MiniDFSCluster = _

  override protected def beforeAll(): Unit = {
    directory = Files.createTempDirectory("query-on-hdfs")
    cluster = new MiniDFSCluster.Builder(conf, directory.resolve("hdfs").toFile)
      .numDataNodes(1)
      .build()
    cluster.waitActive()
  }

  override protected def afterAll(): Unit = {
    cluster.shutdown()
    TestDirectory.delete(directory)
  }

  private def checkpoint = new Path(cluster.getFileSystem.getUri.toString, "/queries/sums")

  private def cuts: Seq[Long] = archive.cuts.epochs()

  private def archive = new CutArchive(
    HadoopStore.open(new Path(checkpoint, "cleancut"), conf, Clock.System),
    Clock.System
  )

  private def entries: Seq[Long] = cluster.getFileSystem
    .listStatus(new Path(checkpoint, "commits"))
    .toSeq
    .flatMap(_.getPath.getName.toLongOption)
    .sorted

  test("a query resumes from HDFS after each death, without cuts and with cuts", LongTest) {
    val job = jobIn(directory, checkpoint.toString)
    def died(at: String, confs: (String, String)*) = {
      val end = run(job, KillableHdfs.Confs.toSeq ++ confs :+ fatal(at): _*)
      assert(end.exitCode == 137, end.printed)
    }

    (0 until 2).foreach(KillableQuery.write(job, _))
    died(at = "commits/1", Local)
    assert(entries == Seq(0L) && cuts == Nil)

    // With cuts from epoch 1 on: an executor dies, and then the driver between cut and entry.
    (2 until 5).foreach(KillableQuery.write(job, _))
    died(at = "commits/3", Cluster, CutsOn, KillableQuery.ExecutorDeathKey -> "2")
    assert(entries == (0L to 2L) && cuts == (1L to 3L))
    assert(archive.cuts.read(1).get.stores.forall(_.frames.map(_._1) == Seq(FrameKind.Base)))

    // Between the sink and the cut of an epoch without input, which the previous run could still
    // plan.
    died(at = CutLayout.cut(4).split('/').last, Local)
    assert(entries == (0L to 3L) && cuts == (1L to 3L))

    val last = run(job, Local)
    assert(last.exitCode == 0, last.printed)
    assert(entries == (0L to 5L) && cuts == (1L to 5L))
    assert(KillableQuery.calls(job) == Seq(0, 1, 1, 2, 3, 4, 4, 5).map(_.toString))
    checkRows(job, files = 5, last)
  }
}
