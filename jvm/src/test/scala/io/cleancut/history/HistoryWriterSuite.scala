package io.cleancut.history

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.Clock
import io.cleancut.cuts.{CutArchive, CutsOnDisk, ForwardingStore}
import io.cleancut.history.Records._
import io.cleancut.objects.{ObjectKey, ObjectPrefix, ObjectStore}
import io.cleancut.testkit.Seeded

class HistoryWriterSuite extends AnyFunSuite with CutsOnDisk with Seeded {
  private def files: Seq[ObjectKey] =
    store.list(ObjectPrefix(HistoryLayout.Directory)).map(_.key).toVector

  private def stored: Seq[EpochRecord] =
    files.flatMap(key => HistoryFile.read(store.get(key).get)).map(_.fold(fail(_), identity))

  private def writer(of: ObjectStore = store, keepMs: Long = 1L << 40) =
    new HistoryWriter("location", new CutArchive(of, Clock.System), keepMs, Clock.System)

  test("records are written some at a time, and all of them at the end") {
    val history = writer()
    (0L until 20L).foreach(epoch => history.add(record(epoch)))
    assert(files.size == 1 && stored.map(_.epoch) == (0L until 16L))
    history.flush()
    history.flush()
    assert(files.size == 2 && stored.map(_.epoch).sorted == (0L until 20L))
  }

  test("what tasks did is kept of slow epochs alone") {
    val history = writer()
    history.add(record(0))
    history.add(record(1).copy(slow = Some(SlowReason(1, SlowEpochs.Gate, "why"))))
    history.flush()
    assert(stored.map(_.operators.size) == Seq(0, 1))
  }

  test("a run draws from the cuts what the one before it has not written") {
    val coordinator = driver()
    (0L until 5L).foreach(epoch(coordinator, "run", _))
    coordinator.close()
    val first = writer()
    first.add(record(0))
    first.flush()
    // Dies with these.
    first.add(record(1))
    first.add(record(2))
    val next = writer()
    next.add(record(5, run = "other", generation = 2))
    next.flush()
    val found = stored.sortBy(_.epoch)
    assert(found.map(_.epoch) == (0L to 5L))
    assert(found(1).costs.isDefined && found(1).location == "location")
  }

  test("many files become one, whoever dies in between") {
    forSeeds(12) { random =>
      store.delete(files)
      var left = random.nextInt(120)
      var deaths = 0
      def step(): Unit = {
        left -= 1
        if (left == 0) throw new IllegalStateException("dies here")
      }
      val mortal = new ForwardingStore(store) {
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
      var history = writer(mortal)
      var written = 0L
      while (written < 40)
        try {
          history.add(record(written))
          history.flush()
          written += 1
        } catch {
          case _: IllegalStateException =>
            deaths += 1
            left = random.nextInt(120)
            history = writer(mortal)
        }
      assert(stored.map(_.epoch).toSet == (0L until 40L).toSet, s"after $deaths deaths")
      assert(files.size < 40)
    }
  }

  test("files of a later release are left as they are") {
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

  test("files that are older than they are kept are deleted by the next run, and no others") {
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
