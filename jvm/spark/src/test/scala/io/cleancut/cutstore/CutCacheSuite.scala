package io.cleancut.cutstore

import java.lang.reflect.{InvocationTargetException, Proxy}
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.{CountDownLatch, Executors, TimeUnit}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.Clock
import io.cleancut.format.cut.{Cut, RunId}
import io.cleancut.objectstore.{ObjectStore, RootedStore}
import io.cleancut.objectstore.hadoop.HadoopStore
import io.cleancut.testkit.{Patience, TestDirectory}

/** Many tasks of a process read one cut, and tasks of another query read another one. */
class CutCacheSuite extends AnyFunSuite {
  import CutCacheSuite._

  test("concurrent reads of a cut share one request, and do not block other reads") {
    TestDirectory.use("cut-cache") { directory =>
      val disk = HadoopStore.open(new Path(directory.toUri), new Configuration, Clock.System)
      val slow = new Held(new RootedStore(disk, "slow/"))
      val quick = new Held(new RootedStore(disk, "quick/"))
      quick.go.countDown()
      for (held <- Seq(slow, quick)) new CutArchive(held.store, Clock.System).cuts.create(cut)
      val threads = Executors.newFixedThreadPool(9)
      try {
        def submit(held: Held) = {
          val archive = new CutArchive(held.store, Clock.System)
          threads.submit(() => read(archive))
        }
        val waiting = Seq.fill(8)(submit(slow))
        assert(slow.requested.await(PatienceSeconds, TimeUnit.SECONDS))
        assert(submit(quick).get(PatienceSeconds, TimeUnit.SECONDS).contains(cut))
        assert(!waiting.exists(_.isDone))
        slow.go.countDown()
        waiting.foreach(one => assert(one.get(PatienceSeconds, TimeUnit.SECONDS).contains(cut)))
        assert(slow.gets.get == 1 && quick.gets.get == 1)
      } finally threads.shutdown()
    }
  }

  test("a read that waits for a failed read is repeated, and a missing cut is not cached") {
    TestDirectory.use("cut-cache") { directory =>
      val disk = HadoopStore.open(new Path(directory.toUri), new Configuration, Clock.System)
      val held = new Held(new RootedStore(disk, "failing/"))
      val archive = new CutArchive(held.store, Clock.System)
      held.go.countDown()
      assert(read(archive).isEmpty)
      archive.cuts.create(cut)
      held.failures.set(1)
      val threads = Executors.newFixedThreadPool(4)
      try {
        val all = Seq.fill(4)(threads.submit(() => read(archive)))
        val ended = all.map(one => scala.util.Try(one.get(PatienceSeconds, TimeUnit.SECONDS)))
        assert(ended.count(_.isFailure) == 1)
        assert(ended.flatMap(_.toOption).forall(_.contains(cut)))
      } finally threads.shutdown()
    }
  }
}

object CutCacheSuite {
  private val PatienceSeconds = Patience.Seconds
  private val cut = Cut(7, RunId(None, "run", 1), "token", 0, "v1", "", Nil, Map.empty)

  private def read(archive: CutArchive) =
    CutCache.read(archive, "run", cut.epoch).map(_.head)

  /** An object store whose reads wait for the test. */
  final private class Held(under: ObjectStore) {
    val requested = new CountDownLatch(1)
    val go = new CountDownLatch(1)
    val gets = new AtomicInteger
    val failures = new AtomicInteger

    val store: ObjectStore = Proxy
      .newProxyInstance(
        getClass.getClassLoader,
        Array(classOf[ObjectStore]),
        (_, method, args) => {
          if (method.getName == "get") beforeGet()
          try method.invoke(under, Option(args).toSeq.flatten: _*)
          catch { case e: InvocationTargetException => throw e.getCause }
        }
      )
      .asInstanceOf[ObjectStore]

    private def beforeGet(): Unit = {
      gets.incrementAndGet()
      requested.countDown()
      go.await()
      if (failures.getAndDecrement() > 0) throw new IllegalStateException("by this test")
    }
  }
}
