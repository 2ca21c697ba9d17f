package org.apache.spark.sql.execution.streaming.state.cleancut.localfiles

import java.io.{FileNotFoundException, IOException}
import java.nio.file.Files
import java.util.concurrent.{ConcurrentLinkedQueue, CountDownLatch, Executors}
import java.util.concurrent.TimeUnit.SECONDS

import scala.jdk.CollectionConverters._
import scala.util.{Random, Using}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.Clock
import io.cleancut.coordinator.ForwardingStore
import io.cleancut.objectstore.{ObjectKey, ObjectStore, RangeResult}
import io.cleancut.objectstore.hadoop.HadoopStore
import io.cleancut.testkit.{Patience, TestDirectory}

class RangeInputSuite extends AnyFunSuite with BeforeAndAfterAll {
  private val directory = Files.createTempDirectory("ranges")
  private val threads = Executors.newFixedThreadPool(4)
  private val key = ObjectKey("a")
  private val bytes = new Array[Byte](1000)
  new Random(3).nextBytes(bytes)
  private lazy val store: ObjectStore = {
    val opened =
      HadoopStore.open(new Path(directory.toUri), new Configuration(false), Clock.System)
    opened.put(key, bytes)
    opened
  }

  override protected def afterAll(): Unit = {
    threads.shutdownNow()
    TestDirectory.delete(directory)
  }

  private val modes = Seq("on demand" -> None) ++
    Seq(1, 2, 50).map(pieces => s"$pieces ahead" -> Some((threads, pieces)))

  for ((name, ahead) <- modes) {
    test(s"a range is read completely, with pieces of any size, each read $name") {
      for {
        pieceBytes <- Seq(1, 7, 100, 333, 5000)
        (offset, length) <- Seq((0L, 1000L), (13L, 500L), (999L, 1L), (500L, 500L), (3L, 0L))
      } {
        val in = new RangeInput(store, key, offset, length, pieceBytes, ahead)
        val actual = Using.resource(in)(_.readAllBytes())
        assert(actual.toSeq == bytes.slice(offset.toInt, (offset + length).toInt).toSeq)
        assert(in.read() == -1)
      }
    }

    test(s"a truncated object is read up to its end without error, each read $name") {
      val in = new RangeInput(store, key, 900L, 400L, 30, ahead)
      assert(in.readAllBytes().toSeq == bytes.drop(900).toSeq)
    }

    test(s"a missing object is an error of the reader, each read $name") {
      val in = new RangeInput(store, ObjectKey("none"), 0L, 400L, 30, ahead)
      intercept[FileNotFoundException](in.read())
    }

    test(s"a failure is raised at its position, each read $name") {
      val broken = new ForwardingStore(store) {
        override def getRange(key: ObjectKey, offset: Long, length: Int): RangeResult =
          if (offset == 200L) throw new IOException("the third")
          else super.getRange(key, offset, length)
      }
      val in = new RangeInput(broken, key, 0L, 1000L, 100, ahead)
      assert(in.readNBytes(200).toSeq == bytes.take(200).toSeq)
      for (_ <- 1 to 2) assert(intercept[IOException](in.read()).getMessage == "the third")
    }
  }

  test("the configured number of pieces is read ahead, and no more") {
    val requested = new ConcurrentLinkedQueue[Long]
    val others = new CountDownLatch(2)
    val watched = new ForwardingStore(store) {
      override def getRange(key: ObjectKey, offset: Long, length: Int): RangeResult = {
        requested.add(offset)
        if (offset > 0) others.countDown()
        super.getRange(key, offset, length)
      }
    }
    val in = new RangeInput(watched, key, 0L, 1000L, 100, Some((threads, 2)))
    assert(in.read() == (bytes.head & 0xff))
    // The reader has not reached them.
    assert(others.await(Patience.Seconds, SECONDS))
    assert(requested.asScala.toSet == Set(0L, 100L, 200L))
    in.readNBytes(99)
    assert(requested.size == 3)
    in.read()
    assert(in.readAllBytes().length == 899 && requested.size == 10)
  }
}
