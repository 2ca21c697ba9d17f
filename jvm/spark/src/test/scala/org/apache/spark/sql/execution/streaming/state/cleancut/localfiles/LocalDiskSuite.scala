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
 * Compares files on a local disk, which are created without Hadoop's processes, with those of
 * Spark's file manager, under several masks.
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
      val sums = Seq("ours", "theirs").map(name => directory.resolve(s".$name.delta.crc"))
      assert(sums.map(Files.readAllBytes(_).toSeq).distinct.size == 1)
      assert(sums.map(Files.getPosixFilePermissions(_)).distinct.size == 1)
      val read = manager.open(new Path(hadoopPath(directory), "ours.delta"))
      try assert(read.readAllBytes().sameElements(bytes))
      finally read.close()
    }

  for (mask <- Seq("022", "077", "000"))
    test(s"a directory is created with its parents, as by Spark's file manager, mask $mask") {
      val (directory, conf) = (temporary(), hadoopsOwn("fs.permissions.umask-mode" -> mask))
      val manager = new FileContextBasedCheckpointFileManager(hadoopPath(directory), conf)
      val local = LocalDisk.of(hadoopPath(directory), manager, conf).get
      val made = Seq[Path => Unit](local.mkdirs, manager.mkdirs).zipWithIndex.map {
        case (mkdirs, number) =>
          val root = directory.resolve(s"$number")
          // Again, and next to an existing one.
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

  test("a directory can be created concurrently, and a file with its name is kept") {
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

  test("a cancelled file is deleted, a closed one is kept, and none is replaced") {
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

  test("checksums match the existing file, whichever manager created it") {
    val (directory, conf) = (temporary(), hadoopsOwn())
    val theirs = new FileContextBasedCheckpointFileManager(hadoopPath(directory), conf)
    val ours = new CleancutCheckpointFileManager(hadoopPath(directory), conf)
    val path = new Path(hadoopPath(directory), "state")
    val sums = directory.resolve(".state.crc")
    write(theirs, path, 1, overwrites = false)
    intercept[FileAlreadyExistsException](write(ours, path, 2, overwrites = false))
    assert(read(theirs, path) == 1 && Files.exists(sums), "the file keeps its checksums")
    write(theirs, path, 2, overwrites = true)
    write(ours, path, 3, overwrites = true)
    assert(read(theirs, path) == 3 && read(ours, path) == 3 && Files.exists(sums))
    write(theirs, path, 4, overwrites = true)
    assert(read(ours, path) == 4)
    // And a file that was deleted without its checksums.
    Files.delete(directory.resolve("state"))
    write(ours, path, 5, overwrites = false)
    assert(read(theirs, path) == 5)
    // Hadoop's usual view of a local disk checks them.
    val disk = new LocalFileSystem
    disk.initialize(directory.toUri, conf)
    Using.resource(disk.open(path))(in => assert(in.readAllBytes().forall(_ == 5)))
    Files.write(directory.resolve("state"), Array.fill[Byte](1000)(6))
    intercept[ChecksumException](Using.resource(disk.open(path))(_.readAllBytes()))
    assert(allNames(directory).toSet == Set("state", ".state.crc"))
  }

  test("of concurrent writers of one file one succeeds, and the file has all its bytes") {
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

  test("other managers, file systems and schemes are not replaced") {
    val directory = hadoopPath(temporary())
    val unreplaced = hadoopsOwn()
    val byContext = new FileContextBasedCheckpointFileManager(directory, unreplaced)
    assert(LocalDisk.of(directory, byContext, unreplaced).isDefined)
    val byFileSystem = new FileSystemBasedCheckpointFileManager(directory, unreplaced)
    assert(LocalDisk.of(directory, byFileSystem, unreplaced).isEmpty)
    val subclass = new FileContextBasedCheckpointFileManager(directory, unreplaced) {}
    assert(LocalDisk.of(directory, subclass, unreplaced).isEmpty)
    // The file system of the tests.
    assert(LocalDisk.of(directory, byContext, new Configuration).isEmpty)
    assert(LocalDisk.of(new Path("hdfs://host/a"), byContext, unreplaced).isEmpty)
  }

  test("stores with and without this implementation read each other's frames") {
    val unreplaced = hadoopsOwnSettings
    val setup = Providers.setup()
    for (version <- 0 until 6) {
      val hadoop = if (version % 2 == 0) unreplaced else Map.empty[String, String]
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

  /** Hadoop's local file system, which the tests' JVMs replace. */
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
