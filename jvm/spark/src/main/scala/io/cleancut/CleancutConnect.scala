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
 * Handles requests of Spark Connect clients, for `spark.connect.extensions.relation.classes` of the
 * server. A client has no JVM, so a request is sent as a relation, whose only row is the response.
 *
 * The relation is an extension of Spark's protocol: a `google.protobuf.Any` of the type
 * [[CleancutConnect.Type]] whose value is the request of [[RemoteCall]]. The server transforms a
 * relation once per execution.
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

  /** Requests of another format get another name. */
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
