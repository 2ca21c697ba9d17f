package io.cleancut.coordinator

import java.util.concurrent.TimeUnit

import org.scalatest.{Assertions, Suite}

import io.cleancut.base.{Clock, StateVersion, StoreId}
import io.cleancut.cutstore.CutArchive
import io.cleancut.cutstore.gc.CutRetention
import io.cleancut.error.CleancutException
import io.cleancut.objectstore.ObjectStore
import io.cleancut.protocol.Ack
import io.cleancut.testkit.{Patience, StoreOnDisk}
import io.cleancut.format.{FrameKind, FrameName, PlacedFrame}
import io.cleancut.format.cut.SealedFrame
import io.cleancut.coordinator.SingleRegistrations._

/** Coordinators of one query on the local disk, and the messages that tasks send to them. */
trait CutsOnDisk extends StoreOnDisk with Assertions { this: Suite =>
  protected class Logs(plain: Option[Long], keep: Int, keptMs: Long = 0L) extends SparkLogs {
    override def queryId(): Option[String] = Some("query")
    override def offsets(epoch: Long): String = s"offsets of $epoch"
    override def lastPlainCommit(): Option[Long] = plain
    override def retention: CutRetention = CutRetention(keep, keptMs)
  }

  protected def archive = new CutArchive(store, Clock.System)

  protected def driver(
      plain: Option[Long] = None,
      keep: Int = 100,
      keptMs: Long = 0L,
      around: ObjectStore => ObjectStore = identity,
      runtime: CutsRuntime => CutsRuntime = identity
  ): QueryCoordinator = {
    val archive = new CutArchive(around(store), Clock.System)
    val usual = CutsRuntime.onThreads(archive.store, Clock.System)
    new QueryCoordinator(archive, new Logs(plain, keep, keptMs), "host", runtime(usual))
  }

  protected def part(partition: Int, name: String = "default") = StoreId(0L, partition, name)

  protected def frame(
      store: StoreId,
      version: Long,
      attempt: Long,
      kind: FrameKind = FrameKind.Delta
  ): SealedFrame = {
    val name = FrameName(store, StateVersion(version, StateVersion.newId(Clock.System)), kind)
    SealedFrame(name, attempt, s"$store $version".getBytes)
  }

  protected def submit(driver: QueryCoordinator, run: String, frame: SealedFrame): Ack =
    driver.submit(run, frame).get.get(Patience.Seconds, TimeUnit.SECONDS)

  protected def report(driver: QueryCoordinator, run: String, frame: PlacedFrame): Ack =
    driver.report(run, frame).get(Patience.Seconds, TimeUnit.SECONDS)

  /** Runs the tasks of an epoch of two partitions; returns the IDs of the versions. */
  protected def tasks(driver: QueryCoordinator, run: String, epoch: Long): Seq[String] =
    for (p <- 0 to 1) yield {
      val made = frame(part(p), epoch + 1, epoch * 10 + p)
      assert(driver.open(run, epoch * 10 + p, part(p), epoch).isRight)
      assert(submit(driver, run, made) == Ack.Accepted)
      made.name.version.id
    }

  /** Runs and commits an epoch of two partitions. */
  protected def epoch(driver: QueryCoordinator, run: String, epoch: Long): Unit = {
    tasks(driver, run, epoch)
    driver.commit(run, epoch, s"v1\n{\"e\":$epoch}")
    ()
  }

  protected def errorOf(body: => Any): CleancutException = intercept[CleancutException](body)

  protected def segments(epoch: Long) = archive.segments.ofEpoch(epoch)
}
