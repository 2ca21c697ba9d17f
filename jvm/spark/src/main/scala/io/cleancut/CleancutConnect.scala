package io.cleancut

import java.util.Optional

import org.sparkproject.connect.protobuf.Any

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.connect.cleancut.RemoteCall
import org.apache.spark.sql.connect.planner.SparkConnectPlanner
import org.apache.spark.sql.connect.plugin.RelationPlugin
import org.apache.spark.sql.types.StringType
import org.apache.spark.unsafe.types.UTF8String

/**
 * Answers what clients of Spark Connect ask of the driver, for
 * `spark.connect.extensions.relation.classes` of the server: a client has no JVM, so a question
 * comes as a relation, whose one row is the answer.
 *
 * The relation is an extension of Spark's protocol, a `google.protobuf.Any` of the type
 * [[CleancutConnect.Type]], whose value is what [[RemoteCall]] takes. The server transforms a
 * relation once for each time that it is executed.
 */
final class CleancutConnect extends RelationPlugin {
  override def transform(
      relation: Array[Byte],
      planner: SparkConnectPlanner
  ): Optional[LogicalPlan] = {
    val any = Any.parseFrom(relation)
    if (any.getTypeUrl != CleancutConnect.Type) Optional.empty()
    else {
      val answer = new RemoteCall(planner, CleancutConnect.Facades).answer(any.getValue.toByteArray)
      Optional.of(CleancutConnect.row(answer))
    }
  }
}

object CleancutConnect {

  /** A call of another form has another name. */
  val Type: String = "cleancut.io/call/1"

  private val Facades = RemoteCall.Facades(
    Map(
      "coordinator" -> CleancutCoordinator,
      "offline" -> CleancutOffline,
      "seal" -> CleancutSeal,
      "sequence" -> CleancutSequence,
      "sinks" -> CleancutSinks
    ),
    CleancutOffline.rows
  )

  private def row(text: String): LogicalPlan = LocalRelation(
    Seq(AttributeReference("answer", StringType, nullable = false)()),
    Seq(InternalRow(UTF8String.fromString(text)))
  )
}
