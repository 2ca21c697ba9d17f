package io.cleancut.coordinator

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.StoreId
import io.cleancut.conf.{Capture, CaptureMode}
import io.cleancut.coordinator.state.QueryLedger
import io.cleancut.format.{Channels, FrameKind, PlacedFrame, StoreCut, StoreOrder}
import io.cleancut.format.cut.{ChannelReport, RowsDigest}
import io.cleancut.protocol.{Ack, ChannelTask}
import io.cleancut.testkit.Seeded
import io.cleancut.testkit.inputs.{Dimension, Impossible, InputLog, InputSpace}
import io.cleancut.coordinator.LedgerFrames._

/** The ledgers of an epoch with in-flight rows against references that scan all channels. */
class ChannelLedgerModelSuite extends AnyFunSuite {
  import ChannelLedgerModelSuite._

  test("a randomized epoch closes with the frames of the reference") {
    val complete =
      for (seed <- 0 until Runs)
        yield withClue(s"seed $seed: ") {
          val epoch = new Epoch(Seeded.random(seed.toLong))
          val isComplete = epoch.run()
          epoch.inputs.zipWithIndex.foreach { case (inputs, attempt) =>
            InputLog.default.addPart(LedgerInputs.Space, s"$seed-$attempt", inputs)
          }
          isComplete
        }
    val withRows = complete.count(identity)
    assert(withRows > Runs / 20, "too few epochs are complete and have in-flight rows")
  }

  final private class Epoch(random: Random) {
    private val before = {
      val states = for (key <- Partitions; name <- States) yield StoreId(key._1, key._2, name)
      val channels =
        for (key <- Partitions; input <- Inputs if random.nextInt(3) == 0)
          yield StoreId(key._1, key._2, Channels.name(input))
      val stores = (states ++ channels).map { store =>
        StoreCut(store, Vector(entry(frame(store, Number - 1, 0L, FrameKind.Base))))
      }
      cut(Number - 2, stores.sortBy(_.store)(StoreOrder): _*)
    }
    private val ledger = new QueryLedger(Number - 2, Some(before))
    private val tasks = mutable.ArrayBuffer.empty[Task]
    private var turn = 0L

    /** Returns whether both ways to close the epoch find it complete with in-flight rows. */
    def run(): Boolean = {
      // Each partition at least once, then repeated attempts.
      val keys = Partitions ++ Seq.fill(random.nextInt(8))(Partitions(random.nextInt(4)))
      random.shuffle(keys).foreach(attempt)
      val isLatest = compare(None)
      val ids =
        tasks.filter(_ => random.nextInt(10) > 0).flatMap(_.frames.values).map(_.name.version)
      val isCounted = compare(Some(ids.map(_.id).toSet))
      isLatest && isCounted
    }

    /** The inputs of each attempt. */
    def inputs: Seq[Map[String, Set[String]]] = tasks.toSeq.map { task =>
      val key = task.opened.head.operator -> task.opened.head.partition
      def isOfTask(store: StoreId) = (store.operator, store.partition) == key
      val (frames, rows) = task.frames.keySet.partition(!Channels.isChannel(_))
      LedgerInputs.of(
        isRepeated = tasks.iterator.takeWhile(_ ne task).exists(_.opened.exists(isOfTask)),
        isOnRows = before.inFlight.exists(channel => isOfTask(channel.store)),
        channels = task.channels.size,
        hasRows = rows.nonEmpty,
        hasReports = task.channels.forall(task.reported),
        hasFrames = frames.size == task.opened.size,
        task.hasFailed
      )
    }

    private def attempt(key: (Long, Int)): Unit = {
      val task = new Task(tasks.size + 1L)
      tasks += task
      for (input <- Inputs if random.nextInt(4) > 0) {
        val channel = StoreId(key._1, key._2, Channels.name(input))
        val reader = ChannelTask(task.id, channel, Number - 1, 2, "executor", Unaligned)
        assert(ledger.openChannel(reader, mayDefer = true).isRight)
        task.channels += channel
      }
      for (name <- States) open(task, StoreId(key._1, key._2, name))
      for (channel <- task.channels) {
        val rows = random.nextInt(2).toLong
        if (rows > 0) ack(task, channel, FrameKind.Base)
        if (random.nextInt(15) > 0) {
          val report = ChannelReport(channel, RowsDigest(10, 100), RowsDigest(rows, rows))
          ledger.epoch.channels.report(task.id, report)
          task.reported += channel
        }
      }
      for (store <- task.opened if random.nextInt(15) > 0) ack(task, store, FrameKind.Delta)
      if (random.nextInt(8) == 0) {
        ledger.fail(task.id)
        task.hasFailed = true
      }
    }

