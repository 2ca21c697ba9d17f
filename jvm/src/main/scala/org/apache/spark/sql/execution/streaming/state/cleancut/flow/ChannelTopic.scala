package org.apache.spark.sql.execution.streaming.state.cleancut.flow

import java.util.Locale

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{Row, SQLContext}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.DataSource
import org.apache.spark.sql.sources.{BaseRelation, TableScan}
import org.apache.spark.sql.types.{BinaryType, StructType}

import io.cleancut.error.Errors
import io.cleancut.flow.{SentEpoch, SentTopic}

/**
 * The records of some epochs, of which Spark's connector reads the ranges that their manifests
 * name. Between them there may be records of others, and of attempts that no manifest names; and
 * what a manifest names may be gone. So each task takes the records of these attempts alone, and
 * fails unless all of them are there.
 *
 * @param find
 *   looks for the epochs, when Spark plans the rows
 * @param kafka
 *   options of the connector, with `kafka.` before their names
 */
final class ChannelTopic(
    session: SparkSession,
    location: String,
    find: () => Seq[SentEpoch],
    kafka: Map[String, String]
) extends BaseRelation
    with TableScan {
  import ChannelTopic._

  override def sqlContext: SQLContext = session.sqlContext

  override val schema: StructType = Schema

  override def buildScan(): RDD[Row] = {
    val sent = for { of <- find(); topic <- of.topic; if topic.ranges.nonEmpty } yield topic -> of
    // A clone goes on in a topic of its own, after rows in that of the original.
    val byTopic = sent.groupBy { case (topic, _) => (topic.servers, topic.name) }
    val scans = byTopic.values.map(found => scan(found.head._1, wanted(found))).toSeq
    sqlContext.sparkContext.union(scans)
  }

  private def wanted(found: Seq[(SentTopic, SentEpoch)]): Map[Int, Seq[Wanted]] = {
    val all =
      for { (topic, of) <- found; range <- topic.ranges } yield range.partition ->
        Wanted(of.mark.attempt, of.epoch, of.sender, range.first, range.last, range.rows)
    all.groupMap(_._1)(_._2)
  }

  private def scan(topic: SentTopic, wanted: Map[Int, Seq[Wanted]]): RDD[Row] = {
    def unreadable(detail: String, cause: Throwable) =
      Errors.flowTopic(location, topic.name, topic.servers, detail, cause)
    val records =
      try
        DataSource(session, className = Connector, options = asked(topic, wanted))
          .resolveRelation() match {
          case scan: TableScan => scan.buildScan()
          case other           => throw unreadable(s"$other is not Spark's connector", null)
        }
      catch {
        case e @ (_: ClassNotFoundException | _: NoClassDefFoundError) =>
          throw Errors.flowConnectorMissing(location, topic.name, e)
        case e: org.apache.spark.sql.AnalysisException =>
          throw Errors.flowConnectorMissing(location, topic.name, e)
        case e: AssertionError => throw unreadable(e.getMessage, e)
        case NonFatal(e)       => throw unreadable(e.toString, e)
      }
    val ranges = records.getNumPartitions
    if (ranges != wanted.size)
      throw unreadable(s"$ranges of ${wanted.size} partitions are to be read", null)
    val (place, name) = (location, topic.name)
    records.mapPartitions(new WantedRecords(_, wanted, place, name))
  }

  /** One task reads one partition, from the first to the last of what is wanted there. */
  private def asked(topic: SentTopic, wanted: Map[Int, Seq[Wanted]]): Map[String, String] = {
    val own = Map(
      "assign" -> json { root =>
        val partitions = root.putArray(topic.name)
        wanted.keys.toSeq.sorted.foreach(partitions.add(_))
      },
      "startingOffsets" -> offsets(topic, wanted)(_.map(_.first).min),
      "endingOffsets" -> offsets(topic, wanted)(_.map(_.last).max + 1),
      "includeHeaders" -> "true",
      // What is gone is found by counting, whatever the connector takes for a loss.
      "failOnDataLoss" -> "false",
      "kafka.isolation.level" -> "read_committed"
    )
    val asked = kafka.filterNot { case (key, _) => own.keys.exists(_.equalsIgnoreCase(key)) }
    val isNamed = asked.keys.exists(_.toLowerCase(Locale.ROOT) == Servers)
    asked ++ own ++ Option.unless(isNamed)(Servers -> topic.servers)
  }

  private def offsets(topic: SentTopic, wanted: Map[Int, Seq[Wanted]])(
      of: Seq[Wanted] => Long
  ): String = json { root =>
    val partitions = root.putObject(topic.name)
    wanted.foreach { case (partition, found) => partitions.put(partition.toString, of(found)) }
  }
}

object ChannelTopic {
  val Value = "value"
  val Tag = "tag"

  /** By which rows were written; python/cleancut/_dataflow/json_rows.py has the same. */
  val JsonOptions: Map[String, String] = Map(
    "mode" -> "FAILFAST",
    "timeZone" -> "UTC",
    "timestampFormat" -> "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat" -> "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
  )

  private val Connector = "kafka"
  private val Servers = "kafka.bootstrap.servers"
  private val mapper = new ObjectMapper

  private val Schema =
    new StructType()
      .add(Value, BinaryType, nullable = false)
      .add(Tag, ChannelRows.TagType, nullable = false)

  /**
   * The rows of one epoch in one partition.
   *
   * @param first
   *   offset of the first of them
   * @param last
   *   offset of the last one
   */
  final private[flow] case class Wanted(
      attempt: String,
      epoch: Long,
      sender: String,
      first: Long,
      last: Long,
      rows: Long
  )

  private def json(fill: com.fasterxml.jackson.databind.node.ObjectNode => Any): String = {
    val root = mapper.createObjectNode()
    fill(root)
    mapper.writeValueAsString(root)
  }
}
