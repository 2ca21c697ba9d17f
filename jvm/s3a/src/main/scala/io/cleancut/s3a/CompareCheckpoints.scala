package io.cleancut.s3a

import java.nio.file.{Files, Path}

import io.cleancut.bench.{ChildJvm, Figures}
import io.cleancut.testkit.{ServerProcess, TestDirectory}

/**
 * The same queries with their checkpoint on the same S3 server, on Cleancut and on Spark's RocksDB
 * provider through S3A, as Markdown.
 *
 * Options: `partitions=50,200`, `epochs=3`, `delay=50` (milliseconds more for each request),
 * `query=aggregation` (only queries with this in their name).
 */
object CompareCheckpoints {
  private val Queries = Seq("aggregation, 1 M keys", "inner join, format 2")
  private val Subjects = Seq("cleancut", "rocksdb")
  private val Kinds = Seq("PUT", "COPY", "POST", "LIST", "HEAD", "GET", "DELETE")
  private val BatchesADay = 24 * 3600 / 10

  /** What a million requests that write or list, and that read, cost in dollars. */
  final private case class Prices(writes: Double, reads: Double)
  private val R2 = Prices(4.50, 0.36)
  private val Aws = Prices(5.00, 0.40)

  def main(args: Array[String]): Unit = {
    val options = args.map(_.split("=", 2)).collect { case Array(k, v) => k -> v }.toMap
    val partitions = options.getOrElse("partitions", "50,200").split(",").toSeq
    val names = Queries.filter(_.contains(options.getOrElse("query", "")))
    val server = start()
    try {
      println("\n### A checkpoint on an S3 server\n")
      println(Figures.table(header, Nil))
      for (name <- names; count <- partitions) {
        val found = Subjects.map { subject =>
          subject -> measured(
            subject,
            Seq(
              subject,
              name,
              count,
              options.getOrElse("epochs", "3"),
              server._1.port.toString,
              options.getOrElse("delay", "50")
            )
          )
        }
        found.foreach { case (subject, figures) =>
          println(Figures.row(row(name, count, subject, figures)))
        }
        println(Figures.row(ratios(name, count, found.map(_._2))))
      }
    } finally {
      server._1.close()
      TestDirectory.delete(server._2)
    }
    System.exit(0)
  }

  private def header: Seq[String] = Seq("query", "partitions", "store") ++ Kinds ++ Seq(
    "requests",
    "commit of a task",
    "commit of the epoch",
    "batch",
    "R2, $ a day",
    "AWS, $ a day"
  )

  private def row(
      name: String,
      partitions: String,
      subject: String,
      found: Map[String, Long]
  ): Seq[String] =
    Seq(name, partitions, subject) ++ Kinds.map(found(_).toString) ++
      Seq(requests(found).toString) ++ Times.map(figure => s"${found(figure)} ms") ++
      Seq(R2, Aws).map(prices => f"${aDay(found, prices)}%.2f")

  /** How many times more or longer the second is. */
  private def ratios(
      name: String,
      partitions: String,
      found: Seq[Map[String, Long]]
  ): Seq[String] = {
    val Seq(ours, theirs) = found: @unchecked
    def ratio(of: Map[String, Long] => Double) = f"${of(theirs) / of(ours)}%.1f"
    Seq(name, partitions, "ratio") ++ Kinds.map(_ => "") ++ Seq(ratio(requests(_).toDouble)) ++
      Times.map(figure => ratio(_(figure).toDouble)) ++
      Seq(R2, Aws).map(prices => ratio(aDay(_, prices)))
  }

  private val Times = Seq("commit of a task", "commit of the epoch", "batch")

  private def requests(found: Map[String, Long]): Long = Kinds.map(found).sum

  private def aDay(found: Map[String, Long], prices: Prices): Double = {
    val writes = Seq("PUT", "COPY", "POST", "LIST").map(found).sum
    val reads = Seq("HEAD", "GET").map(found).sum
    (writes * prices.writes + reads * prices.reads) / 1e6 * BatchesADay
  }

  private def measured(subject: String, arguments: Seq[String]): Map[String, Long] =
    ChildJvm
      .run("io.cleancut.s3a.CheckpointBench", arguments, isOnClassPath(subject))
      .collect { case Array(figure, _, number) => figure -> number.toLong }
      .groupMap(_._1)(_._2)
      .map { case (figure, all) => figure -> Figures.median(all) }

  /** Each has the SDK that it is written for, and not the other's. */
  private def isOnClassPath(subject: String)(entry: String): Boolean = {
    val isS3a = entry.contains("hadoop-aws") || entry.contains("/awssdk/bundle/")
    val isOurs = entry.contains("/awssdk/") && !isS3a
    !(if (subject == "cleancut") isS3a else isOurs) && !entry.contains("minicluster")
  }

  private def start(): (ServerProcess, Path) = {
    val program = Path.of(sys.env("CLEANCUT_VERSITYGW")).toAbsolutePath
    val directory = Files.createTempDirectory("versitygw")
    Files.createDirectories(directory.resolve("data/bucket"))
    val port = ServerProcess.freePort()
    val command = Seq(program.toString, "--port", s"127.0.0.1:$port", "--keep-alive", "--quiet") ++
      Seq("posix", directory.resolve("data").toString)
    val secrets = Map("ROOT_ACCESS_KEY" -> "access", "ROOT_SECRET_KEY" -> "secret")
    (ServerProcess.start(command, port, secrets)(directory.resolve("log")), directory)
  }
}
