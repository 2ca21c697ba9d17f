package io.cleancut.e2e

import java.nio.file.{FileAlreadyExistsException, Files, Path}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.{Try, Using}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}

import io.cleancut.testkit.{LongTest, TestDirectory}

/**
 * A query on files that takes over from a driver that is about to add an entry to the log of its
 * source: the driver has listed new files, but not planned the epoch.
 */
class SourceFenceSuite extends AnyFunSuite with CutsSession {
  override protected def master: String = "local[2]"
  override protected def partitions: Int = 2

  private class FileQuery(home: Path) {
    val counts: mutable.Map[String, Long] = mutable.Map.empty
    private var files = 0

    Files.createDirectory(home.resolve("in"))

    def add(value: String): Unit = {
      Files.writeString(home.resolve(s"in/$files"), s"$value\n")
      files += 1
    }

    def start(inEpoch: Long => Unit = _ => ()): StreamingQuery = {
      val write: (DataFrame, Long) => Unit = (batch, epoch) => {
        inEpoch(epoch)
        batch.collect().foreach(row => counts(row.getString(0)) = row.getLong(1))
      }
      LineCounts.start(spark, home, Trigger.ProcessingTime(0))(write)
    }

    def entries: Seq[Int] = Using.resource(Files.list(home.resolve("q/sources/0"))) {
      _.iterator.asScala.flatMap(_.getFileName.toString.stripSuffix(".compact").toIntOption).toSeq
    }

    /** Deletes the end markers, as if the drivers had been killed. */
    def deleteEndMarkers(): Unit =
      Using.resource(Files.list(home.resolve("q/cleancut/owners"))) {
        _.iterator.asScala.filter(_.toString.endsWith(".ended")).toSeq.foreach(Files.delete)
      }

    /** Adds an entry as the other driver does; false if the entry exists. */
    def addLate(entry: Int): Boolean = {
      val source = home.resolve("q/sources/0")
      val name = if (entry % 10 == 9) s"$entry.compact" else s"$entry"
      Try(Files.writeString(source.resolve(name), "v1", CreateNew)).fold(
        {
          case _: FileAlreadyExistsException => false
          case e                             => throw e
        },
        _ => true
      )
    }
  }

  private val CreateNew = java.nio.file.StandardOpenOption.CREATE_NEW

  /**
   * Takes over after this many entries of the source's log; the next entry may be a compacted one.
   */
  private def takeOver(entries: Int): Unit = TestDirectory.use("source-fence") { home =>
    val query = new FileQuery(home)
    val first = query.start()
    for (_ <- 1 to entries) {
      query.add("a")
      first.processAllAvailable()
    }
    first.stop()
    val last = query.entries.max
    query.deleteEndMarkers()
    var late = Option.empty[Boolean]
    val second = query.start(_ => if (late.isEmpty) late = Some(query.addLate(last + 1)))
    try
      for (_ <- 1 to 3) {
        query.add("b")
        second.processAllAvailable()
      }
    finally second.stop()
    assert(second.exception.isEmpty && late.contains(false))
    assert(query.counts == Map("a" -> entries.toLong, "b" -> 3L))
    // The log is complete for a run that reads all of it.
    val third = query.start()
    query.add("b")
    third.processAllAvailable()
    third.stop()
    assert(query.counts == Map("a" -> entries.toLong, "b" -> 4L))
    ()
  }

  test("a driver that is about to add to the log of a file source is fenced before its successor") {
    takeOver(2)
  }

  test(
    "a driver that is about to add a compacted entry to the log is fenced before its successor",
    LongTest
  ) {
    takeOver(9)
  }
}
