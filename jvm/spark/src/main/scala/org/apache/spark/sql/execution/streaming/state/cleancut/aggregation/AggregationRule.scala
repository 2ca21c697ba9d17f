package org.apache.spark.sql.execution.streaming.state.cleancut.aggregation

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.aggregate.HashAggregateExec
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.state.StateStoreConf
import org.apache.spark.sql.execution.streaming.state.cleancut.session.TransformWithStateRule
import org.apache.spark.sql.execution.{ColumnarRule, ProjectExec, SparkPlan}

import io.cleancut.conf.Settings

/**
 * Removes two of the three hash maps of a streaming aggregation. Spark plans
 * {{{
 *   final aggregation <- save <- merging aggregation <- restore <- merging aggregation <- exchange
 * }}}
 * The last of these already returns one row for each group. So stored rows are merged row by row
 * ([[MergedRestoreExec]]), and projections compute the results. Rows and state are the same. The
 * rule applies if all functions are expressions, such as those of numbers.
 */
object AggregationRule extends Rule[SparkPlan] {

  /** Applies the rule when operators have their state, and stages do not exist yet. */
  val injection: ColumnarRule = new ColumnarRule {
    override def postColumnarTransitions: Rule[SparkPlan] = AggregationRule
  }

  override def apply(plan: SparkPlan): SparkPlan =
    if (TransformWithStateRule.isRequested(plan.conf) && plan.exists(isSave) && isOn(plan)) {
      plan.transformUp {
        case save @ StateStoreSaveExec(_, _, _, _, _, _, merging: HashAggregateExec) =>
          merged(save, merging).fold[SparkPlan](save)(restore => save.copy(child = restore))
        case results: HashAggregateExec if results.child.isInstanceOf[StateStoreSaveExec] =>
          projected(results).getOrElse(results)
      }
    } else plan

  private def isOn(plan: SparkPlan): Boolean =
    Settings.from(new StateStoreConf(plan.conf).sqlConfs).mergedAggregation

  private def isSave(node: SparkPlan): Boolean = node.isInstanceOf[StateStoreSaveExec]

  private def merged(
      save: StateStoreSaveExec,
      merging: HashAggregateExec
  ): Option[MergedRestoreExec] =
    merging.child match {
      case restore @ StateStoreRestoreExec(keys, Some(info), format, input: HashAggregateExec)
          if info.checkpointLocation.nonEmpty && MergedRestoreExec.StateFormats(format) &&
            keys.nonEmpty && keys == save.keyExpressions && isBy(keys, merging) &&
            // One row for each group.
            isBy(keys, input) && isMerge(merging.output, input.output) =>
        expressions(merging, PartialMerge)
          .map(MergedRestoreExec(keys, _, restore.stateInfo, format, input))
      case _ => None
    }

  private def isBy(keys: Seq[Attribute], aggregate: HashAggregateExec): Boolean =
    aggregate.groupingExpressions.map(_.toAttribute) == keys

  private def isMerge(after: Seq[Attribute], before: Seq[Attribute]): Boolean =
    after.map(_.exprId) == before.map(_.exprId)

  /** The functions of an aggregation if all of them are expressions in one mode. */
  private def expressions(
      aggregate: HashAggregateExec,
      mode: AggregateMode
  ): Option[Seq[DeclarativeAggregate]] = {
    val functions = aggregate.aggregateExpressions.collect {
      case AggregateExpression(function: DeclarativeAggregate, `mode`, false, None, _) => function
    }
    val inputs = AttributeSet(functions.flatMap(_.inputAggBufferAttributes))
    Option.when(
      functions.nonEmpty && functions.size == aggregate.aggregateExpressions.size &&
        inputs.subsetOf(aggregate.child.outputSet)
    )(functions)
  }

  /**
   * The results of groups with one row each: as in a hash map, an empty buffer is merged with the
   * row's buffer, and evaluated.
   */
  private def projected(results: HashAggregateExec): Option[SparkPlan] =
    expressions(results, Final).filter(_ => results.groupingExpressions.nonEmpty).map { functions =>
      val keys = results.groupingExpressions.map(_.toAttribute)
      val buffers = functions.flatMap(_.aggBufferAttributes)
      val empty = AttributeMap(buffers.zip(functions.flatMap(_.initialValues)))
      val taken = functions
        .flatMap(_.mergeExpressions)
        .map(_.transform {
          case buffer: Attribute if empty.contains(buffer) => empty(buffer)
        })
      val values = functions.map(_.evaluateExpression)
      val merged = ProjectExec(keys ++ named(taken, buffers), results.child)
      val evaluated = ProjectExec(keys ++ named(values, results.aggregateAttributes), merged)
      ProjectExec(results.resultExpressions, evaluated)
    }

  private def named(values: Seq[Expression], as: Seq[Attribute]): Seq[NamedExpression] =
    values.zip(as).map { case (value, attribute) =>
      Alias(value, attribute.name)(attribute.exprId, explicitMetadata = Some(attribute.metadata))
    }
}
