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
import io.cleancut.testkit.{NonAtomicFiles, TestDirectory}

/** File systems that may decide between two drivers, and the detection of others. */
class AtomicRenameSuite extends AnyFunSuite with BeforeAndAfterEach {
  private val directory = Files.createTempDirectory("renames")

  override protected def beforeEach(): Unit = {
    Files.createDirectories(directory)
    ()
  }

  override protected def afterEach(): Unit = {
    NonAtomicFiles.between.set(_ => ())
    TestDirectory.delete(directory)
  }

  private def at(scheme: String) = new Path(s"$scheme://host$directory/q")

  private def open(scheme: String, conf: Configuration): HadoopStore =
    HadoopStore.open(at(scheme), conf, Clock.System)

  private def refusal(scheme: String, conf: Configuration): CleancutException =
    intercept[CleancutException](open(scheme, conf))

  private def trusted(scheme: String): Configuration = {
    val conf = NonAtomicFiles.conf(scheme)
    conf.set(Keys.TrustedScheme.name, scheme)
    conf
  }

  test("an unknown file system is refused, and the error names the key to trust it") {
    val thrown = refusal("looking", NonAtomicFiles.conf("looking"))
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_UNSAFE")
    assert(thrown.getMessage.contains("stateStore.cleancut.trustedScheme=looking"))
    val other = trusted("looking")
    other.set(Keys.TrustedScheme.name, "seeing")
    assert(refusal("looking", other).errorId == "CLEANCUT_OBJECT_STORE_UNSAFE")
  }

  test("the write probe races on a trusted file system, and detects a rename that checks first") {
    // No writer renames before two have checked, so that the first race detects it.
    val checked = new CountDownLatch(2)
    NonAtomicFiles.between.set { path =>
      if (path.getName.startsWith("race-")) {
        checked.countDown()
        checked.await(60, TimeUnit.SECONDS)
      }
      ()
    }
    val store = open("looking", trusted("looking"))
    val thrown = intercept[CleancutException](new WriteProbe(store, Clock.System).run())
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_UNSAFE")
    assert(thrown.getMessage.contains("writers create one object at the same time"))
    assert(checked.getCount == 0, "the number of writers that did not check")
    assert(store.list(ObjectPrefix.All).isEmpty)
  }

  test("without a race the write probe does not detect such a file system") {
    val store = open("looking", trusted("looking"))
    val key = ObjectKey("a")
    def create(text: String) =
      store.create(key, text.getBytes, WriterToken.fresh(Clock.System))
    assert(create("one") == CreateResult.Created)
    assert(create("two") == CreateResult.Exists(None))
  }

  test("a removed trust setting takes effect in the same driver") {
    val held = SharedStores.onFiles(at("looking"), trusted("looking"))
    assert(SharedStores.onFiles(at("looking"), trusted("looking")) eq held)
    val thrown = intercept[CleancutException] {
      SharedStores.onFiles(at("looking"), NonAtomicFiles.conf("looking"))
    }
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_UNSAFE")
  }

  test("a trust setting does not permit file systems that rename by copying") {
    for (scheme <- Seq("s3a", "gs", "wasbs"))
      assert(refusal(scheme, trusted(scheme)).errorId == "CLEANCUT_OBJECT_STORE_UNSAFE")
  }

  test("HDFS and Ozone are supported") {
    for (scheme <- Seq("hdfs", "ofs", "o3fs"))
      assert(open(scheme, NonAtomicFiles.conf(scheme)).probeRaces == ObjectStore.ProbeRaces, scheme)
  }

  test("an Azure account requires a hierarchical namespace") {
    for (scheme <- Seq("abfs", "abfss")) {
      assert(refusal(scheme, NonAtomicFiles.conf(scheme)).getMessage.contains("hierarchical"))
      val hierarchical = NonAtomicFiles.conf(scheme)
      hierarchical.set(s"fs.$scheme.impl", classOf[HierarchicalFiles].getName)
      assert(open(scheme, hierarchical).probeRaces == ObjectStore.ProbeRaces)
    }
  }

  test("a view is supported if its target is supported") {
    def viewOf(target: String): Configuration = {
      val scheme = new Path(target).toUri.getScheme
      val conf = if (scheme == "file") new Configuration else NonAtomicFiles.conf(scheme)
      conf.set("fs.viewfs.mounttable.host.link./data", target)
      conf.set("fs.viewfs.impl.disable.cache", "true")
      conf
    }
    def open(conf: Configuration) =
      HadoopStore.open(new Path("viewfs://host/data/q"), conf, Clock.System)
    def refused(conf: Configuration) = intercept[CleancutException](open(conf)).getMessage
    assert(open(viewOf(s"hdfs://host$directory")).probeRaces == ObjectStore.ProbeRaces)
    assert(refused(viewOf(s"looking://host$directory")).contains("looking://"))
    // Below a view a local file is renamed, and not linked.
    assert(refused(viewOf(s"file://$directory")).contains("file://"))
    assert(refused(viewOf(s"hdfs://host$directory/absent")).contains("mount point"))
  }
}

/** A file system with the capabilities of an account with a hierarchical namespace. */
class HierarchicalFiles extends NonAtomicFiles {
  override def hasPathCapability(path: Path, capability: String): Boolean =
    capability == CommonPathCapabilities.FS_ACLS
}
