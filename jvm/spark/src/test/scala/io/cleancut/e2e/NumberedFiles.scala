package io.cleancut.e2e

import java.nio.file.{Files, Path}
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.{Path => HadoopPath}

import org.apache.spark.sql.{DataFrame, SparkSession}

import io.cleancut.base.Clock
import io.cleancut.cutstore.CutArchive
import io.cleancut.objectstore.hadoop.HadoopStore

/**
 * A count by key of numbers in files, one of which is an epoch: its input, checkpoint and results.
 */
final class NumberedFiles(session: SparkSession, root: Path) {
  import NumberedFiles._

  private val files = Files.createDirectory(root.resolve("files"))
  val checkpoint: Path = root.resolve("checkpoint")
  private val results = new ConcurrentHashMap[Long, Map[Long, Long]]

  def add(number: Int): Unit = {
    val lines = (0 until Rows).map(row => s"""{"number":${number * Rows + row}}""")
    val staged = Files.writeString(root.resolve(s"$number"), lines.mkString("\n"))
    Files.move(staged, files.resolve(f"$number%05d.json"))
    ()
  }

  def input(options: (String, String)*): DataFrame = session.readStream
    .schema("number long")
    .option("maxFilesPerTrigger", 1)
    .options(options.toMap)
    .json(files.toString)

  def totals(rows: DataFrame): DataFrame =
    rows.groupBy((rows("number") % Groups).as("key")).count()

  /** Stores the rows that the sink has received in an epoch. */
  def publish(epoch: Long, batch: DataFrame): Unit = {
    val rows = batch.collect().map(row => row.getLong(0) -> row.getLong(1))
    results.put(epoch, rows.toMap)
    ()
  }

  def archive: CutArchive = {
    val at = new HadoopPath(checkpoint.resolve("cleancut").toUri)
    val conf = session.sparkContext.hadoopConfiguration
    new CutArchive(HadoopStore.open(at, conf, Clock.System), Clock.System)
  }

  def cuts: Seq[Long] = archive.cuts.epochs().sorted

  /** The epochs in a log of Spark. */
  def entries(log: String): Seq[Long] =
    checkpoint.resolve(log).toFile.list().toSeq.flatMap(_.toLongOption).sorted

  /** The last row of each key. */
  def rows: Map[Long, Long] =
    results.asScala.toSeq.sortBy(_._1).map(_._2).foldLeft(Map.empty[Long, Long])(_ ++ _)

  def batch: Map[Long, Long] =
    totals(session.read.schema("number long").json(files.toString))
      .collect()
      .map(row => row.getLong(0) -> row.getLong(1))
      .toMap
}

private object NumberedFiles {
  private val Rows = 30
  private val Groups = 10L
}
