package io.cleancut.objects

import java.nio.file.{Files, Path => NioPath}
import java.util.concurrent.atomic.AtomicInteger

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.hadoop.hdfs.MiniDFSCluster

import io.cleancut.Clock
import io.cleancut.testkit.TestDirectory

/** The Hadoop implementation on HDFS, whose name node decides who gets a name. */
class HdfsStoreSuite extends ObjectStoreContract {
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

  override protected def keepsTokens: Boolean = false

  private def root(run: Int) = new Path(cluster.getFileSystem.getUri.toString, s"/run-$run/q")

  override protected def openEmpty(): ObjectStore =
    HadoopStore.open(root(opened.incrementAndGet()), conf, Clock.System)

  test("nothing stays pending, whoever wins") {
    val key = ObjectKey("a")
    for (_ <- 1 to 3) store.create(key, bytes("one"), WriterToken.fresh(Clock.System))
    store.put(key, bytes("two"))
    val pending = new Path(root(opened.get), ".cleancut-pending")
    assert(cluster.getFileSystem.listStatus(pending).isEmpty)
  }
}
