package org.apache.spark.sql.execution.streaming.state.cleancut.localfiles

import java.nio.file.attribute.PosixFilePermissions
import java.nio.file.{Files, Path => LocalPath}
import java.util.concurrent.{CountDownLatch, Executors}

import scala.jdk.CollectionConverters._
import scala.util.{Try, Using}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{ChecksumException, FileAlreadyExistsException, LocalFileSystem, Path}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.checkpointing._
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.Providers
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.Providers._

import io.cleancut.CleancutCheckpointFileManager
import io.cleancut.testkit.TestDirectory

/**
 * Files on a local disk are made without Hadoop's processes, and are what Spark's file manager
 * would have made: it is compared with what that makes, under several masks.
 */
class LocalDiskSuite extends AnyFunSuite {
  import LocalDiskSuite._

  for (mask <- Seq("022", "077", "002", "000"))
    test(s"a file has the bytes and permissions of Spark's file manager, mask $mask") {
      val (directory, conf) = (temporary(), hadoopsOwn("fs.permissions.umask-mode" -> mask))
      val manager = new FileContextBasedCheckpointFileManager(hadoopPath(directory), conf)
      val local = LocalDisk.of(hadoopPath(directory), manager, conf).get
      val bytes = Array.tabulate[Byte](200000)(_.toByte)
      val ours = make(local, new Path(hadoopPath(directory), "ours.delta"))
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
      val sums = Seq("ours", "theirs").map(of => directory.resolve(s".$of.delta.crc"))
      assert(sums.map(Files.readAllBytes(_).toSeq).distinct.size == 1)
      assert(sums.map(Files.getPosixFilePermissions(_)).distinct.size == 1)
      val read = manager.open(new Path(hadoopPath(directory), "ours.delta"))
      try assert(read.readAllBytes().sameElements(bytes))
      finally read.close()
    }

  for (mask <- Seq("022", "077", "000"))
    test(
      s"a directory is made with those that it lies in, as Spark's file manager does, mask $mask"
    ) {
      val (directory, conf) = (temporary(), hadoopsOwn("fs.permissions.umask-mode" -> mask))
      val manager = new FileContextBasedCheckpointFileManager(hadoopPath(directory), conf)
      val local = LocalDisk.of(hadoopPath(directory), manager, conf).get
      val made = Seq[Path => Unit](local.mkdirs, manager.mkdirs).zipWithIndex.map {
        case (mkdirs, number) =>
          val root = directory.resolve(s"$number")
          // Again, and beside what is there.
          Seq("state/0/1", "state/0/1", "state/0/2").foreach { name =>
            mkdirs(new Path(hadoopPath(root), name))
          }
          Seq("state", "state/0", "state/0/1", "state/0/2").map { name =>
            PosixFilePermissions.toString(Files.getPosixFilePermissions(root.resolve(name)))
          }
      }
      assert(made.distinct.size == 1)
      assert(made.head.distinct.size == 1)
    }

  test("a directory that many make at once is made, and a file in its place stays") {
    val (directory, conf) = (temporary(), hadoopsOwn())
    val manager = new FileContextBasedCheckpointFileManager(hadoopPath(directory), conf)
    val local = LocalDisk.of(hadoopPath(directory), manager, conf).get
    val names = for (_ <- 1 to 50; name <- 1 to 20) yield s"a/$name/b"
    val pool = Executors.newFixedThreadPool(8)
    try
      names
        .map(name => pool.submit[Unit](() => local.mkdirs(new Path(hadoopPath(directory), name))))
        .foreach(_.get())
    finally pool.shutdown()
    assert(names.forall(name => Files.isDirectory(directory.resolve(name))))
    Files.write(directory.resolve("file"), Array[Byte](1))
    intercept[FileAlreadyExistsException](local.mkdirs(new Path(hadoopPath(directory), "file")))
    assert(Files.readAllBytes(directory.resolve("file")).toSeq == Seq[Byte](1))
  }

  test("a cancelled file leaves nothing, a closed one stays, and none is replaced") {
    val (directory, conf) = (temporary(), hadoopsOwn())
    val manager = new FileContextBasedCheckpointFileManager(hadoopPath(directory), conf)
    val local = LocalDisk.of(hadoopPath(directory), manager, conf).get
    val path = new Path(hadoopPath(directory), "1.delta")
    val cancelled = make(local, path)
    cancelled.write(1)
    cancelled.cancel()
    cancelled.close()
    assert(allNames(directory).isEmpty)
    val first = make(local, path)
    val second = make(local, path)
    first.write(1)
    first.close()
    first.cancel()
    second.write(2)
    intercept[FileAlreadyExistsException](second.close())
    assert(allNames(directory).toSet == Set("1.delta", ".1.delta.crc"))
    assert(Files.readAllBytes(directory.resolve("1.delta")).sameElements(Array[Byte](1)))
  }

