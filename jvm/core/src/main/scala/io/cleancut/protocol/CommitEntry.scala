package io.cleancut.protocol

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** Spark's entry of the commit log. */
private[cleancut] object CommitEntry {
  private val mapper = new ObjectMapper

  /**
   * The IDs of the versions that Spark counted, of all operators; None if the entry has none: in
   * checkpoint format 1, or if no task ran.
   */
  def countedIds(entry: String): Option[Set[String]] = {
    val ids = collection.mutable.Set.empty[String]
    def collect(at: JsonNode): Unit =
      if (at.isTextual) ids += at.asText else at.elements.forEachRemaining(collect(_))
    collect(metadata(entry).path("stateUniqueIds"))
    if (ids.isEmpty) None else Some(ids.toSet)
  }

  /** The watermark after the epoch in milliseconds; 0 if the entry has none. */
  def nextWatermarkMs(entry: String): Long =
    metadata(entry).path("nextBatchWatermarkMs").asLong(0L)

  private def metadata(entry: String): JsonNode =
    try mapper.readTree(entry.linesIterator.drop(1).mkString("\n"))
    catch { case NonFatal(_) => mapper.createObjectNode() }
}
