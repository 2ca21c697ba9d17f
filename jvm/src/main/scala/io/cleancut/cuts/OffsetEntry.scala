package io.cleancut.cuts

import scala.util.Try

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode

/**
 * Spark's entry of the offset log: a line with its version, one with metadata as JSON, and one for
 * each source (Spark's `OffsetSeqLog`, in both of its versions).
 */
private[cleancut] object OffsetEntry {
  private val mapper = new ObjectMapper
  private val Watermark = "batchWatermarkMs"
  private val Timestamp = "batchTimestampMs"
  private val Provider = "spark.sql.streaming.stateStore.providerClass"

  /** The provider that Spark has noted for the query's state, if it has noted any. */
  def provider(entry: String): Option[String] = for {
    line <- entry.linesIterator.drop(1).nextOption()
    metadata <- Try(mapper.readTree(line)).toOption
    name <- Option(metadata.path("conf").get(Provider))
  } yield name.asText

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
    (version +: mapper.writeValueAsString(next) +: sources).mkString("\n")
  }
}
