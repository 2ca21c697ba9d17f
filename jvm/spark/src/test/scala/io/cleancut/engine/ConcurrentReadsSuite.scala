package io.cleancut.engine

import java.util.concurrent.{Callable, ConcurrentHashMap, Executors, TimeUnit}

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.engine.OneFamily._
import io.cleancut.engine.memory.Memory
import io.cleancut.testkit.{Blob, Frames, Patience, Seeded, TestMemory}
import io.cleancut.testkit.Blob.Rows

/**
 * One thread writes, seals, aborts and rewinds to older versions, as tasks do. Another thread reads
 * versions concurrently, as maintenance and compaction do. The reader must find exactly the rows of
 * the version.
 */
class ConcurrentReadsSuite extends AnyFunSuite with Seeded {
  import ConcurrentReadsSuite._

  for (mode <- TestMemory.modes) {
    test(s"a base that is written during changes has the rows of its version, in $mode memory") {
      forSeeds(3) { random =>
        TestMemory.using(mode) { owned =>
          val writer = new Writer(random, owned)
          readDuring(writer) { () =>
            val log = writer.log
            val based = log.pin(log.latest.number)(v => v -> baseOf(log, v))
            for ((version, frame) <- based) {
              val read = OneFamily.newLog(owned)
              frame.foreach(_.read((reader, scratch) => read.load(reader, scratch)))
              val rows = rowsOf(read, owned.memory)
              read.release()
              assert(version.id.forall(id => writer.versions.get(id) == rows))
            }
            based.isDefined
          }
          writer.log.release()
        }
      }
    }

    test(
      s"a log that is copied concurrently with a writer serves the same versions, in $mode memory"
    ) {
      forSeeds(3) { random =>
        TestMemory.using(mode) { owned =>
          val writer = new Writer(random, owned)
          var last = Option.empty[Compaction]
          readDuring(writer) { () =>
            last.foreach(_.abandon())
            val copy =
              new Compaction(writer.log, _ => None, owned.memory, owned.account, stepRecords = 7)
            last = Some(copy)
            if (copy.copyOldest(() => true)) {
              writer.log.followWith(() => ())
              for (_ <- 0 until 40) copy.follow()
            } else {
              copy.abandon()
              last = None
            }
            last.isDefined
          }
          last.foreach { copy =>
            val fresh = copy.catchUp()
            assert(fresh.versions.map(_.id) == writer.log.versions.map(_.id))
            for (version <- fresh.versions; id <- version.id)
              assert(rowsOf(fresh, owned.memory, version.mark.end) == writer.versions.get(id))
            fresh.release()
          }
          writer.log.release()
        }
      }
    }
  }

  test("a reader of a log keeps its memory after the owner has released it") {
    TestMemory.using("checked") { owned =>
      val log = OneFamily.newLog(owned)
      val key = Blob.of(1, 2, 3)
      log.put(Blob.bytes(key), Blob.bytes(key))
      log.seal(Frames.version(1), keep = 1)
      log.pin(1L) { version =>
        log.release()
        assert(log.retain())
        log.release()
        assert(rowsOf(log, owned.memory, version.mark.end) == Map(key -> key))
      }
      assert(!log.retain())
      assert(log.pin(1L)(identity).isEmpty)
    }
  }

  test("a task continues when the copy that follows it is abandoned") {
    TestMemory.using("raw") { owned =>
      val log = OneFamily.newLog(owned)
      val key = Blob.of(1, 2, 3)
      log.put(Blob.bytes(key), Blob.bytes(key))
      val thread = Executors.newSingleThreadExecutor()
      try {
        val abandoning = thread.submit(new Runnable {
          override def run(): Unit = for (i <- 0 until 200000)
            log.followWith(if (i % 2 == 0) () => () else null)
        })
        while (!abandoning.isDone) log.publish()
        abandoning.get()
      } finally thread.shutdown()
      log.release()
    }
  }

  /** Reads in another thread while the writer writes, until enough reads had a version. */
  private def readDuring(writer: Writer)(read: () => Boolean): Unit = {
    writer.run(epochs = 20)
    val thread = Executors.newSingleThreadExecutor()
    try {
      val reading: Callable[Unit] = () => {
        var done = 0
        while (done < Reads) if (read()) done += 1
      }
      val reads = thread.submit(reading)
      while (!reads.isDone) writer.run(epochs = 5)
      reads.get(Patience.Seconds, TimeUnit.SECONDS)
    } finally thread.shutdown()
  }

  private def baseOf(log: StateLog, version: StateLog.Version): Option[Frames.Frame] =
    version.id.map { id =>
      val target = io.cleancut.base.StateVersion(version.number, id)
      Frames.write(Frames.base(target, version.mark.keys))(log.writeBase(version, _))
    }
}

object ConcurrentReadsSuite {
  private val Reads = 60

  private def rowsOf(log: StateLog, memory: Memory, bound: Int = Record.NoBound): Rows = {
    val scan = log.scan(bound)
    Iterator
      .continually(scan.advance())
      .takeWhile(identity)
      .map(_ => Blob.keyAt(memory, scan.address) -> Blob.valueAt(memory, scan.address))
      .toMap
  }

  /** Changes a log epoch by epoch; `versions` has the rows of each sealed version. */
  private class Writer(random: Random, owned: TestMemory.Owned) {
    val log = OneFamily.newLog(owned)
    val versions = new ConcurrentHashMap[String, Rows]
    private val pool = Vector.fill(400)(Blob.random(random, 4 + random.nextInt(20)))
    private var rows: Rows = Map.empty
    private var attempts = 0

    def run(epochs: Int): Unit = for (_ <- 0 until epochs) {
      for (_ <- 0 until random.nextInt(120)) change()
      random.nextInt(5) match {
        case 0 => rewind(log.latest)
        case 1 => rewind(log.versions(random.nextInt(log.versions.size)))
        case _ => seal()
      }
    }

    private def change(): Unit = {
      val key = pool(random.nextInt(pool.size))
      if (random.nextInt(4) == 0) {
        log.remove(Blob.bytes(key))
        rows -= key
      } else {
        val value = Blob.random(random, random.nextInt(300))
        log.put(Blob.bytes(key), Blob.bytes(value))
        rows += key -> value
      }
      if (random.nextInt(10) == 0) log.publish()
    }

    private def seal(): Unit = {
      attempts += 1
      val version = Frames.version(log.latest.number + 1, attempts)
      versions.put(version.id, rows)
      log.seal(version, keep = 3)
    }

    // If a reader holds rows that would be dropped, a provider loads another log. Here the task
    // seals.
    private def rewind(to: StateLog.Version): Unit =
      if (log.tryRewindTo(to)) rows = to.id.fold[Rows](Map.empty)(versions.get)
      else seal()
  }
}