  test("checksums are those of the file that is there, whoever made it") {
    val (directory, conf) = (temporary(), hadoopsOwn())
    val theirs = new FileContextBasedCheckpointFileManager(hadoopPath(directory), conf)
    val ours = new CleancutCheckpointFileManager(hadoopPath(directory), conf)
    val path = new Path(hadoopPath(directory), "state")
    val sums = directory.resolve(".state.crc")
    write(theirs, path, 1, overwrites = false)
    intercept[FileAlreadyExistsException](write(ours, path, 2, overwrites = false))
    assert(read(theirs, path) == 1 && Files.exists(sums), "that of a file that stays")
    write(theirs, path, 2, overwrites = true)
    write(ours, path, 3, overwrites = true)
    assert(read(theirs, path) == 3 && read(ours, path) == 3 && Files.exists(sums))
    write(theirs, path, 4, overwrites = true)
    assert(read(ours, path) == 4)
    // And one that went without its checksums.
    Files.delete(directory.resolve("state"))
    write(ours, path, 5, overwrites = false)
    assert(read(theirs, path) == 5)
    // That of a local disk as most of Hadoop sees it checks them.
    val disk = new LocalFileSystem
    disk.initialize(directory.toUri, conf)
    Using.resource(disk.open(path))(in => assert(in.readAllBytes().forall(_ == 5)))
    Files.write(directory.resolve("state"), Array.fill[Byte](1000)(6))
    intercept[ChecksumException](Using.resource(disk.open(path))(_.readAllBytes()))
    assert(allNames(directory).toSet == Set("state", ".state.crc"))
  }

  test("of many who make one file at a time one succeeds, and it has all of that one's bytes") {
    val (directory, conf) = (temporary(), hadoopsOwn())
    val path = new Path(hadoopPath(directory), "7")
    val threads = Executors.newFixedThreadPool(Writers)
    try
      for (_ <- 0 until Races) {
        val start = new CountDownLatch(1)
        val managers =
          Seq.fill(Writers)(new CleancutCheckpointFileManager(hadoopPath(directory), conf))
        val made = managers.zipWithIndex.map { case (files, writer) =>
          threads.submit { () =>
            start.await()
            Try(write(files, path, writer, overwrites = false)).isSuccess
          }
        }
        start.countDown()
        val winners = made.map(_.get).zipWithIndex.collect { case (true, writer) => writer }
        assert(winners.map(Option(_)) == Seq(Some(read(managers.head, path))))
        assert(names(directory) == Seq("7"))
        managers.head.delete(path)
      }
    finally threads.shutdown()
  }

  test("another manager, another file system and another scheme are asked") {
    val directory = hadoopPath(temporary())
    val own = hadoopsOwn()
    val byContext = new FileContextBasedCheckpointFileManager(directory, own)
    assert(LocalDisk.of(directory, byContext, own).isDefined)
    val byFileSystem = new FileSystemBasedCheckpointFileManager(directory, own)
    assert(LocalDisk.of(directory, byFileSystem, own).isEmpty)
    val subclass = new FileContextBasedCheckpointFileManager(directory, own) {}
    assert(LocalDisk.of(directory, subclass, own).isEmpty)
    // That of the tests.
    assert(LocalDisk.of(directory, byContext, new Configuration).isEmpty)
    assert(LocalDisk.of(new Path("hdfs://host/a"), byContext, own).isEmpty)
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

object LocalDiskSuite {
  private val Writers = 4
  private val Races = 50

  private val hadoopsOwnSettings: Map[String, String] =
    Map("fs.AbstractFileSystem.file.impl" -> "org.apache.hadoop.fs.local.LocalFs")

  /** Hadoop's own local disk, which the tests' JVMs have replaced. */
  private def hadoopsOwn(more: (String, String)*): Configuration = {
    val conf = new Configuration
    (hadoopsOwnSettings ++ more).foreach { case (key, value) => conf.set(key, value) }
    conf
  }

  private def temporary(): LocalPath = {
    val directory = Files.createTempDirectory("cleancut-local-disk")
    sys.addShutdownHook(TestDirectory.delete(directory))
    directory
  }

  private def hadoopPath(directory: LocalPath): Path = new Path(directory.toUri)

  private def write(
      files: CheckpointFileManager,
      path: Path,
      number: Int,
      overwrites: Boolean
  ): Unit = {
    val out = files.createAtomic(path, overwrites)
    out.write(Array.fill(1000)(number.toByte))
    out.close()
  }

  private def make(local: LocalDisk, path: Path) =
    local.create(path, overwrites = false, hasSums = true)

  private def read(files: CheckpointFileManager, path: Path): Int = {
    val in = files.open(path)
    try {
      val bytes = in.readAllBytes()
      assert(bytes.length == 1000 && bytes.distinct.length == 1)
      bytes.head.toInt
    } finally in.close()
  }

  private def names(directory: LocalPath): Seq[String] =
    allNames(directory).filterNot(_.endsWith(".crc"))

  private def allNames(directory: LocalPath): Seq[String] = {
    val listed = Files.list(directory)
    try listed.iterator.asScala.map(_.getFileName.toString).toSeq
    finally listed.close()
  }
}
