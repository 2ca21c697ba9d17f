package io.cleancut.cutstore

import java.util.concurrent.{
  CompletableFuture,
  LinkedBlockingQueue,
  RejectedExecutionException,
  Semaphore,
  SynchronousQueue,
  ThreadPoolExecutor,
  TimeUnit
}
import java.util.concurrent.atomic.AtomicInteger

import scala.collection.mutable

import io.cleancut.base.{Clock, DaemonThreads, StateVersion}
import io.cleancut.cutstore.usage.{WriteCounter, WriteCounts}
import io.cleancut.objectstore.{ObjectKey, ObjectStore}
import io.cleancut.format.{CutLayout, PlacedFrame, SegmentIdentity, StoreOrder}
import io.cleancut.format.cut.{SealedFrame, Segment}

/**
 * Writes frames of many stores to few objects: frames that arrive within the linger time, or until
 * an object is full, share one object. While it is written, the next object collects frames, so the
 * number of objects adapts to the speed of the store and the number of committing tasks. The future
 * of a frame completes when its object is durable.
 *
 * Waiting bytes are limited: [[submit]] blocks at the limit, [[trySubmit]] returns None.
 *
 * @param idleMs
 *   keep-alive time of an idle thread; a process has a packer for each run of a query
 */
final class SegmentPacker(
    store: ObjectStore,
    writer: String,
    clock: Clock,
    idleMs: Long = SegmentPacker.IdleMs
) extends FramePacker {
  import SegmentPacker._

  private val counter = new WriteCounter
  private val room = new Semaphore(MaxWaitingBytes)
  private val queue = new LinkedBlockingQueue[Waiting]
  private val writes = new AtomicInteger
  // As many concurrent requests as objects to write, up to a limit; then the packer waits.
  private val uploads = new ThreadPoolExecutor(
    0,
    MaxUploads,
    idleMs,
    TimeUnit.MILLISECONDS,
    new SynchronousQueue[Runnable],
    DaemonThreads.named("cleancut-segment-upload"),
    (upload, pool) =>
      if (pool.isShutdown) throw new RejectedExecutionException("closed") else upload.run()
  )
  private val packing = new ThreadPoolExecutor(
    1,
    1,
    idleMs,
    TimeUnit.MILLISECONDS,
    new LinkedBlockingQueue[Runnable],
    DaemonThreads.named("cleancut-segment-packer")
  )
  packing.allowCoreThreadTimeOut(true)

  def submit(run: SegmentIdentity, frame: SealedFrame): CompletableFuture[PlacedFrame] = {
    val permits = permitsOf(frame)
    room.acquire(permits)
    enqueue(new Waiting(run, frame, permits))
  }

  override def trySubmit(
      run: SegmentIdentity,
      frame: SealedFrame
  ): Option[CompletableFuture[PlacedFrame]] = {
    val permits = permitsOf(frame)
    if (room.tryAcquire(permits)) Some(enqueue(new Waiting(run, frame, permits))) else None
  }

  override def write(run: SegmentIdentity, frames: Seq[SealedFrame]): Seq[PlacedFrame] =
    objectsOf(frames).flatMap(writeSegment(store, writer, clock, counter)(run, _))

  override def written: WriteCounts = counter.now

  /** A segment of this process was written without this packer. */
  def wrote(frame: PlacedFrame, segmentBytes: Long): Unit =
    counter.wrote(1, frame.place.length, segmentBytes)

  override def close(): Unit = {
    packing.shutdownNow()
    uploads.shutdown()
    failAll(drained(), closed)
  }

  private def closed = new IllegalStateException("the packer was closed")

  private def enqueue(waiting: Waiting): CompletableFuture[PlacedFrame] = {
    queue.add(waiting)
    try packing.execute(() => pack())
    catch { case _: RejectedExecutionException => failAll(Seq(waiting), closed) }
    waiting.done
  }

  /** Runs once for each submitted frame; an earlier call may have processed it. */
  private def pack(): Unit = Option(queue.poll()).foreach { first =>
    val batch = mutable.Buffer(first)
    try {
      collect(batch)
      batch.groupBy(_.run).foreach { case (run, frames) =>
        // The frames of another run may already be being written.
        try uploads.execute(() => write(run, frames.toSeq))
        catch { case e: RuntimeException => failAll(frames, e) }
      }
    } catch { case e: InterruptedException => failAll(batch, e) }
  }

  /**
   * Collects frames until the object is full, or the linger time is over and no other object is
   * being written.
   */
  private def collect(batch: mutable.Buffer[Waiting]): Unit = {
    val start = clock.monotonicNs()
    def isOver = {
      val waitedNs = clock.monotonicNs() - start
      waitedNs >= LingerNs && (writes.get == 0 || waitedNs >= PatienceNs)
    }
    var bytes = batch.head.frame.bytes.length.toLong
    while (bytes < FullBytes && !isOver) {
      val next = queue.poll(LookNs, TimeUnit.NANOSECONDS)
      if (next != null) {
        batch += next
        bytes += next.frame.bytes.length
      }
    }
  }

  private def write(run: SegmentIdentity, frames: Seq[Waiting]): Unit =
    try {
      writes.incrementAndGet()
      val placed = writeSegment(store, writer, clock, counter)(run, frames.map(_.frame))
      frames.zip(placed).foreach { case (waiting, place) =>
        room.release(waiting.permits)
        waiting.done.complete(place)
      }
    } catch { case e: Throwable => failAll(frames, e) }
    finally {
      writes.decrementAndGet()
      ()
    }

  private def failAll(frames: Iterable[Waiting], cause: Throwable): Unit =
    frames.foreach { waiting =>
      if (waiting.done.completeExceptionally(cause)) room.release(waiting.permits)
    }

  private def drained(): Seq[Waiting] = {
    val left = new java.util.ArrayList[Waiting]
    queue.drainTo(left)
    left.toArray(Array.empty[Waiting]).toSeq
  }
}

