package io.cleancut.cutstore

import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{Clock, StateVersion, StoreId}
import io.cleancut.objectstore.{ObjectKey, RangeResult}
import io.cleancut.objectstore.hadoop.HadoopStore
import io.cleancut.testkit.TestDirectory
import io.cleancut.format._
import io.cleancut.format.cut.{RunId, SealedFrame, Segment}

/** Merges of small frames of many epochs into segments sorted by store. */
class FrameMergeSuite extends AnyFunSuite {
  private val random = new Random(5)
  private val run = RunId(None, "run", 3)

  private def newId(): String = StateVersion.newId(Clock.System)

  /** Creates chains that begin with a base; each delta is in the segment of its epoch. */
  private def withChains(test: (CutArchive, Seq[StoreCut]) => Assertion): Assertion =
    TestDirectory.use("merge") { directory =>
      val store = HadoopStore.open(new Path(directory.toUri), new Configuration, Clock.System)
      val archive = new CutArchive(store, Clock.System)
      val stores = (0 until 7).map(StoreId(0, _, "default"))
      val frames = (0L to 5L).flatMap { epoch =>
        val segment = new Segment(
          CutLayout.segment(epoch, "driver", newId()),
          SegmentIdentity(epoch, "driver", "run", 3)
        )
        val kind = if (epoch == 0) FrameKind.Base else FrameKind.Delta
        val (bytes, placed) = segment.pack(random.shuffle(stores).map { store =>
          val length = if (store.partition == 6 && epoch == 3) 40 << 10 else 1 + random.nextInt(50)
          SealedFrame(
            FrameName(store, StateVersion(epoch + 1, newId()), kind),
            1,
            random.nextBytes(length)
          )
        })
        archive.store.put(ObjectKey(segment.name), bytes)
        placed
      }
      test(
        archive,
        stores.map { store =>
          val chain = frames.filter(_.name.store == store)
          StoreCut(store, chain.map(frame => (frame.name.kind, frame.name.version, frame.place)))
        }
      )
    }

  private def bytesAt(archive: CutArchive, place: FramePlace): Seq[Byte] =
    archive.store.getRange(ObjectKey(place.segment), place.offset, place.length.toInt) match {
      case RangeResult.Found(bytes) => bytes.toSeq
      case other                    => fail(s"$other")
    }

  private def assertSame(archive: CutArchive, before: Seq[StoreCut], after: Seq[StoreCut]): Unit =
    for ((was, is) <- before.zip(after)) {
      assert(was.store == is.store)
      assert(was.frames.map(f => (f._1, f._2)) == is.frames.map(f => (f._1, f._2)))
      for ((old, merged) <- was.frames.zip(is.frames)) {
        assert(bytesAt(archive, merged._3) == bytesAt(archive, old._3))
        assert(merged._3.crc == old._3.crc)
      }
    }

  test("small deltas are contiguous after a merge, and bases and large deltas are not moved") {
    withChains { (archive, chains) =>
      val merged = new FrameMerge(archive, run, () => newId())(5, chains)
      assertSame(archive, chains, merged)
      for ((was, is) <- chains.zip(merged)) {
        val (moved, kept) = is.frames.partition(f => FrameMerge.isMerged(f._3.segment))
        assert(kept == was.frames.filter(kept.contains) && kept.head._1 == FrameKind.Base)
        assert(moved.size == (if (was.store.partition == 6) 4 else 5))
        assert(FramePlace.ranges(moved.map(_._3), maxGap = 0, Long.MaxValue).size == 1)
        assert(PackedChain.of(was.frames).placedAs(PackedChain.of(is.frames)) == is.frames)
      }
      val tables =
        archive.segments
          .ofEpoch(5)
          .filter(table => FrameMerge.isMerged(table._2.head.place.segment))
      assert(tables.size == 1 && tables.head._1 == SegmentIdentity(5, "merged", "run", 3))
      assert(new FrameMerge(archive, run, () => newId())(5, merged) == merged)
    }
  }

  test("a segment has at most one batch") {
    withChains { (archive, chains) =>
      val merged = new FrameMerge(archive, run, () => newId(), batchBytes = 1)(5, chains)
      assertSame(archive, chains, merged)
      assert(archive.segments.ofEpoch(5).size == 1 + chains.size)
    }
  }

  test("corrupted and missing frames are not merged, and all others are") {
    withChains { (archive, chains) =>
      val (_, _, hit) = chains(2).frames(3)
      val key = ObjectKey(hit.segment)
      val bytes = archive.store.get(key).get
      bytes(hit.offset.toInt) = (bytes(hit.offset.toInt) + 1).toByte
      archive.store.put(key, bytes)
      val merged = new FrameMerge(archive, run, () => newId())(5, chains)
      assert(merged(2) == chains(2))
      assertSame(archive, chains.patch(2, Nil, 1), merged.patch(2, Nil, 1))
      archive.delete(Seq(key))
      // The large frame of the last chain is in this segment and is not moved.
      val rest = new FrameMerge(archive, run, () => newId())(5, chains)
      assert(rest.dropRight(1) == chains.dropRight(1))
    }
  }
}
