package io.cleancut.history

import java.util.concurrent.TimeUnit

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.Clock
import io.cleancut.coordinator.{CutsOnDisk, ForwardingStore}
import io.cleancut.cutstore.CutArchive
import io.cleancut.objectstore.{ObjectKey, ObjectPrefix, ObjectStore}
import io.cleancut.testkit.{ManualClock, Seeded}
import io.cleancut.history.Records._

class HistoryWriterSuite extends AnyFunSuite with CutsOnDisk with Seeded {
  private def files: Seq[ObjectKey] =
    store.list(ObjectPrefix(HistoryLayout.Directory)).map(_.key).toVector

  private def stored: Seq[EpochRecord] =
    files.flatMap(key => HistoryFile.read(store.get(key).get)).map(_.fold(fail(_), identity))

  private def writer(
      target: ObjectStore = store,
      keepMs: Long = 1L << 40,
      keptCuts: Int = 100,
      clock: Clock = Clock.System
  ) = new HistoryWriter(
    "location",
    target,
    new CutArchive(target, clock).cuts.head(_),
    keepMs,
    keptCuts,
    clock
  )

  private def epochsOfFiles: Seq[Seq[Long]] =
    files.map(key => HistoryFile.read(store.get(key).get).map(_.fold(fail(_), _.epoch)))

  test("records are written in groups, and the rest at the end") {
    val history = writer()
    (0L until 80L).foreach(epoch => history.add(record(epoch)))
    assert(epochsOfFiles == Seq(0L until 64L))
    history.flush()
    history.flush()
    assert(epochsOfFiles.sortBy(_.head) == Seq(0L until 64L, 64L until 80L))
  }

  test("no more records are buffered than there are cuts to restore them from") {
    val history = writer(keptCuts = 10)
    (0L until 25L).foreach(epoch => history.add(record(epoch)))
    assert(epochsOfFiles.sortBy(_.head) == Seq(0L until 10L, 10L until 20L))
  }

  test("no record is buffered for longer than a minute once another one is added") {
    val clock = new ManualClock
    val history = writer(clock = clock)
    history.add(record(0))
    clock.advance(59, TimeUnit.SECONDS)
    history.add(record(1))
    assert(files.isEmpty)
    clock.advance(1, TimeUnit.SECONDS)
    history.add(record(2))
    assert(epochsOfFiles == Seq(0L until 3L))
  }

  test("only slow epochs keep the records of their tasks") {
    val history = writer()
    history.add(record(0))
    history.add(record(1).copy(slow = Some(SlowReason(1, SlowEpochs.Commit, "why"))))
    history.flush()
    assert(stored.map(_.operators.size) == Seq(0, 1))
  }

  test("a run restores from the cuts what its predecessor has not written") {
    val coordinator = driver()
    (0L until 5L).foreach(epoch(coordinator, "run", _))
    coordinator.close()
    val first = writer()
    first.add(record(0))
    first.flush()
    // It fails with these two.
    first.add(record(1))
    first.add(record(2))
    val next = writer()
    next.add(record(5, run = "other", generation = 2))
    next.flush()
    val sorted = stored.sortBy(_.epoch)
    assert(sorted.map(_.epoch) == (0L to 5L))
    assert(sorted(1).costs.isDefined && sorted(1).location == "location")
  }

  test("files are compacted, although writers fail in between") {
    forSeeds(12) { random =>
      store.delete(files)
      var left = random.nextInt(120)
      var failures = 0
      def step(): Unit = {
        left -= 1
        if (left == 0) throw new IllegalStateException("writer fails")
      }
      val failing = new ForwardingStore(store) {
        override def put(key: ObjectKey, body: Array[Byte]): Unit = {
          step()
          super.put(key, body)
          step()
        }
        override def delete(keys: Seq[ObjectKey]): Unit = keys.foreach { key =>
          step()
          super.delete(Seq(key))
        }
      }
      var history = writer(failing)
      var written = 0L
      while (written < 40)
        try {
          history.add(record(written))
          history.flush()
          written += 1
        } catch {
          case _: IllegalStateException =>
            failures += 1
            left = random.nextInt(120)
            history = writer(failing)
        }
      assert(stored.map(_.epoch).toSet == (0L until 40L).toSet, s"after $failures failures")
      assert(files.size < 40)
    }
  }

  test("files of a later release are left unchanged") {
    val history = writer()
    val foreign = ObjectKey(HistoryLayout.file(0, 0, "0" * 32))
    val later = HistoryFile.write(Seq(record(0)), _ => "{\"version\":2,\"epoch\":0}")
    store.put(foreign, later)
    for (epoch <- 1L until 40L) {
      history.add(record(epoch))
      history.flush()
    }
    assert(files.contains(foreign) && store.get(foreign).get.sameElements(later))
  }

  test("only files older than the retention are deleted by the next run") {
    val history = writer()
    history.add(record(0))
    history.flush()
    val foreign = ObjectKey(s"${HistoryLayout.Directory}notes.txt")
    store.put(foreign, Array(1))
    writer().add(record(1))
    assert(files.size == 2)
    Thread.sleep(5)
    writer(keepMs = 1).add(record(1))
    assert(files == Seq(foreign))
  }
}
