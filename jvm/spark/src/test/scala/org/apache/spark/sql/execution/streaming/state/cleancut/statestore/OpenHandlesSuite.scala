package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.util.concurrent.locks.LockSupport
import java.util.concurrent.{TimeUnit, TimeoutException}

import Providers._
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SparkException
import org.apache.spark.sql.execution.streaming.state._

import io.cleancut.engine.memory.MemoryAccount
import io.cleancut.error.CleancutException
import io.cleancut.testkit.Patience

/** Handles, rows and iterators that are used after the end of their store, task or provider. */
class OpenHandlesSuite extends AnyFunSuite {
  private val ThreeRows = Seq(1L -> 10L, 2L -> 20L, 3L -> 30L)

  test("an iterator returns no row after its store was aborted") {
    val provider = withThreeRows()
    val store = provider.getStore(1)
    for (i <- 0L until 20000L) store.put(key(i), value(i))
    val open = store.iterator()
    while (open.next().key.getLong(0) != 15000L) {}
    assert(open.hasNext)
    store.abort()
    intercept[StateStoreOperationOutOfOrder](open.next())
    intercept[StateStoreOperationOutOfOrder](store.iterator())
    provider.close()
  }

  test("an iterator returns no row after its read store was released") {
    val provider = withThreeRows()
    val store = provider.getReadStore(1)
    val open = store.iterator()
    assert(open.hasNext)
    store.release()
    provider.close()
    val refused = intercept[CleancutException](open.next())
    assert(refused.errorId == "CLEANCUT_STORE_CLOSED")
    assert(intercept[CleancutException](store.get(key(1))).errorId == "CLEANCUT_STORE_CLOSED")
  }

  test("a row that a task has read stays valid until the task ends") {
    val before = MemoryAccount.process.usedBytes
    val provider = withThreeRows()
    val task = new Tasks.Attempt(11)
    val (row, pair) = task {
      val store = provider.getStore(1)
      val row = store.get(key(2))
      val pair = store.iterator().next()
      for (i <- 0L until 20000L) store.put(key(i), value(-i))
      store.commit()
      (row, pair)
    }
    provider.close()
    assert(row.getLong(0) == 20L)
    assert(pair.value.getLong(0) == 10L * pair.key.getLong(0))
    assert(MemoryAccount.process.usedBytes > before)
    task.complete()
    assert(MemoryAccount.process.usedBytes == before)
  }

  test("a task that ends without a commit changes nothing and releases its store") {
    val provider = withThreeRows()
    val failing = new Tasks.Attempt(12)
    val store = failing(provider.getStore(1))
    failing(store.put(key(1), value(99)))
    failing.fail(new IllegalStateException("this attempt fails"))
    assert(!store.hasCommitted)
    val next = Tasks.inThread(new Tasks.Attempt(13, number = 1).apply {
      rows(provider.getStore(1))
    })
    assert(next.get(Patience.Seconds, TimeUnit.SECONDS) == ThreeRows.toMap)
    provider.close()
  }

  test("a second attempt opens a store after the end of the first, not after its commit") {
    val provider = withThreeRows()
    val first = new Tasks.Attempt(14)
    first(commit(provider, 1, 1L -> 11L))
    val second = new Tasks.Attempt(15, number = 1)
    val entered = Tasks.inThread(second(rows(provider.getStore(1))))
    intercept[TimeoutException](entered.get(300, TimeUnit.MILLISECONDS))
    first.complete()
    assert(entered.get(Patience.Seconds, TimeUnit.SECONDS) == ThreeRows.toMap)
    second.complete()
    provider.close()
  }

  test("a task with a read store and a write store releases both at its end") {
    val provider = withThreeRows()
    val task = new Tasks.Attempt(16)
    task {
      val read = provider.getReadStore(1)
      val write = VersionedStores.upgrade(provider, read, 1)
      write.put(key(1), value(11))
      assert(read.get(key(1)).getLong(0) == 10L)
      write.commit()
      assert(read.get(key(1)).getLong(0) == 10L)
    }
    task.complete()
    assert(
      Tasks.inThread(rows(provider.getStore(2))).get(Patience.Seconds, TimeUnit.SECONDS)(1L) == 11L
    )
    provider.close()
  }

  test("a provider can be closed while tasks open its store") {
    val setup = Providers.setup()
    val first = setup.open()
    commit(first, 0, (0L until 200L).map(i => i -> i): _*)
    first.close()
    val before = MemoryAccount.process.usedBytes
    for (round <- 0 until 150) {
      val provider = setup.open()
      val user = Tasks.inThread {
        var opened = 0
        try
          while (true) {
            val store = provider.getStore(1)
            opened += 1
            for (i <- 0L until 5L) store.put(key(i), value(i))
            val third = store.get(key(3)).getLong(0)
            store.abort()
            assert(third == 3L)
          }
        catch { case closed: Exception if isClosed(closed) => () }
        opened
      }
      LockSupport.parkNanos(round * 20000L)
      provider.close()
      user.get(Patience.Seconds, TimeUnit.SECONDS)
    }
    assert(MemoryAccount.process.usedBytes == before)
  }

  test("a task that has failed opens no store") {
    val provider = withThreeRows()
    val task = new Tasks.Attempt(17)
    val failure = new IllegalStateException("this attempt fails")
    task.fail(failure)
    assert(intercept[SparkException](task(provider.getStore(1))).getCause == failure)
    assert(intercept[SparkException](task(provider.getReadStore(1))).getCause == failure)
    provider.close()
  }

  private def withThreeRows(): StateStoreProvider = {
    val provider = Providers.setup().open()
    commit(provider, 0, ThreeRows: _*)
    provider
  }

  private def isClosed(thrown: Throwable): Boolean =
    Iterator.iterate(thrown)(_.getCause).takeWhile(_ != null).exists {
      case e: CleancutException => e.errorId == "CLEANCUT_STORE_CLOSED"
      case _                    => false
    }
}
