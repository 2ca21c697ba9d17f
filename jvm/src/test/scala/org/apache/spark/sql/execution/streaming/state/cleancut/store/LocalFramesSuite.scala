package org.apache.spark.sql.execution.streaming.state.cleancut.store

import java.nio.file.{Files, Path => LocalPath}
import java.nio.file.attribute.PosixFilePermissions

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.checkpointing._
import org.apache.spark.util.Utils

import Providers._

/**
 * Frames on a local disk are made without Hadoop's processes, and are what Spark's file manager
 * would have made: it is compared with what that makes, under several masks.
 */
class LocalFramesSuite extends AnyFunSuite {
  import LocalFramesSuite._

  for (mask <- Seq("022", "077", "002", "000"))
    test(s"a file has the bytes and permissions of Spark's file manager, mask $mask") {
      val (directory, conf) = (temporary(), hadoopsOwn("fs.permissions.umask-mode" -> mask))
      val manager = new FileContextBasedCheckpointFileManager(hadoopPath(directory), conf)
      val local = LocalFrames.of(hadoopPath(directory), manager, conf).get
      val bytes = Array.tabulate[Byte](200000)(_.toByte)
      val ours = local.create(new Path(hadoopPath(directory), "ours.delta"))
      val theirs =
        manager.createAtomic(new Path(hadoopPath(directory), "theirs.delta"), false)
      for (out <- Seq(ours, theirs)) {
        out.write(bytes, 0, 70000)
        out.write(bytes(70000).toInt)
        out.write(bytes, 70001, bytes.length - 70001)
      }
      assert(names(directory).forall(_.startsWith(".")), "a file appeared before it was closed")
      Seq(ours, theirs).foreach(_.close())
      val modes = Seq("ours.delta", "theirs.delta").map { name =>
        assert(Files.readAllBytes(directory.resolve(name)).sameElements(bytes))
        PosixFilePermissions.toString(Files.getPosixFilePermissions(directory.resolve(name)))
      }
      assert(modes.distinct.size == 1)
      val read = manager.open(new Path(hadoopPath(directory), "ours.delta"))
      try assert(read.readAllBytes().sameElements(bytes))
      finally read.close()
    }

  test("a cancelled file leaves nothing, a closed one stays, and none is replaced") {
    val (directory, conf) = (temporary(), hadoopsOwn())
    val manager = new FileContextBasedCheckpointFileManager(hadoopPath(directory), conf)
    val local = LocalFrames.of(hadoopPath(directory), manager, conf).get
    val path = new Path(hadoopPath(directory), "1.delta")
    val cancelled = local.create(path)
    cancelled.write(1)
    cancelled.cancel()
    cancelled.close()
    assert(names(directory).isEmpty)
    val first = local.create(path)
    val second = local.create(path)
    first.write(1)
    first.close()
    first.cancel()
    second.write(2)
    intercept[FileAlreadyExistsException](second.close())
    assert(names(directory) == Seq("1.delta"))
    assert(Files.readAllBytes(directory.resolve("1.delta")).sameElements(Array[Byte](1)))
  }

  test("another manager, another file system and another scheme are asked") {
    val directory = hadoopPath(temporary())
    val own = hadoopsOwn()
    val byContext = new FileContextBasedCheckpointFileManager(directory, own)
    assert(LocalFrames.of(directory, byContext, own).isDefined)
    val byFileSystem = new FileSystemBasedCheckpointFileManager(directory, own)
    assert(LocalFrames.of(directory, byFileSystem, own).isEmpty)
    val subclass = new FileContextBasedCheckpointFileManager(directory, own) {}
    assert(LocalFrames.of(directory, subclass, own).isEmpty)
    // That of the tests.
    assert(LocalFrames.of(directory, byContext, new Configuration).isEmpty)
    assert(LocalFrames.of(new Path("hdfs://host/a"), byContext, own).isEmpty)
  }

  test("a store whose frames are made so is read by one whose are not, and the other way") {
    val own = hadoopsOwnSettings
    val setup = Providers.setup()
    for (version <- 0 until 6) {
      val hadoop = if (version % 2 == 0) own else Map.empty[String, String]
      val provider = setup.copy(hadoop = hadoop).open()
      val store = provider.getStore(version.toLong)
      for (id <- 0 until version) assert(store.get(key(id.toLong)) == value(id.toLong))
      store.put(key(version.toLong), value(version.toLong))
      assert(store.commit() == version + 1)
      provider.close()
    }
    val sums = setup.frames.map(f => Files.exists(f.resolveSibling(s".${f.getFileName}.crc")))
    assert(sums == Seq(false, true, false, true, false, true))
  }
}

object LocalFramesSuite {
  private val hadoopsOwnSettings: Map[String, String] =
    Map("fs.AbstractFileSystem.file.impl" -> "org.apache.hadoop.fs.local.LocalFs")

  /** Hadoop's own local disk, which the tests' JVMs have replaced. */
  private def hadoopsOwn(more: (String, String)*): Configuration = {
    val conf = new Configuration
    (hadoopsOwnSettings ++ more).foreach { case (key, value) => conf.set(key, value) }
    conf
  }

  private def temporary(): LocalPath =
    Utils.createTempDir(namePrefix = "cleancut-local-frames").toPath

  private def hadoopPath(directory: LocalPath): Path = new Path(directory.toUri)

  private def names(directory: LocalPath): Seq[String] = {
    val listed = Files.list(directory)
    try listed.iterator.asScala.map(_.getFileName.toString).filterNot(_.endsWith(".crc")).toSeq
    finally listed.close()
  }
}
