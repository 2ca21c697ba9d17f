package io.cleancut.cutstore

import java.util.concurrent.Executors
import java.util.concurrent.atomic.AtomicInteger

import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.Clock
import io.cleancut.coordinator.ForwardingStore
import io.cleancut.error.Errors
import io.cleancut.format.FramePlace
import io.cleancut.objectstore.{ObjectKey, Piece}
import io.cleancut.objectstore.hadoop.HadoopStore
import io.cleancut.testkit.{Seeded, TestDirectory}

/** Reads of frames of many stores in a few segments. */
class SegmentPiecesSuite extends AnyFunSuite with Seeded {
  import SegmentPiecesSuite._

  private def inDirectory(test: (Counted, Random) => Any): Unit =
    forSeeds(3) { random =>
      TestDirectory.use("pieces") { directory =>
        val disk = HadoopStore.open(new Path(directory.toUri), new Configuration, Clock.System)
        test(new Counted(disk), random)
      }
    }

  test("ranges have the bytes of the segment, and stores of one process share pieces") {
    inDirectory { (store, random) =>
      val bytes = segment(store, "a", Pieces * PieceBytes - 7, random)
      val pieces = new SegmentPieces(2L * Pieces * PieceBytes, PieceBytes)
      val places = Seq.fill(200) {
        val length = 1 + random.nextInt(PieceBytes)
        place("a", random.nextInt(bytes.length - length), length)
      }
      val threads = Executors.newFixedThreadPool(8)
      try
        places
          .map(place => place -> threads.submit(() => pieces.range(store, "run", place)))
          .foreach { case (place, range) =>
            assert(range.get().exists(_.sameElements(part(bytes, place))), place)
          }
      finally threads.shutdown()
      assert(store.pieces.get == Pieces)
    }
  }

  test("another run reads again, because the checkpoint may have been replaced") {
    inDirectory { (store, random) =>
      val pieces = new SegmentPieces(1L << 20, PieceBytes)
      val range = place("a", 3, 10)
      val first = segment(store, "a", 100, random)
      assert(pieces.range(store, "run", range).get.sameElements(part(first, range)))
      val second = segment(store, "a", 100, random)
      assert(pieces.range(store, "next", range).get.sameElements(part(second, range)))
    }
  }

  test("ranges that are missing, in a corrupted piece, or longer than a piece are not returned") {
    inDirectory { (store, random) =>
      segment(store, "a", 3 * PieceBytes, random)
      val pieces = new SegmentPieces(1L << 20, PieceBytes)
      assert(pieces.range(store, "run", place("none", 0, 10)).isEmpty)
      assert(pieces.range(store, "run", place("a", 3 * PieceBytes - 5, 10)).isEmpty)
      assert(pieces.range(store, "run", place("a", 1, 2 * PieceBytes)).isEmpty)
      store.damaged = true
      assert(pieces.range(store, "damaged", place("a", 0, 10)).isEmpty)
    }
  }

  test("pieces that are evicted before their reuse are soon not read any more") {
    inDirectory { (store, random) =>
      val room = 8
      val bytes = segment(store, "a", 64 * PieceBytes, random)
      val pieces = new SegmentPieces(room.toLong * PieceBytes, PieceBytes)
      val asks = 10000
      val answered = (0 until asks).count { n =>
        val wanted = place("a", (n % 64) * PieceBytes + 1, 10)
        val range = pieces.range(store, "run", wanted)
        assert(range.forall(_.sameElements(part(bytes, wanted))))
        range.isDefined
      }
      // At most a quarter of the reads remain. The cache evicts in the background, so some pieces
      // are still cached.
      val reads = store.pieces.get
      assert(reads <= answered && reads <= asks / 4)
    }
  }
}

private object SegmentPiecesSuite {
  val PieceBytes = 1000
  val Pieces = 5

  def place(segment: String, offset: Int, length: Int): FramePlace =
    FramePlace(segment, offset.toLong, length.toLong, 0)

  def part(bytes: Array[Byte], place: FramePlace): Array[Byte] =
    bytes.slice(place.offset.toInt, (place.offset + place.length).toInt)

  def segment(store: Counted, name: String, size: Int, random: Random): Array[Byte] = {
    val bytes = random.nextBytes(size)
    store.put(ObjectKey(name), bytes)
    bytes
  }

  final class Counted(under: HadoopStore) extends ForwardingStore(under) {
    val pieces = new AtomicInteger
    var damaged = false

    override def getPiece(key: ObjectKey, offset: Long, maxLength: Int): Option[Piece] = {
      pieces.incrementAndGet()
      if (damaged) throw Errors.cutCorrupted(key.name, "for a test")
      super.getPiece(key, offset, maxLength)
    }
  }
}
