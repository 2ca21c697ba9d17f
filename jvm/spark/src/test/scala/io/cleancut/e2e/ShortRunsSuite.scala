package io.cleancut.e2e

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.streaming.Trigger

import io.cleancut.testkit.{LongTest, TestDirectory}

/** A query that is repeatedly started for one epoch, as by an hourly schedule. */
class ShortRunsSuite extends AnyFunSuite with CutsSession {
  override protected def master: String = "local[2]"
  override protected def partitions: Int = 2

  private val write: (DataFrame, Long) => Unit = (batch, _) => {
    batch.collect()
    ()
  }

  private def runOnce(home: Path, number: Int): Unit = {
    Files.writeString(home.resolve(s"in/$number"), s"${number % 3}\n")
    LineCounts.start(spark, home, Trigger.AvailableNow())(write).awaitTermination()
  }

  private def objects(home: Path, below: String): Seq[String] =
    Using.resource(Files.walk(home.resolve(s"q/cleancut/$below")))(
      _.iterator.asScala.filter(Files.isRegularFile(_)).map(_.getFileName.toString).toSeq
    )

  test("thirty runs of one epoch leave no more objects than ten runs", LongTest) {
    // Limits the length of chains and the retention of cuts.
    spark.conf.set("spark.sql.streaming.stateStore.minDeltasForSnapshot", "2")
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
    TestDirectory.use("hourly") { home =>
      Files.createDirectory(home.resolve("in"))
      val counts = (1 to 30).map { number =>
        runOnce(home, number)
        // Each run claims its first epoch.
        val (claims, cuts) = objects(home, "cuts").partition(_.endsWith(".sealed"))
        (cuts.size, claims.size, objects(home, "segments").size)
      }
      info(counts.mkString(" "))
      val (cuts, claims, segments) = counts.last
      assert(cuts <= 4 && claims <= 2, counts)
      assert(segments <= 30, counts)
      assert(Files.exists(home.resolve("q/commits/29")))
    }
  }
}
