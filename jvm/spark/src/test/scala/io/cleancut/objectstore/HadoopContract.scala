package io.cleancut.objectstore

import java.util.concurrent.{Callable, Executors}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.{FileSystem, Path}

import io.cleancut.base.Clock
import io.cleancut.testkit.Draws

/** The additional contract of stores on Hadoop file systems. */
abstract class HadoopContract extends ObjectStoreContract {
  protected def files: FileSystem

  /** The root of the open store. */
  protected def root: Path

  override protected def keepsTokens: Boolean = false

  private def leftPending: Seq[String] = {
    val directory = new Path(root, ".cleancut-pending")
    if (files.exists(directory)) files.listStatus(directory).toSeq.map(_.getPath.getName) else Nil
  }

  private def isThere(directory: String): Boolean = files.exists(new Path(root, directory))

  test("no pending file remains, whichever writer wins") {
    val key = ObjectKey("a")
    for (_ <- 1 to 3) store.create(key, bytes("one"), WriterToken.fresh(Clock.System))
    store.put(key, bytes("two"))
    assert(leftPending == Nil)
  }

  test("a deletion removes empty directories, and no others") {
    val names = Seq("a/b/1", "a/b/2", "a/c/d/3", "e")
    names.foreach(name => store.put(ObjectKey(name), bytes("x")))
    store.delete(Seq("a/b/1", "a/c/d/3").map(ObjectKey(_)))
    assert(isThere("a/b") && !isThere("a/c"))
    store.delete(Seq("a/b/2", "a/never/1", "e").map(ObjectKey(_)))
    assert(!isThere("a") && files.exists(root))
    new WriteProbe(store, Clock.System).run()
    assert(files.listStatus(root).forall(_.getPath.getName == ".cleancut-pending"))
  }

  test("a writer in a directory that another writer empties loses no object") {
    val threads = Executors.newFixedThreadPool(2)
    val rounds = 1 to Draws.of(60)
    def writer(which: Int): Callable[Unit] = () =>
      rounds.foreach { round =>
        val (kept, passing) = (ObjectKey(s"d/$round/$which"), ObjectKey(s"d/$round/passing-$which"))
        store.create(passing, bytes("x"), WriterToken.fresh(Clock.System))
        store.delete(Seq(passing))
        val result = store.create(kept, bytes(kept.name), WriterToken.fresh(Clock.System))
        assert(result == CreateResult.Created)
      }
    try threads.invokeAll(Seq(writer(1), writer(2)).asJava).asScala.foreach(_.get())
    finally threads.shutdown()
    for (round <- rounds; which <- 1 to 2) {
      val name = s"d/$round/$which"
      assert(store.get(ObjectKey(name)).exists(_.sameElements(bytes(name))), name)
    }
  }
}
