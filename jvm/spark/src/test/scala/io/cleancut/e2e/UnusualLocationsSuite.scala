package io.cleancut.e2e

import java.nio.file.{Files, Path}
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.scalatest.{Assertion, BeforeAndAfterAll}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.Trigger

import io.cleancut.{
  CleancutCheckpointFileManager,
  CleancutExtensions,
  CleancutSeal,
  CleancutStateStoreProvider
}
import io.cleancut.objectstore.S3TestStore
import io.cleancut.testkit.{LongTest, S3ProxyServer, S3Server, Seeded, SmallQueries}

/**
 * Queries whose checkpoint locations have characters with a meaning in URIs, Hadoop, XML or shells.
 * Each query is started twice, and its counts are compared with those of a batch query.
 */
class UnusualLocationsSuite extends AnyFunSuite with BeforeAndAfterAll with Seeded {
  import UnusualLocationsSuite._

  private val server = S3ProxyServer.start()
  private val spark = SmallQueries
    .builder("local[2]")
    .config(s"$State.providerClass", classOf[CleancutStateStoreProvider].getName)
    .config(
      "spark.sql.streaming.checkpointFileManagerClass",
      classOf[CleancutCheckpointFileManager].getName
    )
    .config("spark.sql.extensions", classOf[CleancutExtensions].getName)
    .config(s"$State.cleancut.s3.endpoint", server.endpoint)
    .config(s"$State.cleancut.s3.region", "us-east-1")
    .config(s"$State.cleancut.s3.pathStyle", "true")
    .config(s"$State.cleancut.mode", "unaligned")
    .getOrCreate()

  override protected def afterAll(): Unit = {
    spark.stop()
    server.close()
  }

  private def check(prefix: String): Assertion = withClue(s"'$prefix': ") {
    val events = Files.createTempDirectory("cleancut-unusual")
    val seen = new ConcurrentHashMap[String, Long]
    for (file <- 0 until 2) {
      Files.writeString(events.resolve(s"$file.txt"), (0 to 20).map(_ % (5 + file)).mkString("\n"))
      countAll(spark, events, s"s3://${S3Server.Bucket}/$prefix", seen)
    }
    val expected = counts(spark.read.text(events.toString)).collect()
    assert(seen.asScala.toMap == expected.map(row => row.getString(0) -> row.getLong(1)).toMap)
    assert(S3TestStore.archive(server.endpoint, prefix).cuts.epochs().size >= 2)
  }

  test("a location with a space, +, @, :, %, # and a leading dot") {
    check(".start/a b/+@12:30/50%20#?&'漢")
  }

  test("locations with all characters that a path supports", LongTest) {
    forSeeds(20)(random => check(prefix(random)))
  }
}

object UnusualLocationsSuite {
  private val State = "spark.sql.streaming.stateStore"
  private val Characters = "aZ0-_.%+ @:=#?&*[](){}!$',;~ß漢"

  private def prefix(random: Random): String = Seq
    .fill(1 + random.nextInt(3)) {
      val text = Seq.fill(1 + random.nextInt(5))(Characters(random.nextInt(Characters.length)))
      s"${text.mkString}x"
    }
    .mkString("/")

  private def counts(lines: DataFrame): DataFrame =
    lines.groupBy("value").agg(count("*").as("count"))

  private def countAll(
      spark: SparkSession,
      events: Path,
      location: String,
      seen: ConcurrentHashMap[String, Long]
  ): Unit =
    counts(spark.readStream.text(events.toString)).writeStream
      .outputMode("update")
      .option("checkpointLocation", location)
      .foreachBatch { (batch: DataFrame, epoch: Long) =>
        val rows = CleancutSeal.seal(batch, epoch).collect()
        rows.foreach(row => seen.put(row.getString(0), row.getLong(1)))
      }
      .trigger(Trigger.AvailableNow())
      .start()
      .awaitTermination()
}
