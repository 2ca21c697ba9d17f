package io.cleancut.protocol

import scala.util.Try

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.ObjectNode

/**
 * Spark's entry of the offset log: a line with its version, a line with metadata as JSON, and a
 * line for each source (Spark's `OffsetSeqLog`, in both of its versions).
 */
object OffsetEntry {
  private val mapper = new ObjectMapper
  private val Watermark = "batchWatermarkMs"
  private val Timestamp = "batchTimestampMs"
  private val Provider = "spark.sql.streaming.stateStore.providerClass"
  private val Prefix = "spark.sql.streaming.stateStore.cleancut"

  /**
   * Key of the operation's name, next to the settings of an offline epoch's entry. Spark ignores
   * and drops keys that it does not know.
   */
  val Act: String = s"$Prefix.offlineAct"

  /** Key of the last epoch before a rollback. */
  val LastBeforeAct: String = s"$Prefix.offlineLast"

  /** Key of the epoch whose state the offline epoch has. */
  val SourceOfAct: String = s"$Prefix.offlineSource"

  /** Key of the epoch before the offline epoch, if the operation skips it. */
  val UnusedBeforeAct: String = s"$Prefix.offlineUnused"

  /** Keys that entries of the query itself do not have. */
  val ActMarks: Seq[String] = Seq(Act, LastBeforeAct, SourceOfAct, UnusedBeforeAct)

  /** Whether it is the entry of an offline operation. */
  def isOfOperation(entry: String): Boolean = operation(entry).isDefined

  /** The name of the operation. */
  def operation(entry: String): Option[String] = setting(entry, Act)

  /** The epoch that the operation of an entry skips. */
  def unusedBefore(entry: String): Option[Long] = setting(entry, UnusedBeforeAct).map(_.toLong)

  /** The epoch whose state the operation of an entry has. */
  def source(entry: String): Option[Long] = setting(entry, SourceOfAct).map(_.toLong)

  /** The last epoch before the rollback of an entry. */
  def lastBefore(entry: String): Option[Long] = setting(entry, LastBeforeAct).map(_.toLong)

  /** The provider that Spark has recorded for the query's state, if any. */
  def provider(entry: String): Option[String] = setting(entry, Provider)

  /** Batch timestamp of the epoch. */
  def timestampMs(entry: String): Option[Long] = for {
    metadata <- metadataOf(entry)
    value <- Option(metadata.get(Timestamp))
  } yield value.asLong

  private def setting(entry: String, name: String): Option[String] = for {
    metadata <- metadataOf(entry)
    value <- Option(metadata.path("conf").get(name))
  } yield value.asText

  private def metadataOf(entry: String): Option[JsonNode] = for {
    line <- entry.linesIterator.drop(1).nextOption()
    metadata <- Try(mapper.readTree(line)).toOption
  } yield metadata

  /**
   * The entry of an epoch without new input after a committed epoch: the same as Spark's entry if
   * an operator requests such an epoch.
   *
   * @param before
   *   entry of the committed epoch
   * @param commit
   *   its entry of the commit log, which has the next watermark
   */
  def withoutInput(before: String, commit: String, nowMs: Long): String = {
    val version +: metadata +: sources = before.linesIterator.toVector: @unchecked
    val next = mapper.readTree(metadata).asInstanceOf[ObjectNode]
    def later(key: String, value: Long): Unit = {
      next.put(key, Math.max(next.path(key).asLong(0L), value))
      ()
    }
    later(Watermark, CommitEntry.nextWatermarkMs(commit))
    later(Timestamp, nowMs)
    // The previous epoch may be an offline epoch, and this one must not be marked as one.
    next.path("conf") match {
      case conf: ObjectNode => ActMarks.foreach(conf.remove)
      case _                => ()
    }
    (version +: mapper.writeValueAsString(next) +: sources).mkString("\n")
  }
}
