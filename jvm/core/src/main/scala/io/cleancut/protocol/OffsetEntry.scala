package io.cleancut.protocol

import scala.util.Try

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.ObjectNode

/**
 * Spark's entry of the offset log: a line with its version, one with metadata as JSON, and one for
 * each source (Spark's `OffsetSeqLog`, in both of its versions).
 */
object OffsetEntry {
  private val mapper = new ObjectMapper
  private val Watermark = "batchWatermarkMs"
  private val Timestamp = "batchTimestampMs"
  private val Provider = "spark.sql.streaming.stateStore.providerClass"
  private val Prefix = "spark.sql.streaming.stateStore.cleancut"

  /**
   * Beside the settings of an entry that is an act's; Spark passes over what it does not know, and
   * drops it.
   */
  val Act: String = s"$Prefix.offlineAct"

  /** Likewise, of a rollback: the last epoch before it. */
  val LastBeforeAct: String = s"$Prefix.offlineLast"

  /** Likewise: the epoch whose result it has. */
  val SourceOfAct: String = s"$Prefix.offlineSource"

  /** Likewise: the number before its own that no epoch has, where it leaves one out. */
  val UnusedBeforeAct: String = s"$Prefix.offlineUnused"

  /** What an entry of the query's own does not have. */
  val ActMarks: Seq[String] = Seq(Act, LastBeforeAct, SourceOfAct, UnusedBeforeAct)

  /** Whether it is that of an act. */
  def isOfAct(entry: String): Boolean = act(entry).isDefined

  /** The name of that act. */
  def act(entry: String): Option[String] = setting(entry, Act)

  /** The number that an act leaves out, in its entry. */
  def unusedBefore(entry: String): Option[Long] = setting(entry, UnusedBeforeAct).map(_.toLong)

  /** The epoch whose result an act has, in its entry. */
  def source(entry: String): Option[Long] = setting(entry, SourceOfAct).map(_.toLong)

  /** The last epoch before an act that goes back, in its entry. */
  def lastBefore(entry: String): Option[Long] = setting(entry, LastBeforeAct).map(_.toLong)

  /** The provider that Spark has noted for the query's state, if it has noted any. */
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
   * The entry of an epoch that takes no new input, behind an epoch that was committed: what Spark
   * writes where an operator asks for such an epoch.
   *
   * @param before
   *   the entry of the committed epoch
   * @param commit
   *   its entry of the commit log, which knows the watermark of what follows
   */
  def withoutInput(before: String, commit: String, nowMs: Long): String = {
    val version +: metadata +: sources = before.linesIterator.toVector: @unchecked
    val next = mapper.readTree(metadata).asInstanceOf[ObjectNode]
    def later(key: String, of: Long): Unit = {
      next.put(key, Math.max(next.path(key).asLong(0L), of))
      ()
    }
    later(Watermark, CommitEntry.nextWatermarkMs(commit))
    later(Timestamp, nowMs)
    // What it comes behind may be the epoch of an act, and this one is not to be taken for such.
    next.path("conf") match {
      case conf: ObjectNode => ActMarks.foreach(conf.remove)
      case _                => ()
    }
    (version +: mapper.writeValueAsString(next) +: sources).mkString("\n")
  }
}
