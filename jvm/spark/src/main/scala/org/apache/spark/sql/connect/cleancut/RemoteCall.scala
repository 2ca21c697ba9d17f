package org.apache.spark.sql.connect.cleancut

import java.lang.reflect.{InvocationTargetException, Method, Modifier}
import java.util.Base64

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import org.apache.spark.connect.proto.Relation
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.connect.planner.SparkConnectPlanner
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.{
  ClassicRows,
  RunningQueries
}
import org.apache.spark.sql.{Dataset => AnyDataset, Row}

import io.cleancut.base.{Clock, StateVersion}

/**
 * One call of a method of the objects for callers outside of the JVM, like the calls of py4j.
 *
 * A request is a JSON object: `of` ("coordinator", "offline", "seal", "sequence" or "sinks"),
 * `method`, `arguments`, and optionally `query` (Spark's ID of a run), for the session of that
 * query instead of the client's. Arguments are those of the method without sessions. A DataFrame is
 * an object with `relation`, Spark's message of it in Base64. Rows for an operator are an object
 * with `operator`, `store`, `family` and `rows`.
 *
 * The response is an object with `value`; a DataFrame is an object with `relation`, the ID of a
 * relation that the server caches.
 */
final class RemoteCall(planner: SparkConnectPlanner, facades: RemoteCall.Facades) {
  import RemoteCall._

  def answer(call: Array[Byte]): String = {
    val request = mapper.readTree(call)
    val facade = facades.byName.getOrElse(
      request.path("of").asText,
      throw new IllegalArgumentException(
        s"no '${request.path("of").asText}' among ${facades.byName.keys}"
      )
    )
    val arguments = request.path("arguments").elements.asScala.toSeq
    val method = methodOf(facade, request.path("method").asText, arguments.size)
    val session = sessionOf(request)
    val remaining = arguments.iterator
    val values = method.getParameterTypes.map {
      case SessionClass => session
      case parameter    => value(remaining.next(), parameter)
    }
    val answer = mapper.createObjectNode()
    writeValue(invoke(facade, method, values), answer)
    mapper.writeValueAsString(answer)
  }

  private def sessionOf(request: JsonNode): SparkSession =
    Option(request.path("query").textValue)
      .flatMap(RunningQueries.sessionOfRun(planner.session, _))
      .getOrElse(planner.session)

  private def value(sent: JsonNode, parameter: Class[_]): AnyRef = parameter match {
    case TextClass    => sent.textValue
    case IntClass     => Int.box(sent.intValue)
    case LongClass    => Long.box(sent.longValue)
    case BooleanClass => Boolean.box(sent.booleanValue)
    case ListClass    => sent.elements.asScala.map(rows).toSeq.asJava
    case _            => dataset(sent)
  }

  private def rows(sent: JsonNode): AnyRef = facades.rows(
    sent.path("operator").longValue,
    sent.path("store").textValue,
    sent.path("family").textValue,
    dataset(sent.path("rows"))
  )

  /** The same object if the server caches it: the query of a batch is known by its object. */
  private def dataset(sent: JsonNode): Dataset[Row] = {
    val relation =
      Relation.parseFrom(Base64.getDecoder.decode(sent.path("relation").textValue))
    if (relation.hasCachedRemoteRelation)
      ClassicRows
        .of(
          planner.sessionHolder.getDataFrameOrThrow(relation.getCachedRemoteRelation.getRelationId)
        )
        .toDF()
    else Dataset.ofRows(planner.session, planner.transformRelation(relation))
  }

  private def writeValue(value: scala.Any, answer: ObjectNode): Unit = value match {
    case rows: AnyDataset[_] =>
      val id = StateVersion.newId(Clock.System)
      planner.sessionHolder.cacheDataFrameById(id, rows.toDF())
      answer.putObject("value").put("relation", id)
      ()
    case Some(content) => writeValue(content, answer)
    case text: String  => discard(answer.put("value", text))
    case flag: Boolean => discard(answer.put("value", flag))
    case _             => discard(answer.putNull("value"))
  }

  private def discard(node: ObjectNode): Unit = ()
}

object RemoteCall {
  private val mapper = new ObjectMapper

  /**
   * The objects that a call may use.
   *
   * @param rows
   *   creates an argument of an operator, a store, a family and its rows
   */
  final case class Facades(
      byName: Map[String, AnyRef],
      rows: (Long, String, String, Dataset[Row]) => AnyRef
  )

  private val SessionClass = classOf[SparkSession]
  private val TextClass = classOf[String]
  private val IntClass = classOf[Int]
  private val LongClass = classOf[Long]
  private val BooleanClass = classOf[Boolean]
  private val ListClass = classOf[java.util.List[_]]

  private def methodOf(facade: AnyRef, name: String, arguments: Int): Method =
    facade.getClass.getDeclaredMethods
      .find { method =>
        Modifier.isPublic(method.getModifiers) && method.getName == name &&
        method.getParameterTypes.count(_ != SessionClass) == arguments
      }
      .getOrElse(
        throw new IllegalArgumentException(s"no method '$name' with $arguments arguments")
      )

  private def invoke(facade: AnyRef, method: Method, values: Array[AnyRef]): AnyRef =
    try method.invoke(facade, values: _*)
    catch { case e: InvocationTargetException => throw e.getCause }
}
