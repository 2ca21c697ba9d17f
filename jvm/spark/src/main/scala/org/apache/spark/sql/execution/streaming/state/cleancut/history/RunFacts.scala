package org.apache.spark.sql.execution.streaming.state.cleancut.history

import scala.jdk.CollectionConverters._
import scala.util.Try

import com.fasterxml.jackson.databind.ObjectMapper

/**
 * Facts that all epochs of a run share.
 *
 * @param begunMs
 *   time of the first commit, in milliseconds since 1970
 * @param conf
 *   keys of Cleancut that its session sets, without their prefix, and similar keys of Spark
 */
final private[cleancut] case class RunFacts(
    location: String,
    name: Option[String],
    queryId: String,
    runId: String,
    begunMs: Long,
    mode: String,
    trigger: String,
    conf: Map[String, String]
) {

  def toJson: String = {
    val node = RunFacts.mapper.createObjectNode().put("location", location)
    name.foreach(node.put("name", _))
    node.put("queryId", queryId).put("runId", runId).put("begunMs", begunMs)
    node.put("mode", mode).put("trigger", trigger)
    val keys = node.putObject("conf")
    conf.toSeq.sorted.foreach { case (key, value) => keys.put(key, value) }
    RunFacts.mapper.writeValueAsString(node)
  }
}

private[cleancut] object RunFacts {
  val Version = 1

  private val mapper = new ObjectMapper

  def read(text: String): Option[RunFacts] = Try(mapper.readTree(text)).toOption.map { node =>
    RunFacts(
      node.path("location").asText,
      Option(node.get("name")).map(_.asText),
      node.path("queryId").asText,
      node.path("runId").asText,
      node.path("begunMs").asLong,
      node.path("mode").asText,
      node.path("trigger").asText,
      node.path("conf").properties.asScala.map(entry => entry.getKey -> entry.getValue.asText).toMap
    )
  }
}
