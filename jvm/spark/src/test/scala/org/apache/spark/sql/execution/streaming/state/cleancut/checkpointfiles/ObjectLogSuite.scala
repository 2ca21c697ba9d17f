package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable
import scala.util.Using

import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.Clock
import io.cleancut.testkit.StoreOnDisk

/** A log of Spark in a bucket, which a directory represents. */
class ObjectLogSuite extends AnyFunSuite with StoreOnDisk {
  private val offsets = new Path("s3://bucket/q/offsets")
  private val noted = mutable.Buffer.empty[(Long, String)]

  override protected def beforeEach(): Unit = {
    super.beforeEach()
    noted.clear()
  }

  private def newLog() =
    new ObjectLog(offsets, store, Clock.System, (number, text) => noted += (number -> text): Unit)

  private def entry(name: Any) = new Path(offsets, name.toString)

  private def add(log: ObjectLog, name: Any, text: String): Unit = {
    val out = log.createAtomic(entry(name), overwriteIfPossible = false)
    out.write(text.getBytes(UTF_8))
    out.close()
  }

  private def read(log: ObjectLog, name: Any): String =
    Using.resource(log.open(entry(name)))(in => new String(in.readAllBytes(), UTF_8))

  private def names(log: ObjectLog): Set[String] =
    log.list(offsets, (_: Path) => true).map(_.getPath.getName).toSet

  private def requests: Long = store.counts.byKind.values.map(_.requests).sum

  private def requestsOf(body: => Any): Long = {
    val before = requests
    body
    requests - before
  }

  test("an epoch needs one request, because the run knows its entries") {
    val log = newLog()
    assert(!log.exists(offsets))
    add(log, 0, "zero")
    for (epoch <- 1 to 20) {
      val requests = requestsOf {
        assert(!log.exists(entry(epoch)))
        assert(read(log, epoch - 1).nonEmpty)
        add(log, epoch, s"epoch $epoch")
        assert(log.exists(entry(epoch)))
      }
      assert(requests == requestsOf(add(log, s"other-$epoch", "")))
    }
    assert(noted.map(_._1) == (0L to 20L) && noted.last._2 == "epoch 20")
  }

  test("old entries, and those of another run, are requested") {
    val first = newLog()
    names(first)
    for (epoch <- 0 to 9) add(first, epoch, s"epoch $epoch")
    assert(read(first, 0) == "epoch 0" && first.exists(entry(0)))
    val second = newLog()
    assert(second.exists(entry(9)) && !second.exists(entry(10)))
    assert(names(second) == (0 to 9).map(_.toString).toSet)
    assert(second.exists(entry(9)) && read(second, 9) == "epoch 9")
  }

  test("an entry that another run has written after the listing exists") {
    val (first, second) = (newLog(), newLog())
    names(first)
    names(second)
    add(first, 0, "of the first")
    assert(second.exists(entry(0)) && read(second, 0) == "of the first")
  }

  test("an entry of another run after those of this run is detected by the create") {
    val (first, second) = (newLog(), newLog())
    names(first)
    add(first, 0, "of the first")
    names(second)
    add(second, 1, "of the second")
    assert(!first.exists(entry(1)))
    intercept[FileAlreadyExistsException](add(first, 1, "of the first"))
    assert(read(first, 1) == "of the second")
  }

  test("a deleted entry does not exist") {
    val log = newLog()
    names(log)
    add(log, 0, "zero")
    log.delete(entry(0))
    assert(!log.exists(entry(0)))
    intercept[java.io.FileNotFoundException](read(log, 0))
  }

  test("a compact entry belongs to the log") {
    val log = newLog()
    names(log)
    add(log, "9.compact", "ten")
    assert(requestsOf(assert(!log.exists(entry("19.compact")))) == 0)
    assert(log.exists(entry("9.compact")) && read(log, "9.compact") == "ten")
    assert(names(newLog()) == Set("9.compact"))
  }
}
