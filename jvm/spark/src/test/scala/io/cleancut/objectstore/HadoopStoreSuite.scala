package io.cleancut.objectstore

import java.io.IOException
import java.nio.file.{Files, Path => NioPath}

import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileContext, FileSystem, FilterFileSystem, Path}

import io.cleancut.base.Clock
import io.cleancut.error.CleancutException
import io.cleancut.objectstore.hadoop.{HadoopStore, Publication, RenamePublication}
import io.cleancut.testkit.{NonAtomicFiles, TestDirectory}

/** The Hadoop implementation on the local disk. */
class HadoopStoreSuite extends HadoopContract {
  private val conf = new Configuration
  private var directory: NioPath = _

  override protected def files: FileSystem = FileSystem.getLocal(conf)

  override protected def root: Path = new Path(directory.toUri)

  override protected def openEmpty(): ObjectStore = {
    directory = Files.createTempDirectory("objects")
    HadoopStore.open(root, conf, Clock.System)
  }

  override protected def afterEach(): Unit = {
    super.afterEach()
    TestDirectory.delete(directory)
  }

  test("a pending file of a crashed writer is not listed and does not block a create") {
    store.put(ObjectKey("b"), bytes("x"))
    Files.writeString(directory.resolve(".cleancut-pending/0000-a"), "half of it")
    assert(store.list(ObjectPrefix.All).map(_.key.name).toSeq == Seq("b"))
    assert(store.get(ObjectKey("a")).isEmpty)
    val result = store.create(ObjectKey("a"), bytes("whole"), WriterToken.fresh(Clock.System))
    assert(result == CreateResult.Created)
  }

  test("a pending link of a crashed writer does not affect the object") {
    val key = ObjectKey("a")
    store.create(key, bytes("one"), WriterToken.fresh(Clock.System))
    Files.createLink(directory.resolve(".cleancut-pending/0000-a"), directory.resolve("a"))
    val result = store.create(key, bytes("two"), WriterToken.fresh(Clock.System))
    assert(result == CreateResult.Exists(writer = None))
    assert(store.get(key).map(_.toSeq).contains(bytes("one").toSeq))
    assert(store.list(ObjectPrefix.All).size == 1)
  }

  test("a listing of one level has no pending files, and marks foreign names") {
    store.put(ObjectKey("a/b"), bytes("x"))
    Files.writeString(directory.resolve("a/with space"), "x")
    Files.writeString(directory.resolve("a/.hidden"), "x")
    def level(prefix: String) = store.listLevel(ObjectPrefix(prefix)).toSet
    assert(level("") == Set(Listed.Below(ObjectPrefix("a/"))))
    val listed = level("a/")
    assert(listed.size == 2 && listed(Listed.Foreign("a/with space")))
  }

  test("an object below another object is refused") {
    assert(store.head(ObjectKey("a/b/c")).isEmpty && store.get(ObjectKey("a/b/c")).isEmpty)
    store.put(ObjectKey("a/b"), bytes("x"))
    val thrown = intercept[CleancutException](store.put(ObjectKey("a/b/c"), bytes("y")))
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_REFUSED")
    assert(store.counts.failures == 1)
  }

  /** A rename whose first response is lost, and which takes effect later. */
  private class LateRename(isRetried: Boolean) extends Publication {
    private val rename =
      new RenamePublication(FileContext.getFileContext(files.getUri, conf), files)
    private var late = Option.empty[() => Unit]

    def takeEffect(): Unit = {
      late.foreach(_())
      late = None
    }

    override def createFrom(pending: Path, target: Path): Boolean =
      if (isRetried && late.isDefined) {
        takeEffect()
        rename.createFrom(pending, target)
      } else {
        late = Some(() => rename.createFrom(pending, target): Unit)
        throw new IOException("the response is lost")
      }

    override def replaceFrom(pending: Path, target: Path): Unit =
      rename.replaceFrom(pending, target)
    override def removeIfEmpty(directory: Path): Boolean = rename.removeIfEmpty(directory)
  }

  private def created(key: ObjectKey, checking: FileSystem, rename: Publication): CreateResult =
    new HadoopStore(root, checking, rename, Clock.System, isTakenOnTrust = false)
      .create(key, bytes("own"), WriterToken.fresh(Clock.System))

  test("a rename that takes effect after its error is recognized as the writer's own") {
    val maxChecks = 12
    for (late <- 1 to maxChecks) {
      val lateRename = new LateRename(isRetried = false)
      var checks = 0
      val checking = new FilterFileSystem(files) {
        override def exists(path: Path): Boolean = {
          checks += 1
          if (checks == late) lateRename.takeEffect()
          super.exists(path)
        }
      }
      val key = ObjectKey(s"late/$late")
      // If the rename takes effect after all checks, the result is unknown.
      Try(created(key, checking, lateRename)).foreach { result =>
        assert(result == CreateResult.Created, s"at check $late")
      }
      assert(store.get(key).forall(_.sameElements(bytes("own"))))
    }
  }

  test("a rename that takes effect before its retry is recognized as the writer's own") {
    val key = ObjectKey("late/retried")
    assert(created(key, files, new LateRename(isRetried = true)) == CreateResult.Created)
    assert(store.get(key).exists(_.sameElements(bytes("own"))))
  }

  test("a file system that renames by copying is refused") {
    val s3a = new Configuration
    s3a.set("fs.s3a.impl", classOf[NonAtomicFiles].getName)
    val thrown = intercept[CleancutException](
      HadoopStore.open(new Path("s3a://bucket/q"), s3a, Clock.System)
    )
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_UNSAFE")
    assert(thrown.getMessage.contains("Use s3://bucket/q,"))
    assert(thrown.getMessage.contains("cleancut clone s3://bucket/q s3://"))
  }

  test("a scheme that Hadoop does not know is refused") {
    val thrown = intercept[CleancutException](
      HadoopStore.open(new Path("nowhere://host/q"), conf, Clock.System)
    )
    assert(thrown.errorId == "CLEANCUT_OBJECT_LOCATION_INVALID")
    assert(thrown.getMessage.contains("nowhere"))
  }
}
