package io.cleancut.objectstore

import java.nio.file.{Files, Path => NioPath}
import java.util.concurrent.atomic.AtomicInteger

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.hadoop.hdfs.MiniDFSCluster

import io.cleancut.base.Clock
import io.cleancut.objectstore.hadoop.HadoopStore
import io.cleancut.testkit.TestDirectory

/** The Hadoop implementation on HDFS, whose name node decides between two writers. */
class HdfsStoreSuite extends HadoopContract {
  private val conf = new Configuration
  private val opened = new AtomicInteger
  private var directory: NioPath = _
  private var cluster: MiniDFSCluster = _

  override protected def beforeAll(): Unit = {
    directory = Files.createTempDirectory("hdfs")
    cluster = new MiniDFSCluster.Builder(conf, directory.toFile).numDataNodes(1).build()
    cluster.waitActive()
  }

  override protected def afterAll(): Unit = {
    cluster.shutdown()
    TestDirectory.delete(directory)
  }

  override protected def files: FileSystem = cluster.getFileSystem

  override protected def root: Path =
    new Path(cluster.getFileSystem.getUri.toString, s"/run-${opened.get}/q")

  override protected def openEmpty(): ObjectStore = {
    opened.incrementAndGet()
    HadoopStore.open(root, conf, Clock.System)
  }
}
