package io.cleancut.engine

import java.util.concurrent.atomic.AtomicInteger

import scala.collection.mutable

import io.cleancut.{StateVersion, StoreId}
import io.cleancut.format.{BlockScratch, FrameReader, FrameTrailer, FrameWriter}

/**
 * The state of one store in memory: a table, and the versions of it that can still be served.
 *
 * One task at a time uses it; the provider sees to that. Another thread may read a sealed version
 * while it holds a [[pin]] on it: pinned rows are not rewound, and the memory is freed when the
 * last holder ([[retain]], [[release]], [[pin]]) lets go, so that a page that somebody may read is
 * never freed.
 */
final class StateLog(
    val store: StoreId,
    orderedBy: Option[RankOf],
    memory: Memory = Memory.access,
    parent: MemoryAccount = MemoryAccount.process
) {
  import StateLog._

  private val account = parent.child()
  private val table = new Table(memory, account, store.toString, orderedBy)
  private val holders = new AtomicInteger(1)
  private val pins = mutable.ListBuffer.empty[Version]

  @volatile private var retained: Vector[Version] = Vector(here(0L, None))

  /** Versions that can be served without a load, oldest first. */
  def versions: Vector[Version] = retained

  def latest: Version = retained.last

  def usedBytes: Long = account.usedBytes

  def keys: Long = table.keys

  def find(number: Long, id: Option[String]): Option[Version] =
    retained.find(v => v.number == number && (id.isEmpty || v.id == id))

  /**
   * Undoes everything after `version`, sealed or not. False, and nothing done, if another thread
   * reads rows that would go.
   */
  def tryRewindTo(version: Version): Boolean = pins.synchronized {
    val isFree = pins.forall(pinned => !pinned.mark.isAfter(version.mark))
    if (isFree) {
      if (table.mark() != version.mark) table.rollback(version.mark)
      retained = retained.takeWhile(_ != version) :+ version
    }
    isFree
  }

  /**
   * Runs `read` with a version that stays as it is meanwhile; None if it is not served any more.
   */
  def pin[A](number: Long)(read: Version => A): Option[A] = {
    val pinned = pins.synchronized {
      val version = find(number, None).filter(_ => retain())
      version.foreach(pins += _)
      version
    }
    pinned.map { version =>
      try read(version)
      finally {
        pins.synchronized(pins -= version)
        release()
      }
    }
  }

  /** Declares what is there now to be `version`, and keeps the last `keep` versions. */
  def seal(version: StateVersion, keep: Int): Unit = {
    require(version.number > latest.number, s"$version does not come after ${latest.number}")
    retained = (retained :+ here(version.number, Some(version.id))).takeRight(Math.max(keep, 1))
  }

  /** Declares the empty log to stand at `version`, for a state that starts there. */
  def startAt(number: Long, id: Option[String]): Unit = {
    require(latest.number == 0L && table.mark() == latest.mark, "the log is not empty")
    retained = Vector(here(number, id))
  }

  def find(key: Bytes, bound: Int): Long = table.find(key, bound)

  def put(key: Bytes, value: Bytes): Unit = table.put(key, value)

  def remove(key: Bytes): Boolean = table.remove(key)

  def scan(bound: Int): TableSnapshot = table.snapshot(bound)

  def scanRank(rank: Long, bound: Int): RankScan = table.scanRank(rank, bound)

  /** Applies a frame on top of what is there. The caller seals the version that it makes. */
  def load(reader: FrameReader, scratch: BlockScratch): FrameTrailer = {
    reader.identity.keys.foreach(keys => table.reserve(Math.min(keys, MaxReservedKeys)))
    new FrameLoad(table, DefaultFamily)(reader, scratch)
  }

  /**
   * A writer of the delta from the latest version to what will be there; it asks for `frame` late.
   */
  def deltaTo(frame: () => FrameWriter): DeltaWriter =
    new DeltaWriter(memory, table, latest.mark, DefaultFamily, frame)

  /** Writes all rows of `version` into a base. May run in any thread that holds the log. */
  def writeBase(version: Version, frame: FrameWriter): Unit = {
    val scratch = BlockScratch.borrow()
    try {
      val blocks = new RecordBlocks(memory, DefaultFamily, frame, scratch)
      new HashOrder(memory, version.view, version.mark).foreach(blocks.add)
      blocks.flush()
    } finally scratch.giveBack()
    frame.finish(version.mark.keys)
  }

  /** Bytes of records that no served version needs any more, or that only older ones need. */
  def deadBytes: Long = table.deadBytes

  def liveBytes: Long = table.neededBytes

  private[engine] def contents: Table = table

  private[engine] def adopt(versions: Vector[Version]): Unit = retained = versions

  private[engine] def here(number: Long, id: Option[String]): Version =
    Version(number, id, table.mark(), table.view())

  /** Holds the log for another user; false if it has been freed already. */
  def retain(): Boolean = {
    var count = holders.get()
    while (count > 0 && !holders.compareAndSet(count, count + 1)) count = holders.get()
    count > 0
  }

  def release(): Unit = if (holders.decrementAndGet() == 0) table.free()
}

object StateLog {

  /**
   * A version that is in memory. Version 0, the empty store, has no id. The view was taken when the
   * version was sealed, because only the thread that writes may take one.
   */
  final case class Version(number: Long, id: Option[String], mark: Table.Mark, view: PagedLog.View)

  /** A damaged count must not take the machine's memory before the damage is found. */
  private val MaxReservedKeys = 64L << 20

  /** The only column family so far. */
  val DefaultFamily: Int = 0
}
