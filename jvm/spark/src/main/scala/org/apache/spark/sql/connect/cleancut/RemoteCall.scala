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
 * One call of a method of the objects that are there for callers outside of the JVM, as py4j makes
 * it where there is a JVM.
 *
 * A JSON object: `of` ("coordinator", "offline", "seal", "sequence" or "sinks"), `method`,
 * `arguments`, and, for the session of a query in the place of the client's, `query` (Spark's id of
 * its run). Arguments are as the method takes them, without sessions; a DataFrame is an object with
 * `relation`, Spark's message of it in Base64, and rows for an operator one with `operator`,
 * `store`, `family` and `rows`. The answer is an object with `value`; a DataFrame is one with
 * `relation`, by which the server knows it from then on.
 */
final class RemoteCall(planner: SparkConnectPlanner, facades: RemoteCall.Facades) {
  import RemoteCall._

  def answer(call: Array[Byte]): String = {
    val asked = mapper.readTree(call)
    val facade = facades.byName.getOrElse(
      asked.path("of").asText,
      throw new IllegalArgumentException(
        s"no '${asked.path("of").asText}' among ${facades.byName.keys}"
      )
    )
    val arguments = asked.path("arguments").elements.asScala.toSeq
    val method = methodOf(facade, asked.path("method").asText, arguments.size)
    val session = sessionOf(asked)
    val left = arguments.iterator
    val values = method.getParameterTypes.map {
      case SessionClass => session
      case wanted       => value(left.next(), wanted)
    }
    val answer = mapper.createObjectNode()
    tell(invoke(facade, method, values), answer)
    mapper.writeValueAsString(answer)
  }

  private def sessionOf(asked: JsonNode): SparkSession =
    Option(asked.path("query").textValue)
      .flatMap(RunningQueries.sessionOfRun(planner.session, _))
      .getOrElse(planner.session)

  private def value(sent: JsonNode, wanted: Class[_]): AnyRef = wanted match {
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

  /** The very object, where the server holds it: that of a batch tells which query it is of. */
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

  private def tell(value: scala.Any, answer: ObjectNode): Unit = value match {
    case rows: AnyDataset[_] =>
      val id = StateVersion.newId(Clock.System)
      planner.sessionHolder.cacheDataFrameById(id, rows.toDF())
      answer.putObject("value").put("relation", id)
      ()
    case Some(found)  => tell(found, answer)
    case text: String => discard(answer.put("value", text))
    case is: Boolean  => discard(answer.put("value", is))
    case _            => discard(answer.putNull("value"))
  }

  private def discard(node: ObjectNode): Unit = ()
}

object RemoteCall {
  private val mapper = new ObjectMapper

  /**
   * The objects that a call may name.
   *
   * @param rows
   *   makes an argument of an operator, a store, a family and its rows
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
      .find { of =>
        Modifier.isPublic(of.getModifiers) && of.getName == name &&
        of.getParameterTypes.count(_ != SessionClass) == arguments
      }
      .getOrElse(
        throw new IllegalArgumentException(s"no method '$name' of $arguments arguments here")
      )

  private def invoke(facade: AnyRef, method: Method, values: Array[AnyRef]): AnyRef =
    try method.invoke(facade, values: _*)
    catch { case e: InvocationTargetException => throw e.getCause }
}
