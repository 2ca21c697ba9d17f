package org.apache.spark.sql.execution.streaming.state.cleancut.operations

import java.io.{FileNotFoundException, InputStream}
import java.nio.charset.StandardCharsets.UTF_8

import scala.io.Source
import scala.jdk.CollectionConverters._
import scala.util.{Try, Using}

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.hadoop.fs.{FileSystem, Path}

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.connector.read.streaming.Offset
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.{
  EpochLogs,
  NewCheckpoint,
  OfflinePlace,
  SourceLogs,
  StoredQuery
}
import org.apache.spark.util.ThreadUtils

/**
 * Input files that a query has read after an epoch, by the logs of its file sources, and that it
 * reads again if it resumes from that epoch.
 */
final private[operations] class ReplayedInput(place: OfflinePlace, query: StoredQuery) {
  import ReplayedInput._

  def check: InputCheck = InputCheck(missing, offsets.values.flatten.flatMap(kafkaNote).toSeq)

  /** The files that do not exist any more; None if all of them do. */
  private def missing: Option[MissingInput] = {
    val files = (for {
      log <- logs.names
      last <- logs.last(log).toSeq
      file <- filesAfter(log, last)
    } yield file).distinct
    val byDirectory = files.map(file => SparkPath.fromUrlString(file).toPath).groupBy(_.getParent)
    val missing = ThreadUtils
      .parmap(byDirectory.toSeq, "cleancut-input", Threads) { case (directory, paths) =>
        missingIn(directory, paths)
      }
      .flatten
    Option.when(missing.nonEmpty)(
      MissingInput(files.size, missing.map(_.toString).sorted, query.epoch)
    )
  }

  private val offsets: Map[String, Option[Offset]] = EpochLogs.bySource(query.offsets).toMap

  private val logs = new SourceLogs(place, query.offsets)

  private def filesAfter(name: String, last: Long): Seq[String] = {
    val log = s"${NewCheckpoint.Sources}/$name"
    val entries = logs.entriesOf(name).flatMap { name =>
      NewCheckpoint.entryNumber(name).filter(_ > last).map(_ -> name)
    }
    // A compacted entry has the files of all entries before it.
    val compacted = entries.filter(_._2.endsWith(NewCheckpoint.Compacted)).maxOption
    val first = compacted.fold(last)(_._1)
    val read = compacted.toSeq ++ entries.filter(_._1 > first)
    read.flatMap { case (number, name) =>
      Using.resource(place.files.open(new Path(place.location, s"$log/$name"))) { in =>
        filesIn(in, number, last)
      }
    }
  }

  /** Lists directories with many of the files, and looks up single files elsewhere. */
  private def missingIn(directory: Path, paths: Seq[Path]): Seq[Path] = {
    val files = directory.getFileSystem(place.hadoopConf)
    if (paths.size < ListedFrom) paths.filterNot(files.exists(_))
    else {
      val there = namesIn(files, directory)
      paths.filterNot(path => there(path.getName))
    }
  }
}

private[operations] object ReplayedInput {
  private val Threads = 16

  // A listing returns 1,000 names or more in the time of one lookup.
  private val ListedFrom = 32
  private val mapper = new ObjectMapper

  /** @param last the entry whose files, and those of earlier ones, are left out */
  private def filesIn(in: InputStream, number: Long, last: Long): Seq[String] =
    Source
      .fromInputStream(in, UTF_8.name)
      .getLines()
      .filter(_.startsWith("{"))
      .map(mapper.readTree)
      // Other sources store something else there.
      .filter(_.path("path").isTextual)
      .filter(entryOf(_, number) > last)
      .map(_.get("path").asText)
      .toSeq

  private def entryOf(file: JsonNode, number: Long): Long = file.path("batchId").asLong(number)

  private def kafkaNote(offset: Offset): Option[String] = kafkaOffsets(offset.json).map { ranges =>
    val topics = ranges.map(_._1).distinct.mkString("|")
    val from = ranges.map { case (topic, partition, number) => s"$topic:$partition:$number" }
    "Kafka offsets were not checked: the checkpoint has no connection settings. The query reads " +
      s"again from these offsets (topic:partition:offset): ${from.mkString(" ")}. The earliest " +
      "offset of a partition must not be greater. Run `kafka-get-offsets.sh --bootstrap-server " +
      s"<host:port> --topic '$topics' --time earliest` to compare."
  }

  /** Topics, partitions and offsets, if an offset has the form that Spark's Kafka source writes. */
  private[operations] def kafkaOffsets(json: String): Option[Seq[(String, Int, Long)]] = {
    val topics = Try(mapper.readTree(json)).toOption
      .filter(_.isObject)
      .toSeq
      .flatMap(_.properties.asScala)
    val ranges = topics.map { topic =>
      topic.getValue.properties.asScala.toSeq.map { range =>
        val number = Option.when(range.getValue.isIntegralNumber)(range.getValue.asLong)
        for (partition <- range.getKey.toIntOption; offset <- number)
          yield (topic.getKey, partition, offset)
      }
    }
    val isKafkas =
      ranges.nonEmpty && ranges.forall(topic => topic.nonEmpty && topic.forall(_.isDefined))
    Option.when(isKafkas)(ranges.flatten.flatten.sorted)
  }

  private def namesIn(files: FileSystem, directory: Path): Set[String] = {
    val names = Set.newBuilder[String]
    try {
      val listed = files.listStatusIterator(directory)
      while (listed.hasNext) names += listed.next().getPath.getName
    } catch { case _: FileNotFoundException => () }
    names.result()
  }
}

/**
 * Whether the input still exists that a query reads again.
 *
 * @param unchecked
 *   notes about sources that cannot be checked
 */
final private[operations] case class InputCheck(
    missing: Option[MissingInput],
    unchecked: Seq[String]
) {
  def notes: Seq[String] = unchecked ++ missing.map(_.note)
}

private[operations] object InputCheck {

  /** The check of a query that reads no input again. */
  val NothingReplayed: InputCheck = InputCheck(None, Nil)
}

/**
 * Input files that a query cannot read again.
 *
 * @param files
 *   the number of files that it has to read again
 * @param paths
 *   the missing ones
 * @param epoch
 *   the epoch after which it reads them
 */
final private[operations] case class MissingInput(files: Int, paths: Seq[String], epoch: Long) {
  import MissingInput._

  def note: String = {
    val more = if (paths.size > Shown) s" and ${paths.size - Shown} more" else ""
    s"${paths.size} of the $files input files that were read after epoch $epoch are missing: " +
      s"${paths.take(Shown).mkString(", ")}$more. A query that resumes from epoch $epoch loses " +
      "their rows."
  }

  def refusal: String =
    s"$note Restore the files, or pass allow_missing_input=True (--allow-missing-input) to " +
      "continue without these rows"
}

private object MissingInput {
  private val Shown = 5
}
