package io.cleancut.coordinator

import java.util.concurrent.TimeUnit

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{Clock, StateVersion, StoreId}
import io.cleancut.conf.{Capture, CaptureMode}
import io.cleancut.coordinator.state.Opened
import io.cleancut.cutstore.CutArchive
import io.cleancut.cutstore.gc.CutRetention
import io.cleancut.error.CleancutException
import io.cleancut.format.{Channels, CutLayout, FrameKind, FrameName, SealName}
import io.cleancut.format.cut.{ChannelReport, Counted, Cut, PagedChains, RowsDigest, SealedFrame}
import io.cleancut.objectstore.ObjectKey
import io.cleancut.protocol.{Ack, ChannelTask, Refusal}
import io.cleancut.testkit.{Patience, StoreOnDisk}
import io.cleancut.coordinator.SingleRegistrations._

/**
 * An epoch that one run has sealed with in-flight rows, and that a later run finishes from the
 * seal. The later run's tasks read other rows, so their output must have no effect.
 */
class FinishedEpochSuite extends AnyFunSuite with StoreOnDisk {
  private val entry = "v1\n{}"
  private val capture = Capture(CaptureMode.Unaligned, None)

  private class Logs(input: String) extends SparkLogs {
    override def queryId(): Option[String] = Some("query")
    override def offsets(epoch: Long): String = s"$input of $epoch"
    override def lastPlainCommit(): Option[Long] = None
    override def retention: CutRetention = CutRetention(100)
  }

  private def archive = new CutArchive(store, Clock.System)

  private def driver(input: String = "offsets"): QueryCoordinator =
    new QueryCoordinator(archive, new Logs(input), "host", Clock.System)

  private def main(partition: Int) = StoreId(0L, partition, "default")

  private def channel(partition: Int) = StoreId(0L, partition, Channels.name(0))

  private def attemptOf(epoch: Long, partition: Int) = epoch * 10 + partition

  private def errorOf(body: => Any): CleancutException = intercept[CleancutException](body)

  /** Writes the frame of one store as its task does; returns the new version. */
  private def write(
      cuts: QueryCoordinator,
      run: String,
      epoch: Long,
      store: StoreId,
      kind: FrameKind = FrameKind.Delta
  ): StateVersion = {
    val version = StateVersion(epoch + 1, StateVersion.newId(Clock.System))
    val frame =
      SealedFrame(FrameName(store, version, kind), attemptOf(epoch, store.partition), run.getBytes)
    val ack = cuts.submit(run, frame).get.get(Patience.Seconds, TimeUnit.SECONDS)
    assert(ack == Ack.Accepted, s"$store of $run")
    version
  }

  private def openChannel(cuts: QueryCoordinator, run: String, epoch: Long, partition: Int) = {
    val attempt = attemptOf(epoch, partition)
    val task = ChannelTask(attempt, channel(partition), epoch, 2, "executor", capture)
    cuts.openChannel(run, task).fold(no => sys.error(no.why), identity)
  }

  private def open(cuts: QueryCoordinator, run: String, epoch: Long, partition: Int): Opened =
    cuts
      .open(run, attemptOf(epoch, partition), main(partition), epoch)
      .fold(no => sys.error(no.why), identity)

  /** Runs the tasks of an epoch; each leaves the rows of this digest in flight. */
  private def tasks(cuts: QueryCoordinator, run: String, epoch: Long, left: RowsDigest): Unit =
    for (p <- 0 to 1) {
      val mayDefer = openChannel(cuts, run, epoch, p).mayDefer
      open(cuts, run, epoch, p)
      if (mayDefer) {
        if (left.rows > 0) write(cuts, run, epoch, channel(p), FrameKind.Base)
        val report = ChannelReport(channel(p), RowsDigest(left.rows + 1, 5L), left)
        assert(cuts.arrived(run, attemptOf(epoch, p), report).isRight)
      }
      write(cuts, run, epoch, main(p))
    }

  /** Runs a driver that commits epoch 0, seals epoch 1 with in-flight rows, and then dies. */
  private def sealAndDie(output: Option[String] = Some("rows of r1")): Cut = {
    val cuts = driver()
    cuts.hold("r1", 0)
    tasks(cuts, "r1", 0, RowsDigest.Empty)
    cuts.seal("r1", 0)
    cuts.commit("r1", 0, entry)
    cuts.hold("r1", 1)
    tasks(cuts, "r1", 1, RowsDigest(3L, 7L))
    cuts.seal("r1", 1, output)
    archive.cuts.readSeal(SealName(1, 1), archive.cuts.read(0)).get
  }

