package io.cleancut.cuts

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.ObjectMapper

/** Spark's entry of the commit log. */
private object CommitEntry {
  private val mapper = new ObjectMapper

  /**
   * The ids of the versions that Spark counted, of all operators; None where the entry names none:
   * in checkpoint format 1, or if no task ran.
   */
  def countedIds(entry: String): Option[Set[String]] = {
    val json = entry.linesIterator.drop(1).mkString("\n")
    val node =
      try mapper.readTree(json)
      catch { case NonFatal(_) => mapper.createObjectNode() }
    val ids = collection.mutable.Set.empty[String]
    def collect(at: com.fasterxml.jackson.databind.JsonNode): Unit =
      if (at.isTextual) ids += at.asText else at.elements.forEachRemaining(collect(_))
    collect(node.path("stateUniqueIds"))
    if (ids.isEmpty) None else Some(ids.toSet)
  }
}
