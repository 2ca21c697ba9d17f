package io.cleancut.bench.commits

import java.lang.management.ManagementFactory
import java.util.concurrent.atomic.{AtomicInteger, AtomicLong, LongAdder}
import java.util.concurrent.{CompletableFuture, ConcurrentLinkedQueue, Executors}

import scala.jdk.CollectionConverters._

import com.sun.management.OperatingSystemMXBean

import io.cleancut.base.{Clock, StateVersion, StoreId}
import io.cleancut.conf.{Capture, CaptureMode}
import io.cleancut.coordinator.{CutsRuntime, QueryCoordinator, SparkLogs}
import io.cleancut.coordinator.state.{Arrival, Delivery, TaskStart}
import io.cleancut.cutstore.{CutArchive, CutParts, SegmentPieces}
import io.cleancut.cutstore.gc.CutRetention
import io.cleancut.format.{Channels, CutLayout, FrameKind, FrameName, FramePlace}
import io.cleancut.format.cut.{ChannelReading, ChannelReport, RowsDigest, SealedFrame}
import io.cleancut.objectstore.{ObjectKey, RequestKind}
import io.cleancut.protocol.{Ack, ChannelTask}

/**
 * Runs one query with many stores through the coordinator of its driver: every task opens the
 * stores of its operators and delivers a small frame of each, one operator after the other as
 * Spark's tasks commit, and the commit writes the cut. There are as many concurrent tasks as
 * executors. Prints one line `figure<TAB>epoch<TAB>number` for each of the last epochs.
 *
 * Arguments: executors, operators × stores per partition, partitions, deltas between bases, latency
 * of a request in the last epochs in milliseconds, Spark's checkpoint format, 1 for in-flight rows.
 * With in-flight rows each task reads a shuffle input, the mode is unaligned, all tasks are
 * overtaken, and each shuffle input stores rows.
 */
object ScaleBench {
  private val Counted = 5
  private val Settling = 5
  private val SettleMs = 1000L

  def main(args: Array[String]): Unit = {
    val Array(executors, stores, partitions, chain, delayMs, format, inFlight) =
      args.map(_.toInt): @unchecked
    val store = new MemoryStore(delayMs = 0L)
    val query = new ScaledQuery(
      store,
      executors,
      stores,
      partitions,
      chain,
      format,
      hasInFlight = inFlight == 1
    )
    val last = chain + Counted
    for (epoch <- 0 until last) {
      val isCounted = epoch >= last - Counted
      if (isCounted) store.delayMs = delayMs.toLong
      val figures = query.epoch(epoch.toLong)
      if (isCounted) figures.foreach { case (figure, number) =>
        println(s"$figure\t$epoch\t$number")
      }
    }
    println(s"heap, bytes\t$last\t${heapBytes()}")
    store.delayMs = 0L
    query.restart(last - 1L).foreach { case (figure, number) =>
      println(s"$figure\t$last\t$number")
    }
    System.exit(0)
  }

  /** Heap that is used after pages were written and small frames were merged. */
  private def heapBytes(): Long = {
    val runtime = Runtime.getRuntime
    val sizes = for (_ <- 0 until Settling) yield {
      Thread.sleep(SettleMs)
      System.gc()
      runtime.totalMemory - runtime.freeMemory
    }
    sizes.last
  }
}