  test("an epoch is finished from the seal, and frames of its tasks do not count") {
    val sealedAs = sealAndDie()
    assert(sealedAs.channels.map(_.deferred.rows) == Seq(3L, 3L))
    val cuts = driver()
    assert(cuts.sealedOutput("r2", 1).contains("rows of r1"))
    // These tasks ran before the finish, like those of a failed action.
    openChannel(cuts, "r2", 1, 0)
    open(cuts, "r2", 1, 0)
    write(cuts, "r2", 1, main(0))
    assert(cuts.finish("r2", 1))
    for (p <- 0 to 1) {
      val opened = openChannel(cuts, "r2", 1, p)
      assert(opened.isFinished && !opened.mayDefer)
      assert(opened.decided.flatMap(_._2).isDefined, "the task must read the in-flight rows")
      val taken = open(cuts, "r2", 1, p)
      assert(taken.sealedChain == sealedAs.of(main(p)) && !taken.needsBase)
    }
    // This task was not notified in time.
    write(cuts, "r2", 1, main(1))
    cuts.commit("r2", 1, entry)
    val cut = archive.cuts.read(1).get
    assert(cut.stores == sealedAs.stores && cut.channels == sealedAs.channels)
    assert(cut.run.runId == "r2" && cut.commit == entry && cut.offsets == "offsets of 1")
    // The next epoch begins with the in-flight rows and is an ordinary one.
    val next = openChannel(cuts, "r2", 2, 0)
    assert(!next.isFinished && next.stored.isDefined)
    val after = open(cuts, "r2", 2, 0)
    assert(after.sealedChain.isEmpty && after.accepted == sealedAs.of(main(0)).map(_.version.id))
  }

  test("if a run dies while it finishes an epoch, the next run finishes it") {
    val sealedAs = sealAndDie()
    val second = driver()
    assert(second.finish("r2", 1) && open(second, "r2", 1, 0).sealedChain.isDefined)
    val third = driver()
    assert(third.sealedOutput("r3", 1).contains("rows of r1") && third.finish("r3", 1))
    third.commit("r3", 1, entry)
    assert(archive.cuts.read(1).exists(_.stores == sealedAs.stores))
    assert(errorOf(second.commit("r2", 1, entry)).getErrorId == "CLEANCUT_FENCED")
  }

  test("a fenced driver does not finish an epoch") {
    sealAndDie()
    val second = driver()
    assert(second.sealedOutput("r2", 1).isDefined)
    assert(driver().sealedOutput("r3", 1).isDefined)
    assert(errorOf(second.finish("r2", 1)).getErrorId == "CLEANCUT_FENCED")
  }

  test("without a seal of the same input there is no epoch to finish") {
    sealAndDie()
    val other = driver("other offsets")
    assert(other.sealedOutput("r2", 1).isEmpty && !other.finish("r2", 1))
    assert(
      !openChannel(other, "r2", 1, 0).isFinished && open(other, "r2", 1, 0).sealedChain.isEmpty
    )

    afterEach()
    beforeEach()
    val first = driver()
    first.hold("r1", 0)
    assert(first.sealedOutput("r1", 0).isEmpty && !first.finish("r1", 0))
    tasks(first, "r1", 0, RowsDigest.Empty)
    first.seal("r1", 0)
    // A seal of this run does not count as one of an earlier run.
    assert(first.sealedOutput("r1", 0).isEmpty && !first.finish("r1", 0))
  }

  /** The chains without the frame of a store; channels stay. */
  private def without(paged: PagedChains, store: StoreId): PagedChains =
    if (Channels.isChannel(store)) paged
    else {
      val window = paged.window.map { part =>
        val frames =
          archive.segments
            .framesIn(part.segment)
            .filterNot(frame => Channels.isChannel(frame.name.store))
        part.copy(counted =
          Counted.Only(frames.filterNot(_.name.store == store).map(_.place.offset))
        )
      }
      PagedChains(paged.storeCount - 1, paged.pages, window)
    }

  test("a seal without a store or its in-flight rows is corrupted, and the error names them") {
    for (lacking <- Seq(main(1), channel(0))) {
      val known = sealAndDie()
      store.delete(Seq(ObjectKey(CutLayout.seal(SealName(1, 1)))))
      val rest = known.stores.filterNot(_.store == lacking)
      assert(archive.cuts.seal(known.copy(stores = rest, paged = without(known.paged, lacking))))
      val error = errorOf(driver().finish("r2", 1))
      assert(error.getErrorId == "CLEANCUT_CUT_CORRUPTED")
      assert(error.getMessage.contains(s"$lacking") && error.getMessage.contains(".sealed"))
      assert(archive.cuts.epochs() == Seq(0L))
      afterEach()
      beforeEach()
    }
  }

  test("versions in Spark's commit that differ from the seal are refused") {
    val sealedAs = sealAndDie()
    def commitOf(ids: String*) =
      s"""v1\n{"stateUniqueIds":{"0":[["${ids.mkString("""","""")}"]]}}"""
    val cuts = driver()
    assert(cuts.finish("r2", 1))
    val taken =
      sealedAs.stores.filterNot(stored => Channels.isChannel(stored.store)).map(_.version.id)
    val error = errorOf(cuts.commit("r2", 1, commitOf(taken.head, "f" * 32)))
    assert(error.getErrorId == "CLEANCUT_EPOCH_INCOMPLETE")
    assert(error.getMessage.contains(s"${main(1)}") && archive.cuts.epochs() == Seq(0L))
    cuts.commit("r2", 1, commitOf(taken: _*))
    assert(archive.cuts.read(1).exists(_.stores == sealedAs.stores))
  }

  test("a task that opens a store that the seal does not have is refused") {
    sealAndDie()
    val cuts = driver()
    assert(cuts.finish("r2", 1))
    val refused = cuts.open("r2", attemptOf(1, 7), main(7), 1)
    assert(refused == Left(Refusal.NotSealed(1, main(7))))
  }
}