object SegmentPacker {

  /** How long the first frame of an object waits for others. */
  private val LingerNs = TimeUnit.MILLISECONDS.toNanos(20)

  /**
   * How long it waits while another object is written, so that a hanging request does not block
   * others.
   */
  private val PatienceNs = TimeUnit.MILLISECONDS.toNanos(200)

  /** Polling interval of a wait. */
  private val LookNs = TimeUnit.MILLISECONDS.toNanos(2)

  /** Size at which an object is written immediately. */
  private[cleancut] val FullBytes = 16L << 20

  /** Limit of waiting and pending bytes in one process. */
  private val MaxWaitingBytes = 128 << 20
  private val MaxUploads = 4
  private val IdleMs = 60000L

  /** Writes one object; returns when it is durable. */
  def writeSegment(
      store: ObjectStore,
      writer: String,
      clock: Clock,
      counter: WriteCounter = new WriteCounter
  )(
      run: SegmentIdentity,
      frames: Seq[SealedFrame]
  ): Seq[PlacedFrame] = {
    val id = StateVersion.newId(clock)
    val segment = new Segment(CutLayout.segment(run.epoch, writer, id), run)
    // Frames that are read together are adjacent.
    val ordered = frames.toVector.zipWithIndex.sortBy(_._1.name.store)(StoreOrder)
    val (bytes, packed) = segment.pack(ordered.map(_._1))
    val placed = ordered.zip(packed).sortBy(_._1._2).map(_._2)
    // The name is unique, so a plain write, which may be repeated, is sufficient.
    store.put(ObjectKey(segment.name), bytes)
    counter.wrote(frames.size, frames.map(_.bytes.length.toLong).sum, bytes.length.toLong)
    placed
  }

  /** Distributes frames over objects, in order. */
  private def objectsOf(frames: Seq[SealedFrame]): Seq[Seq[SealedFrame]] = {
    val objects = mutable.Buffer.empty[mutable.Buffer[SealedFrame]]
    var bytes = FullBytes
    frames.foreach { frame =>
      if (bytes >= FullBytes) {
        objects += mutable.Buffer.empty
        bytes = 0L
      }
      objects.last += frame
      bytes += frame.bytes.length
    }
    objects.map(_.toSeq).toSeq
  }

  final private class Waiting(
      val run: SegmentIdentity,
      val frame: SealedFrame,
      val permits: Int
  ) {
    val done = new CompletableFuture[PlacedFrame]
  }

  // A frame above the limit takes all permits, and is written alone.
  private def permitsOf(frame: SealedFrame): Int =
    Math.max(1, Math.min(frame.bytes.length, MaxWaitingBytes))
}
