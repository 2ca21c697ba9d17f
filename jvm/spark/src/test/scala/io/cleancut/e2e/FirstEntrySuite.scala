package io.cleancut.e2e

import java.nio.file.{Files, Path}

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.streaming.{StreamingQuery, StreamingQueryException, Trigger}

import io.cleancut.error.CleancutException
import io.cleancut.testkit.TestDirectory

/**
 * Two drivers that begin a new query at once: the one before plans the first epoch when the owner
 * has read that none is planned. The owner ended with Spark's bare error before, and nothing said
 * that it would go on when started again.
 */
class FirstEntrySuite extends AnyFunSuite with WithCuts {
  override protected def master: String = "local[2]"
  override protected def partitions: Int = 2

  private def start(home: Path, counts: mutable.Map[String, Long]): StreamingQuery = {
    val write: (DataFrame, Long) => Unit = (batch, _) =>
      batch.collect().foreach(row => counts(row.getString(0)) = row.getLong(1))
    LineCounts.start(spark, home, Trigger.ProcessingTime(0))(write)
  }

  private def add(home: Path, file: Int): Unit = {
    Files.writeString(home.resolve(s"in/$file"), "a\n")
    ()
  }

  /** What the driver before writes: the entry of the first epoch of the same query. */
  private def plannedElsewhere(): String = TestDirectory.use("first-entry-before") { home =>
    Files.createDirectory(home.resolve("in"))
    add(home, 0)
    val query = start(home, mutable.Map.empty)
    try query.processAllAvailable()
    finally query.stop()
    Files.readString(home.resolve("q/offsets/0"))
  }

  test("an owner whose first epoch another run has planned says so, and goes on when restarted") {
    val entry = plannedElsewhere()
    TestDirectory.use("first-entry") { home =>
      Files.createDirectory(home.resolve("in"))
      val counts = mutable.Map.empty[String, Long]
      val owner = start(home, counts)
      // It has found that nothing is planned.
      owner.processAllAvailable()
      Files.writeString(home.resolve("q/offsets/0"), entry)
      add(home, 0)
      val failure = intercept[StreamingQueryException](owner.awaitTermination())
      val found = Iterator.iterate[Throwable](failure)(_.getCause).takeWhile(_ != null)
      val ids = found.collect { case e: CleancutException => e.getErrorId }.toSeq
      assert(ids.contains("CLEANCUT_OFFSET_LOG_CONFLICT"), failure)
      val again = start(home, counts)
      try {
        again.processAllAvailable()
        add(home, 1)
        again.processAllAvailable()
      } finally again.stop()
      assert(Files.readString(home.resolve("q/offsets/0")) == entry)
      assert(counts == Map("a" -> 2L))
    }
  }
}