    private def open(task: Task, store: StoreId): Unit = {
      val holding = ledger.inFlight.map(_.store) ++
        ledger.epoch.channels.decisions.filter(_.deferred.rows > 0).map(_.channel)
      val unread = holding.toSet.filter { channel =>
        channel.operator == store.operator && channel.partition == store.partition &&
        !task.channels.contains(channel)
      }
      val opened = ledger.open(task.id, store, Number - 1)
      task.opened += store
      val expected = unread.toSeq.sorted(StoreOrder)
      if (opened.map(_.unread) != scala.Right(expected))
        fail(s"$store: opened $opened, expected unread $expected")
    }

    private def ack(task: Task, store: StoreId, kind: FrameKind): Unit = {
      val made = frame(store, Number, task.id, kind)
      turn += 1
      task.turn = turn
      task.frames(store) = made
      ledger.ack(made) match {
        case Ack.Discarded(_) => task.isDiscarded = true
        case Ack.Accepted     => ()
        case answer           => fail(s"$made: $answer")
      }
    }

    private def compare(counted: Option[Set[String]]): Boolean = {
      val chosen = counted.fold(latestComplete)(byIds)
      val missing = before.stores.map(_.store).filterNot(Channels.isChannel).toSet -- chosen.keySet
      val closed = ledger.epoch.close(counted).map(_.map(stored => stored.store -> stored.version))
      if (missing.nonEmpty) assert(closed == scala.Left(missing))
      else {
        val expected = chosen.toSeq.map { case (store, frame) => store -> frame.name.version }
        assert(closed == scala.Right(expected.sortBy(_._1)(StoreOrder)))
      }
      missing.isEmpty && chosen.keysIterator.exists(Channels.isChannel)
    }

    private def latestComplete: Map[StoreId, PlacedFrame] = {
      val complete = tasks.toSeq.filter { task =>
        task.frames.nonEmpty && !task.isDiscarded && task.opened.forall(task.frames.contains) &&
        task.channels.forall(task.reported)
      }
      complete.sortBy(task => (!task.hasFailed, task.turn)).foldLeft(Map.empty: Frames) {
        (chosen, task) =>
          chosen.filterNot { case (store, _) => task.frames.keys.exists(feeds(store, _)) } ++
            task.frames
      }
    }

    private def byIds(ids: Set[String]): Map[StoreId, PlacedFrame] =
      tasks.flatMap { task =>
        val counted = task.frames.filter { case (_, frame) => ids(frame.name.version.id) }
        counted ++ task.frames.filter { case (store, _) => counted.keys.exists(feeds(store, _)) }
      }.toMap
  }
}

object ChannelLedgerModelSuite {
  private type Frames = Map[StoreId, PlacedFrame]

  private val Runs = 400
  private val Number = 5L
  private val States = Seq("left", "right")
  private val Inputs = Seq(0, 1)
  private val Partitions = for (operator <- Seq(0L, 1L); index <- Seq(0, 1)) yield operator -> index
  private val Unaligned = Capture(CaptureMode.Unaligned, None)

  /** The inputs of an attempt. */
  private object LedgerInputs {
    private val Repeated = Dimension.flag("attempt of a partition before it")
    private val OnRows = Dimension.flag("in-flight rows of the cut before")
    private val ChannelsOf = new Dimension[Int]("channels", Seq(0, 1, 2))
    private val Rows = Dimension.flag("rows left in flight")
    private val Reports = Dimension.flag("report for each channel")
    private val Stored = Dimension.flag("frame for each store")
    private val Failed = Dimension.flag("failed")

    val Space: InputSpace = InputSpace(
      "attempts of an epoch with in-flight rows",
      Seq(Repeated, OnRows, ChannelsOf, Rows, Reports, Stored, Failed),
      Seq(
        Impossible(
          ChannelsOf.where(_ == 0),
          Rows.where(identity),
          "rows stay in flight in channels"
        ),
        Impossible(ChannelsOf.where(_ == 0), Reports.where(!_), "no channel lacks a report")
      )
    )

    def of(
        isRepeated: Boolean,
        isOnRows: Boolean,
        channels: Int,
        hasRows: Boolean,
        hasReports: Boolean,
        hasFrames: Boolean,
        hasFailed: Boolean
    ): Map[String, Set[String]] = Map(
      Repeated.nameOf(isRepeated),
      OnRows.nameOf(isOnRows),
      ChannelsOf.nameOf(channels),
      Rows.nameOf(hasRows),
      Reports.nameOf(hasReports),
      Stored.nameOf(hasFrames),
      Failed.nameOf(hasFailed)
    )
  }

  private def feeds(channel: StoreId, store: StoreId) = Channels.isChannel(channel) &&
    channel.operator == store.operator && channel.partition == store.partition

  final private class Task(val id: Long) {
    val channels = mutable.LinkedHashSet.empty[StoreId]
    val reported = mutable.Set.empty[StoreId]
    val opened = mutable.LinkedHashSet.empty[StoreId]
    val frames = mutable.LinkedHashMap.empty[StoreId, PlacedFrame]
    var turn = 0L
    var hasFailed = false
    var isDiscarded = false
  }
}
