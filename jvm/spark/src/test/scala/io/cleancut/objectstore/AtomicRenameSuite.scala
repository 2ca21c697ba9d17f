package io.cleancut.objectstore

import java.nio.file.Files
import java.util.concurrent.{CountDownLatch, TimeUnit}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{CommonPathCapabilities, Path}
import org.scalatest.BeforeAndAfterEach
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.SharedStores

import io.cleancut.base.Clock
import io.cleancut.conf.Keys
import io.cleancut.error.CleancutException
import io.cleancut.objectstore.hadoop.HadoopStore
import io.cleancut.testkit.{LookingFiles, TestDirectory}

/** Which file systems may decide between two drivers, and what finds out one that cannot. */
class AtomicRenameSuite extends AnyFunSuite with BeforeAndAfterEach {
  private val directory = Files.createTempDirectory("renames")

  override protected def beforeEach(): Unit = {
    Files.createDirectories(directory)
    ()
  }

  override protected def afterEach(): Unit = {
    LookingFiles.between.set(_ => ())
    TestDirectory.delete(directory)
  }

  private def at(scheme: String) = new Path(s"$scheme://host$directory/q")

  private def open(scheme: String, conf: Configuration): HadoopStore =
    HadoopStore.open(at(scheme), conf, Clock.System)

  private def refusal(scheme: String, conf: Configuration): CleancutException =
    intercept[CleancutException](open(scheme, conf))

  private def vouched(scheme: String): Configuration = {
    val conf = LookingFiles.conf(scheme)
    conf.set(Keys.TrustedScheme.name, scheme)
    conf
  }

  test("a file system that nobody knows is refused, with the key that says one does") {
    val thrown = refusal("looking", LookingFiles.conf("looking"))
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_UNSAFE")
    assert(thrown.getMessage.contains("stateStore.cleancut.trustedScheme=looking"))
    val other = vouched("looking")
    other.set(Keys.TrustedScheme.name, "seeing")
    assert(refusal("looking", other).errorId == "CLEANCUT_OBJECT_STORE_UNSAFE")
  }

  test("one that is vouched for is raced, and a rename that looks first is found out") {
    // No writer renames before two have looked, so that the first race shows the defect.
    val looked = new CountDownLatch(2)
    LookingFiles.between.set { path =>
      if (path.getName.startsWith("race-")) {
        looked.countDown()
        looked.await(60, TimeUnit.SECONDS)
      }
      ()
    }
    val store = open("looking", vouched("looking"))
    val thrown = intercept[CleancutException](new WriteProbe(store, Clock.System).run())
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_UNSAFE")
    assert(thrown.getMessage.contains("writers create one object at the same time"))
    assert(looked.getCount == 0, "is the number of writers that the race has not waited for")
    assert(store.list(ObjectPrefix.All).isEmpty)
  }

  test("without a race the same file system is believed: a probe of one writer finds nothing") {
    val store = open("looking", vouched("looking"))
    val key = ObjectKey("a")
    def create(text: String) =
      store.create(key, text.getBytes, WriterToken.fresh(Clock.System))
    assert(create("one") == CreateResult.Created)
    assert(create("two") == CreateResult.Exists(None))
  }

  test("a word that is taken back counts no more, in the same driver too") {
    val held = SharedStores.onFiles(at("looking"), vouched("looking"))
    assert(SharedStores.onFiles(at("looking"), vouched("looking")) eq held)
    val thrown = intercept[CleancutException] {
      SharedStores.onFiles(at("looking"), LookingFiles.conf("looking"))
    }
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_UNSAFE")
  }

  test("no word makes a copy safe") {
    for (scheme <- Seq("s3a", "gs", "wasbs"))
      assert(refusal(scheme, vouched(scheme)).errorId == "CLEANCUT_OBJECT_STORE_UNSAFE")
  }

  test("HDFS and Ozone are known") {
    for (scheme <- Seq("hdfs", "ofs", "o3fs"))
      assert(open(scheme, LookingFiles.conf(scheme)).probeRaces == ObjectStore.ProbeRaces, scheme)
  }

  test("an Azure account is asked whether it has a hierarchical namespace") {
    for (scheme <- Seq("abfs", "abfss")) {
      assert(refusal(scheme, LookingFiles.conf(scheme)).getMessage.contains("hierarchical"))
      val hierarchical = LookingFiles.conf(scheme)
      hierarchical.set(s"fs.$scheme.impl", classOf[HierarchicalFiles].getName)
      assert(open(scheme, hierarchical).probeRaces == ObjectStore.ProbeRaces)
    }
  }

  test("a view is as good as what it shows there") {
    def viewOf(target: String): Configuration = {
      val scheme = new Path(target).toUri.getScheme
      val conf = if (scheme == "file") new Configuration else LookingFiles.conf(scheme)
      conf.set("fs.viewfs.mounttable.host.link./data", target)
      conf.set("fs.viewfs.impl.disable.cache", "true")
      conf
    }
    def open(conf: Configuration) =
      HadoopStore.open(new Path("viewfs://host/data/q"), conf, Clock.System)
    def refused(conf: Configuration) = intercept[CleancutException](open(conf)).getMessage
    assert(open(viewOf(s"hdfs://host$directory")).probeRaces == ObjectStore.ProbeRaces)
    assert(refused(viewOf(s"looking://host$directory")).contains("looking://"))
    // Behind a view a local file is renamed, and not linked.
    assert(refused(viewOf(s"file://$directory")).contains("file://"))
    assert(refused(viewOf(s"hdfs://host$directory/absent")).contains("mount point"))
  }
}

/** It answers as an account with hierarchical namespace does. */
class HierarchicalFiles extends LookingFiles {
  override def hasPathCapability(path: Path, capability: String): Boolean =
    capability == CommonPathCapabilities.FS_ACLS
}
