package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.atomic.AtomicInteger

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}
import org.scalatest.BeforeAndAfterEach
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.CleancutFileSystem
import io.cleancut.base.Clock
import io.cleancut.conf.Keys
import io.cleancut.error.CleancutException
import io.cleancut.objectstore.{ObjectKey, ObjectStore, S3TestStore}
import io.cleancut.testkit.{ProxiedServer, S3Server}

/** Hadoop's view of a bucket, through Hadoop's API. */
class CleancutFileSystemSuite extends AnyFunSuite with ProxiedServer with BeforeAndAfterEach {
  private var store: ObjectStore = _
  private val runs = new AtomicInteger

  override protected def beforeEach(): Unit = {
    runs.incrementAndGet()
    store = S3TestStore.open(server.endpoint, location.toString)
  }

  override protected def afterEach(): Unit = store.close()

  private def location = new Path(s"s3://${S3Server.Bucket}/tree-${runs.get}")

  private def conf: Configuration = {
    val made = new Configuration
    made.set("fs.s3.impl", classOf[CleancutFileSystem].getName)
    made.set("fs.s3.impl.disable.cache", "true")
    made.set(Keys.S3Endpoint.name, endpoint)
    made.set(Keys.S3Region.name, "us-east-1")
    made
  }

  private def files: FileSystem = location.getFileSystem(conf)

  private def put(names: String*): Unit =
    names.foreach(name => store.put(ObjectKey(name), name.getBytes(UTF_8)))

  private def below(name: String) = new Path(location, name)

  private def names(path: Path): Seq[String] = files
    .listStatus(path)
    .map { status =>
      assert(files.getFileStatus(status.getPath).isDirectory == status.isDirectory)
      status.getPath.getName + (if (status.isDirectory) "/" else "")
    }
    .toSeq

  test("a file is read from any position") {
    val body = Clock.System.randomBytes(9 << 20)
    store.put(ObjectKey("a/b"), body)
    Using.resource(files.open(below("a/b"))) { in =>
      assert(java.util.Arrays.equals(in.readAllBytes(), body))
      in.seek(body.length - 3L)
      assert(in.read() == (body(body.length - 3) & 0xff) && in.getPos == body.length - 2)
      val middle = new Array[Byte](1 << 20)
      in.readFully(4L << 20, middle)
      assert(java.util.Arrays.equals(middle, body.slice(4 << 20, 5 << 20)))
    }
    intercept[FileNotFoundException](files.open(below("a")))
    intercept[FileNotFoundException](files.open(below("c")))
  }

  test("a directory exists as long as there is an object below it") {
    put("a", "d/1", "d/e/2")
    val file = files.getFileStatus(below("d/1"))
    assert(file.isFile && file.getLen == 3 && file.getModificationTime > 0)
    assert(file.getPath == below("d/1"))
    assert(names(location) == Seq("a", "d/") && names(below("d")) == Seq("1", "e/"))
    assert(files.exists(below("d/e")) && !files.exists(below("f")))
    intercept[FileNotFoundException](files.getFileStatus(below("f")))
    intercept[FileNotFoundException](files.listStatus(below("f")))
    assert(files.listStatus(below("a")).map(_.getPath).toSeq == Seq(below("a")))
    assert(files.getFileStatus(new Path(s"s3://${S3Server.Bucket}/")).isDirectory)
    store.delete(Seq("d/1", "d/e/2").map(ObjectKey(_)))
    assert(!files.exists(below("d")))
  }

  test("patterns match names") {
    put("a/1.cut", "a/2.cut", "a/2.seg", "b/3.cut")
    val matched = files.globStatus(below("*/*.cut")).map(_.getPath)
    assert(matched.toSeq == Seq("a/1.cut", "a/2.cut", "b/3.cut").map(below))
    assert(files.globStatus(below("c/*")).isEmpty)
  }

  test(
    "the partitions of an operator are listed as directories, as Spark's state reader requires"
  ) {
    put("state/0/_metadata/metadata", "state/0/0/_metadata/schema", "state/1/_metadata/metadata")
    for (partition <- 0 to 11) put(s"cleancut/stores/0/$partition/default/1.base")
    put("cleancut/stores/1/0/left/1.base", "cleancut/stores/1/0/right/1.base")
    assert(names(below("state/0")).toSet == Set("_metadata/") ++ (0 to 11).map(i => s"$i/"))
    assert(names(below("state/1")) == Seq("0/", "_metadata/"))
    assert(names(below("state/0/7")) == Nil && !files.exists(below("state/0/12")))
    // A directory of the same name elsewhere has none.
    put("other/state/0/x")
    assert(names(below("other/state/0")) == Seq("x"))
  }

  test("a filter gets the status of a listed path without a request") {
    put("state/0/_metadata/metadata")
    for (partition <- 0 to 99) put(s"cleancut/stores/0/$partition/default/1.base")
    val opened = files
    val before = proxy.requests.size
    val matched = opened.listStatus(
      below("state/0"),
      (path: Path) => opened.getFileStatus(path).isDirectory && path.getName != "_metadata"
    )
    // Two listings of one level, and one listing of the cuts.
    assert(matched.length == 100 && proxy.requests.size - before == 3)
  }

  test("names with special characters of Hadoop, URIs or shells are listed and read") {
    val odd = Seq("with space", "12:30", "a+b", "@x", ".hidden", "a%20b", "a#b?c")
    odd.foreach(name => put(s"$name/x"))
    val matched = files.listStatus(location).map(_.getPath)
    assert(matched.map(_.getName).toSet == odd.toSet)
    matched.foreach(path => assert(files.listStatus(path).map(_.getPath.getName).toSeq == Seq("x")))
  }

  test("writes are refused, with an error that names the alternative") {
    put("a/1")
    val path = below("a/1")
    val writes = Seq[(String, FileSystem => Any)](
      "create" -> (_.create(path)),
      "create" -> (_.createNewFile(below("new"))),
      "append to" -> (_.append(path)),
      "append to" -> (_.concat(path, Array(path))),
      "rename" -> (_.rename(path, below("b"))),
      "delete" -> (_.delete(path, false)),
      "truncate" -> (_.truncate(path, 1L)),
      "make the directory" -> (_.mkdirs(below("b")))
    )
    for ((operation, write) <- writes) {
      val thrown = intercept[CleancutException](write(files))
      assert(thrown.errorId == "CLEANCUT_FILE_SYSTEM_READ_ONLY")
      assert(thrown.getMessage.contains(s"cannot $operation s3://"), thrown.getMessage)
    }
    assert(names(location) == Seq("a/"))
  }

  test("paths of other buckets and schemes are refused") {
    intercept[IllegalArgumentException](files.getFileStatus(new Path("s3://other/a")))
    val thrown = intercept[Exception](new Path("s3:///a").getFileSystem(conf))
    assert(thrown.getMessage.contains("not the name of a bucket"))
  }
}
