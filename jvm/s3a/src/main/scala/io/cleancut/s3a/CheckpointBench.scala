package io.cleancut.s3a

import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.streaming.StreamingQueryProgress
import org.apache.spark.sql.{DataFrame, SparkSession}

import io.cleancut.bench.BenchQuery
import io.cleancut.testkit.{Fault, FaultProxy, HttpMessage}

/**
 * Runs one query on one state store with its checkpoint on an S3 server that is so far away, and
 * counts what each epoch asks of it: from the sink of one epoch to that of the next. Prints one
 * line `figure<TAB>epoch<TAB>number` for each.
 *
 * Arguments: `cleancut` or `rocksdb`, the name of the query, partitions, epochs that are counted,
 * the server's port, milliseconds that each request takes longer.
 */
object CheckpointBench {
  private val WarmUps = 1
  private val RowsPerEpoch = 1000
  private val Keys = 1000
  private val State = "spark.sql.streaming.stateStore"
  private val Kinds = Seq("PUT", "COPY", "POST", "LIST", "HEAD", "GET", "DELETE")

  def main(args: Array[String]): Unit = {
    val Array(subject, name, partitions, epochs, port, delayMs) = args: @unchecked
    val query = small(BenchQuery.named(name))
    val proxy = new FaultProxy(port.toInt)
    proxy.harm(Fault.Delay(delayMs.toLong), times = Int.MaxValue)(_ => true)
    val isOurs = subject == "cleancut"
    val spark = session(isOurs, partitions.toInt, proxy.endpoint)
    query.confs.foreach { case (key, value) => spark.conf.set(key, value) }
    val scheme = if (isOurs) "s3" else "s3a"
    val location = s"$scheme://bucket/$subject-${query.name.hashCode.toHexString}-$partitions"
    val counts = new Requests(proxy)
    val wanted = WarmUps + epochs.toInt
    val progress = run(spark, query, location, wanted, counts)
    for (epoch <- WarmUps until wanted) {
      val asked = counts.between(epoch - 1, epoch)
      Kinds.foreach(kind => println(s"$kind\t$epoch\t${asked.getOrElse(kind, 0)}"))
      val of = progress(epoch.toLong)
      val commits = of.stateOperators.map(_.commitTimeMs).sum
      println(s"commit of a task\t$epoch\t${commits / partitions.toInt}")
      println(s"commit of the epoch\t$epoch\t${of.durationMs.get("commitOffsets")}")
      println(s"batch\t$epoch\t${of.durationMs.get("triggerExecution")}")
    }
    System.exit(0)
  }

  /** Changes are small, so that what is written for them shows. */
  private def small(query: BenchQuery): BenchQuery =
    query.copy(rowsPerEpoch = RowsPerEpoch, keys = Keys)(query.build)

  private def run(
      spark: SparkSession,
      query: BenchQuery,
      location: String,
      epochs: Int,
      counts: Requests
  ): Map[Long, StreamingQueryProgress] = {
    val running = query
      .build(query.input(spark))
      .writeStream
      .outputMode(query.mode)
      .option("checkpointLocation", location)
      .foreachBatch { (batch: DataFrame, _: Long) =>
        batch.collect(): Unit
        counts.mark()
      }
      .start()
    def full = running.recentProgress.filter(_.numInputRows > 0)
    while (full.length < epochs) {
      running.exception.foreach(throw _)
      Thread.sleep(20)
    }
    val found = full.map(of => of.batchId -> of).toMap
    running.stop()
    found
  }

  private def session(isOurs: Boolean, partitions: Int, endpoint: String): SparkSession = {
    val builder = SparkSession
      .builder()
      // Tasks wait for the store most of the time, so that few cores do for many of them.
      .master("local[32]")
      .config("spark.ui.enabled", "false")
      .config("spark.sql.shuffle.partitions", partitions.toString)
      .config("spark.sql.adaptive.enabled", "false")
      .config("spark.sql.session.timeZone", "UTC")
    (if (isOurs) ours(endpoint) else stock(endpoint))
      .foldLeft(builder) { case (made, (key, value)) =>
        made.config(key, value)
      }
      .getOrCreate()
  }

  private def ours(endpoint: String): Map[String, String] = Map(
    s"$State.providerClass" -> "io.cleancut.CleancutStateStoreProvider",
    "spark.sql.streaming.checkpointFileManagerClass" -> "io.cleancut.CleancutCheckpointFileManager",
    "spark.sql.extensions" -> "io.cleancut.CleancutExtensions",
    s"$State.cleancut.endpoint" -> endpoint
  )

  private def stock(endpoint: String): Map[String, String] = Map(
    s"$State.providerClass" ->
      "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    s"$State.rocksdb.changelogCheckpointing.enabled" -> "true",
    "spark.hadoop.fs.s3a.endpoint" -> endpoint,
    "spark.hadoop.fs.s3a.endpoint.region" -> "us-east-1",
    "spark.hadoop.fs.s3a.access.key" -> "access",
    "spark.hadoop.fs.s3a.secret.key" -> "secret",
    "spark.hadoop.fs.s3a.path.style.access" -> "true"
  )
}

/** What has been asked of a server, at each of some moments. */
final class Requests(proxy: FaultProxy) {
  private val counts = new scala.collection.concurrent.TrieMap[String, AtomicInteger]
  private val marks = new ConcurrentLinkedQueue[Map[String, Int]]
  proxy.watch { request =>
    counts.getOrElseUpdate(Requests.kind(request), new AtomicInteger).incrementAndGet(): Unit
  }

  def mark(): Unit = {
    marks.add(counts.view.mapValues(_.get).toMap)
    ()
  }

  /** Between two of the moments, by kind. */
  def between(one: Int, other: Int): Map[String, Int] = {
    val all = marks.asScala.toIndexedSeq
    all(other).map { case (kind, count) => kind -> (count - all(one).getOrElse(kind, 0)) }
  }
}

object Requests {

  /** As a bill has them: a deletion of many is one, and free like others. */
  def kind(request: HttpMessage): String = request.method match {
    case "PUT" if request.header("x-amz-copy-source").isDefined                 => "COPY"
    case "GET" if request.target.matches("[^?]*\\?(.*&)?(list-type|uploads).*") => "LIST"
    case "POST" if request.target.contains("?delete")                           => "DELETE"
    case method                                                                 => method
  }
}
