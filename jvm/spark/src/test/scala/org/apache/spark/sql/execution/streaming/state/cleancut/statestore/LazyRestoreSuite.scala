package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.nio.file.Files
import java.util.concurrent.atomic.AtomicInteger

import Providers._
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreProvider}

import io.cleancut.conf.Keys
import io.cleancut.testkit.Patience

/** Stores that are opened before their base has been read. */
class LazyRestoreSuite extends AnyFunSuite with Patience {
  import LazyRestoreSuite._

  test("a store opens before its base has been read, and continues to read after the task") {
    val setup = written()
    val provider = setup.open()
    val store = provider.getStore(3)
    val opened = store.metrics
    assert(opened.numKeys == Rows)
    assert(store.get(key(7), StateStore.DEFAULT_COL_FAMILY_NAME).getLong(0) == 70L)
    // Rows take 80 bytes. Two pages of a MiB have the block of this key and the first block.
    assert(store.metrics.memoryUsedBytes < Rows * 80 / 2)
    store.abort()
    eventually(assert(used(provider, 3) >= Rows * 80))
    assert(rows(provider, 3) == expected)
    provider.close()
  }

  test("with lazyRestore=false the base is read before the store opens") {
    val setup = written()
    val eager = setup.copy(confs = Map(Keys.LazyRestore.name -> "false"))
    val provider = eager.open()
    assert(used(provider, 3) >= Rows * 80)
    provider.close()
  }

  test("a store that has not read its base writes the next base") {
    val setup = written()
    val provider = setup.open()
    val store = VersionedStores.open(provider, 3, withBase = true)
    store.put(key(-1), value(5))
    store.commit()
    provider.close()
    val bases = setup.frames.filter(_.toString.endsWith(".base"))
    assert(bases.size == 2)
    val fresh = setup.open()
    assert(rows(fresh, 4) == expected + (-1L -> 5L))
    fresh.close()
  }

  test("a corrupted block is an error only for reads of its rows") {
    val setup = written()
    val base = setup.frames.find(_.toString.endsWith(".base")).get
    val bytes = Files.readAllBytes(base)
    bytes(bytes.length / 2) = (bytes(bytes.length / 2) ^ 1).toByte
    Files.write(base, bytes)
    // Hadoop's checksum would detect it first.
    Files.deleteIfExists(base.resolveSibling(s".${base.getFileName}.crc"))
    val provider = setup.open()
    val store = provider.getStore(3)
    val values = (0L until Rows.toLong).map { id =>
      try Option(store.get(key(id), StateStore.DEFAULT_COL_FAMILY_NAME)).map(_.getLong(0))
      catch { case e: Exception => Some(if (isDamage(e)) -1L else throw e) }
    }
    val damaged = values.count(_.contains(-1L))
    assert(damaged > 100 && damaged < Rows / 2)
    assert(values.zipWithIndex.forall { case (v, id) => v.contains(-1L) || v == expected.get(id) })
    store.abort()
    provider.close()
  }

  test("a base is written although a task uses the store at each maintenance") {
    // Too little memory to continue the read without a task.
    val confs = Map(
      "spark.sql.streaming.stateStore.minDeltasForSnapshot" -> "1",
      Keys.MaxOffHeapMemory.name -> "1m"
    )
    val setup = written()
    val provider = setup.copy(confs = confs).open()
    def bases = setup.frames.count(_.toString.endsWith(".base"))
    for (version <- 3L to 7L) {
      val store = provider.getStore(version)
      provider.doMaintenance()
      store.put(key(-1), value(version))
      store.commit()
      // The fourth delta makes a base due, and the task in the store reads the rest.
      assert(bases == (if (version < 7) 1 else 2))
    }
    provider.close()
  }

  test("a task opens a store between the blocks that maintenance reads") {
    val confs = Map(
      "spark.sql.streaming.stateStore.minDeltasForSnapshot" -> "1",
      Keys.MaxOffHeapMemory.name -> "1m"
    )
    val hadoop = Map(FailingFiles.ManagerKey -> classOf[WatchedFiles].getName)
    val provider = written().copy(confs = confs, hadoop = hadoop).open()
    for (version <- 3L to 6L) commit(provider, version, -1L -> version)
    val reads = new AtomicInteger
    @volatile var readsBefore = 0
    @volatile var usedBefore = 0L
    val task = new Thread(() => {
      val store = provider.getStore(7)
      readsBefore = reads.get
      usedBefore = store.metrics.memoryUsedBytes
      store.abort()
    })
    // The task starts during the second read and waits for the store.
    WatchedFiles.beforeRead = () =>
      if (reads.incrementAndGet() == 2) {
        task.start()
        while (task.isAlive && task.getState != Thread.State.TIMED_WAITING) Thread.sleep(1)
      }
    try provider.doMaintenance()
    finally WatchedFiles.beforeRead = () => ()
    task.join()
    assert(readsBefore >= 2 && readsBefore <= 4)
    assert(usedBefore < Rows * 80 / 2)
    provider.close()
  }

  for ((name, confs) <- files)
    test(s"a task that is killed while it reads a block does not affect the next task, $name") {
      val setup = written().copy(hadoop = confs)
      val provider = setup.open()
      val store = provider.getStore(3)
      var refused = 0
      for (id <- 0L until Rows.toLong by 500) {
        Thread.currentThread.interrupt()
        try assert(read(store, id) == expected(id))
        catch { case _: Exception => refused += 1 }
        finally {
          Thread.interrupted()
          ()
        }
        assert(read(store, id) == expected(id))
      }
      info(s"$refused reads were refused")
      store.abort()
      provider.close()
    }

  private def read(store: StateStore, id: Long): Long =
    store.get(key(id), StateStore.DEFAULT_COL_FAMILY_NAME).getLong(0)

  private def isDamage(e: Throwable): Boolean =
    Iterator
      .iterate(e)(_.getCause)
      .takeWhile(_ != null)
      .exists(_.toString.contains("CLEANCUT_FRAME_CORRUPTED"))

  private def written(): Setup = {
    val setup = Providers.setup()
    val provider = setup.open()
    val all = (0L until Rows.toLong).map(id => id -> id * 10)
    commit(provider, 0, all: _*)
    provider.doMaintenance()
    val store = VersionedStores.open(provider, 1, withBase = true)
    store.put(key(1), value(11))
    store.commit()
    commit(provider, 2, 2L -> 22L)
    provider.close()
    setup
  }

  private def used(provider: StateStoreProvider, version: Long): Long = {
    val store = provider.getStore(version)
    val bytes = store.metrics.memoryUsedBytes
    store.abort()
    bytes
  }

  private def rows(provider: StateStoreProvider, version: Long): Map[Long, Long] = {
    val store = provider.getReadStore(version)
    val values = store.iterator().map(p => p.key.getLong(0) -> p.value.getLong(0)).toMap
    store.release()
    values
  }
}

object LazyRestoreSuite {
  private val Rows = 100000

  private val files = Seq(
    "with Hadoop's checksums" -> Map.empty[String, String],
    "without" -> Map(
      "spark.sql.streaming.checkpointFileManagerClass" ->
        classOf[FileSystemBasedCheckpointFileManager].getName,
      "fs.file.impl" -> "org.apache.hadoop.fs.RawLocalFileSystem",
      "fs.file.impl.disable.cache" -> "true"
    )
  )

  private val expected: Map[Long, Long] =
    (0L until Rows.toLong).map(id => id -> id * 10).toMap ++ Map(1L -> 11L, 2L -> 22L)
}
