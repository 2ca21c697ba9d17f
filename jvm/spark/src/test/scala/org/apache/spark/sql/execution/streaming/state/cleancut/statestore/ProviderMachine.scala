package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import scala.util.Random

import Providers._
import org.scalatest.Assertions

import org.apache.spark.sql.execution.streaming.state._

import io.cleancut.testkit.inputs.{Dimension, InputSpace, StepLog}

/**
 * Uses a provider as a query does, with attempts, retries, restarts and maintenance, and compares
 * it with a plain map for each committed version.
 *
 * @param withIds
 *   whether versions are requested by the id that their attempt reported (Spark's checkpoint format
 *   2), or only by number, where the last attempt counts
 * @param isMaintained
 *   whether another thread runs maintenance concurrently
 */
final private[cleancut] class ProviderMachine(
    random: Random,
    setup: Setup,
    withIds: Boolean,
    isMaintained: Boolean = false
) extends Assertions {
  import ProviderMachine._

  @volatile private var provider = setup.open()
  private var committed = Vector(Version(0L, None, Map.empty))
  private var highest = 0L
  private var changes = 0L
  private val inputs = new StepLog(
    Space,
    Map(WithIds.nameOf(withIds), Maintained.nameOf(isMaintained))
  )

  /** The committed versions; the query continues from the last one. */
  def versions: Seq[Version] = committed

  /** Runs maintenance; may be called in any thread, as by Spark. */
  def maintain(): Unit = provider.doMaintenance()

  def run(steps: Int): Unit = {
    for (_ <- 0 until steps) random.nextInt(20) match {
      case n if n < 9  => step(Epoch)(epoch(committed.last))
      case n if n < 11 => step(Retry)(epoch(anyRetained()))
      case n if n < 13 => step(Read)(read(anyRetained()))
      case n if n < 17 => step(Maintain)(maintain())
      case n if n < 18 => step(Restart)(restart())
      case _           => step(ReadAll)(verifyRetained())
    }
    verifyRetained()
    provider.close()
  }

  private def step(name: String)(perform: => Unit): Unit = {
    inputs.add(name)
    perform
  }

  /** Runs an attempt at the version after `start`. Its commit discards all later versions. */
  private def epoch(start: Version): Unit = {
    val force = random.nextInt(10) == 0
    val store =
      if (random.nextInt(3) > 0) VersionedStores.open(provider, start.number, start.id, force)
      else {
        val read = provider.getReadStore(start.number, start.id)
        verify(start, read)
        VersionedStores.upgrade(provider, read, start.number, start.id, force)
      }
    var rows = start.rows
    for (_ <- 0 until random.nextInt(80)) rows = change(store, rows)
    assert(all(store) == rows)
    if (random.nextInt(5) == 0) store.abort()
    else {
      assert(store.commit() == start.number + 1)
      assert(store.metrics.numKeys == rows.size)
      val info = store.getStateStoreCheckpointInfo()
      assert(info.batchVersion == start.number + 1 && info.baseStateStoreCkptId == start.id)
      assert(info.stateStoreCkptId.isDefined == withIds)
      val next = Version(start.number + 1, info.stateStoreCkptId, rows)
      committed = committed.takeWhile(_.number <= start.number) :+ next
      highest = Math.max(highest, next.number)
    }
  }

  private def change(store: StateStore, rows: Rows): Rows = {
    val id = random.nextInt(60).toLong
    val row = key(id, Name)
    changes += 1
    if (random.nextInt(4) == 0) {
      store.remove(row)
      rows - id
    } else {
      store.put(row, value(changes))
      if (random.nextInt(5) == 0) assert(store.get(row).getLong(0) == changes)
      rows + (id -> changes)
    }
  }

  private def read(version: Version): Unit = {
    val store = provider.getReadStore(version.number, version.id)
    verify(version, store)
    store.release()
  }

  private def verify(version: Version, store: ReadStateStore): Unit = {
    assert(all(store) == version.rows, s"version ${version.number}")
    val id = random.nextInt(60).toLong
    val count = Option(store.get(key(id, Name))).map(_.getLong(0))
    assert(count == version.rows.get(id))
    ()
  }

  // Retention counts from the greatest number, also after the query has returned to an earlier one.
  private def retained: Seq[Version] = committed.filter(_.number >= highest - Retained)

  private def anyRetained(): Version = retained(random.nextInt(retained.size))

  private def restart(): Unit = {
    provider.close()
    provider = setup.open()
  }

  /** Checks that a new provider reads each version that Spark may request. */
  private def verifyRetained(): Unit = {
    val fresh = setup.open()
    try
      for (version <- retained) {
        val store = fresh.getReadStore(version.number, version.id)
        verify(version, store)
        store.release()
      }
    finally fresh.close()
  }
}

private[cleancut] object ProviderMachine {
  type Rows = Map[Long, Long]

  val Epoch = "epoch"
  val Retry = "epoch on an older version"
  val Read = "read a version"
  val Maintain = "maintenance"
  val Restart = "restart"
  val ReadAll = "read all versions"
  private val WithIds = Dimension.flag("versions requested by id")
  private val Maintained = Dimension.flag("concurrent maintenance")
  private val Space = InputSpace(
    "steps of a provider",
    StepLog.dimensions(Seq(Epoch, Retry, Read, Maintain, Restart, ReadAll)) ++
      Seq(WithIds, Maintained),
    Nil
  )

  /** Number of versions before the latest one that are retained. */
  val Retained: Int = 4

  // Keys of 3 kB, so that there is enough garbage for compaction.
  private val Name = "long" * 750

  final case class Version(number: Long, id: Option[String], rows: Rows)

  private def all(store: ReadStateStore): Rows =
    store.iterator().map(pair => pair.key.getLong(0) -> pair.value.getLong(0)).toMap
}
