package io.cleancut.e2e

import java.nio.file.{Files, Path}

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.streaming.{StreamingQuery, StreamingQueryException, Trigger}

import io.cleancut.error.CleancutException
import io.cleancut.testkit.TestDirectory

/**
 * Two drivers that start a new query concurrently: the earlier one plans the first epoch after the
 * owner has read that no epoch is planned. Earlier, the owner ended with an error of Spark without
 * a remedy.
 */
class FirstEntrySuite extends AnyFunSuite with CutsSession {
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

  /** Returns the entry that the other driver writes: that of the first epoch of the same query. */
  private def plannedElsewhere(): String = TestDirectory.use("first-entry-before") { home =>
    Files.createDirectory(home.resolve("in"))
    add(home, 0)
    val query = start(home, mutable.Map.empty)
    try query.processAllAvailable()
    finally query.stop()
    Files.readString(home.resolve("q/offsets/0"))
  }

  test(
    "an owner whose first epoch another run has planned fails with an error ID, and a restart works"
  ) {
    val entry = plannedElsewhere()
    TestDirectory.use("first-entry") { home =>
      Files.createDirectory(home.resolve("in"))
      val counts = mutable.Map.empty[String, Long]
      val owner = start(home, counts)
      // The owner has read that no epoch is planned.
      owner.processAllAvailable()
      Files.writeString(home.resolve("q/offsets/0"), entry)
      add(home, 0)
      val failure = intercept[StreamingQueryException](owner.awaitTermination())
      val causes = Iterator.iterate[Throwable](failure)(_.getCause).takeWhile(_ != null)
      val ids = causes.collect { case e: CleancutException => e.getErrorId }.toSeq
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