/** A query whose executors and tasks are simulated by their messages. */
final class ScaledQuery(
    store: MemoryStore,
    executors: Int,
    storesOfPartition: Int,
    partitions: Int,
    chain: Int,
    format: Int,
    hasInFlight: Boolean
) {
  import ScaledQuery._

  private val archive = new CutArchive(store, Clock.System)
  private val cuts = {
    val runtime = CutsRuntime.onThreads(archive.store, Clock.System)
    new QueryCoordinator(archive, Logs, "host", runtime)
  }
  private val lock = new LockWatch(cuts)
  private val threadsOfTasks = new ConcurrentLinkedQueue[Thread]
  private val threads =
    Executors.newFixedThreadPool(
      Runtime.getRuntime.availableProcessors,
      body => {
        val thread = new Thread(body)
        threadsOfTasks.add(thread)
        thread
      }
    )

  /** CPU time of task threads in the driver's code, which they call. */
  private val calledNs = new LongAdder
  private val attempts = new AtomicLong
  private val versions = Array.fill(partitions * storesOfPartition)(Option.empty[StateVersion])

  /** The figures of one epoch, by name. */
  def epoch(epoch: Long): Seq[(String, Long)] = {
    val before = store.counts
    val startCpu = cpuNs()
    lock.figures()
    if (hasInFlight) cuts.hold(RunName, epoch)
    val startOfTasks = cpuOfTasksNs()
    val start = System.nanoTime()
    runTasks(epoch)
    val ran = System.nanoTime()
    val ranCpu = cpuNs()
    if (hasInFlight) cuts.seal(RunName, epoch)
    cuts.commit(RunName, epoch, entry(epoch))
    val committed = System.nanoTime()
    val committedCpu = cpuNs()
    val ofTasks = cpuOfTasksNs() - startOfTasks
    val requests = store.counts - before
    val watched = lock.figures()
    writeBases(epoch)
    val acks = partitions.toLong * storesOfPartition
    Seq(
      "tasks, ns" -> (ran - start),
      "frames per second" -> (acks * 1000000000L / (ran - start)),
      "commit, ns" -> (committed - ran),
      "CPU, ns" -> (committedCpu - startCpu),
      "driver CPU, ns" -> (committedCpu - startCpu - ofTasks),
      "commit CPU, ns" -> (committedCpu - ranCpu),
      "segments and pages" -> requests(RequestKind.Put).requests,
      "other requests" -> (requests.requests - requests(RequestKind.Put).requests),
      "cut, bytes" -> cutBytes(epoch)
    ) ++ watched
  }

  /**
   * Figures of a restart: the start of a new driver; the search for the frames of an executor's
   * stores in the cut, as a reader without the driver does; and the load of the frames whose
   * references the driver sends.
   */
  def restart(last: Long): Seq[(String, Long)] = {
    val (_, readNs) = timed(archive.cuts.read(last).get)
    val (stored, openNs) = timed(archive.cuts.open(last, CutParts.shared(archive)).get)
    val ofExecutor = for {
      partition <- 0 until partitions by executors
      index <- 0 until storesOfPartition
    } yield id(partition, index)
    val before = store.counts
    val (_, findNs) = timed(ofExecutor.foreach(stored.of(_).get))
    val afterRead = store.counts
    val (frames, loadNs) = timed(ofExecutor.map(load(_, last)).sum)
    Seq(
      "read of a cut, ns" -> readNs,
      "read by an executor, ns" -> (openNs + findNs),
      "requests of an executor" -> ((afterRead - before).requests + 1),
      "frames" -> frames,
      "load, ns" -> loadNs,
      "requests of loads" -> (store.counts - afterRead).requests
    )
  }

  /** Loads a store as a task does. Returns the number of frames. */
  private def load(store: StoreId, last: Long): Long = {
    val chain = cuts.chain(RunName, store, last + 1).fold(why => sys.error(why.toString), _.get)
    val places = chain.frames.map(_._3)
    FramePlace.ranges(places, maxGap = 0L, Int.MaxValue.toLong).foreach { near =>
      val end = near.last.offset + near.last.length
      val range = near.head.copy(length = end - near.head.offset)
      if (SegmentPieces.shared.range(archive.store, RunName, range).isEmpty)
        archive.store.getRange(ObjectKey(range.segment), range.offset, range.length.toInt)
    }
    places.size.toLong
  }

  /** CPU time of the process, including the messages of tasks. */
  private def cpuNs(): Long =
    ManagementFactory.getPlatformMXBean(classOf[OperatingSystemMXBean]).getProcessCpuTime

  /** CPU time that tasks spend on work of executors: creating frames, names and messages. */
  private def cpuOfTasksNs(): Long =
    threadsOfTasks.asScala.map(thread => Threads.getThreadCpuTime(thread.getId)).sum -
      calledNs.sum

  private def inDriver[A](body: => A): A = {
    val start = Threads.getCurrentThreadCpuTime
    try body
    finally calledNs.add(Threads.getCurrentThreadCpuTime - start)
  }

  private def timed[A](body: => A): (A, Long) = {
    val start = System.nanoTime()
    val result = body
    (result, System.nanoTime() - start)
  }

  private def runTasks(epoch: Long): Unit = {
    val next = new AtomicInteger
    if (hasInFlight)
      for (executor <- 0 until executors) cuts.awaitOvertaken(RunName, s"$executor", Set.empty)
    val slots = Seq.fill(executors)(CompletableFuture.runAsync(() => (), threads).thenCompose { _ =>
      slot(epoch, next)
    })
    CompletableFuture.allOf(slots: _*).get()
    ()
  }

  /** Runs one task after the other until none is left. */
  private def slot(epoch: Long, next: AtomicInteger): CompletableFuture[Unit] = {
    val partition = next.getAndIncrement()
    if (partition >= partitions) Done
    else {
      val attempt = attempts.incrementAndGet()
      val byOperator = (0 until storesOfPartition).map(id(partition, _)).groupBy(_.operator)
      byOperator.foreach { case (operator, stores) =>
        val channels =
          if (hasInFlight) Seq(channelTask(attempt, operator, partition, epoch)) else Nil
        val task = TaskStart(attempt, operator, partition, epoch, stores.take(1), channels)
        val started = inDriver(cuts.start(RunName, task))
          .fold(why => sys.error(why.toString), identity)
        // Before the first cut the coordinator knows no other stores.
        val others = stores.filterNot(started.stores.contains)
        if (others.nonEmpty)
          inDriver(cuts.start(RunName, task.copy(stores = others, channels = Nil)))
      }
      // All tasks are overtaken from here on.
      if (hasInFlight && partition == 0) inDriver(cuts.cutNow())
      byOperator.values
        .foldLeft(Done)((done, names) =>
          done.thenComposeAsync(_ => commit(epoch, attempt, names), threads)
        )
        .thenComposeAsync(_ => slot(epoch, next), threads)
    }
  }

  /** Commits the stores of one operator in a task. */
  private def commit(
      epoch: Long,
      attempt: Long,
      stores: Seq[StoreId]
  ): CompletableFuture[Unit] = {
    val names = stores.map { store =>
      val version = StateVersion(epoch + 1, StateVersion.newId(Clock.System))
      val index = store.operator.toInt * StoresOfJoin + Names.indexOf(store.name)
      versions(store.partition * storesOfPartition + index) = Some(version)
      FrameName(store, version, FrameKind.Delta)
    }
    // The first epoch of a run is aligned.
    val channels =
      if (hasInFlight && epoch > 0) names.map(name => channel(name.store)).distinct else Nil
    val rows = channels.map { channel =>
      FrameName(channel, StateVersion(epoch + 1, StateVersion.newId(Clock.System)), FrameKind.Base)
    }
    deliver(attempt, names ++ rows, channels.map(arrival))
  }

  private def channel(store: StoreId) = StoreId(store.operator, store.partition, Channels.name(0))

  private def arrival(channel: StoreId) =
    Arrival(ChannelReport(channel, Input, Deferred), ChannelReading.Nothing)

  private def channelTask(attempt: Long, operator: Long, partition: Int, epoch: Long) = {
    val input = channel(StoreId(operator, partition, Names.head))
    val capture = Capture(CaptureMode.Unaligned, maxEpochNs = None)
    ChannelTask(attempt, input, epoch, partitions, s"${partition % executors}", capture)
  }

  /** Writes the bases of maintenance, in each epoch for another part of the stores. */
  private def writeBases(epoch: Long): Unit = {
    val due = for {
      partition <- 0 until partitions if (partition + epoch) % chain == 0
      index <- 0 until storesOfPartition
      version <- versions(partition * storesOfPartition + index)
    } yield {
      val name = FrameName(id(partition, index), version, FrameKind.Base)
      deliver(SealedFrame.Maintenance, Seq(name))
    }
    CompletableFuture.allOf(due: _*).get()
    ()
  }

  private def deliver(
      attempt: Long,
      names: Seq[FrameName],
      arrivals: Seq[Arrival] = Nil
  ): CompletableFuture[Unit] = {
    val frames = names.map(SealedFrame(_, attempt, Frame))
    inDriver(cuts.deliver(RunName, Delivery(attempt, frames, Nil, arrivals)))
      .fold(why => sys.error(why.toString), identity)
      .thenApply { acks =>
        if (acks.exists(!_.contains(Ack.Accepted))) sys.error(s"$acks of $names")
      }
  }

  private def id(partition: Int, index: Int) =
    StoreId(index.toLong / StoresOfJoin, partition, Names(index % StoresOfJoin))

  /** Spark's commit log entry, which in format 2 contains the version ID of every store. */
  private def entry(epoch: Long): String = {
    val ids = versions.flatten.map(version => s"""["${version.id}"]""").mkString(",")
    val named = if (format == 2) s""","stateUniqueIds":{"0":[$ids]}""" else ""
    s"""v$format\n{"nextBatchWatermarkMs":$epoch$named}"""
  }

  private def cutBytes(epoch: Long): Long =
    archive.store.head(ObjectKey(CutLayout.cut(epoch))).fold(0L)(_.sizeBytes)
}

object ScaledQuery {
  private val RunName = "run"
  private val StoresOfJoin = 4
  private val Threads = ManagementFactory.getThreadMXBean
  private val Names = Seq("default", "left", "right", "other")
  private val Frame = new Array[Byte](300)
  private val Done = CompletableFuture.completedFuture(())

  // Rows of each channel and epoch.
  private val Input = RowsDigest(100L, 5L)
  private val Deferred = RowsDigest(10L, 3L)

  private object Logs extends SparkLogs {
    override def queryId(): Option[String] = Some("query")
    override def offsets(epoch: Long): String = s"v1\n{}\n$epoch"
    override def lastPlainCommit(): Option[Long] = None
    override def retention: CutRetention = CutRetention(100)
  }
}
