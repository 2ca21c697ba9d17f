package org.apache.spark.sql.execution.streaming.state.cleancut.session

import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._
import org.apache.spark.sql.internal.SQLConf

import io.cleancut.base.ClassNames

/**
 * Replaces the operators of `transformWithState` by versions that accept Cleancut's provider, if
 * the query uses it. Operators of batch queries stay, because Spark keeps their state in a separate
 * store.
 */
object TransformWithStateRule extends Rule[SparkPlan] {

  /** The rule, applied after Spark has added state information and its version to the operators. */
  val injection: ColumnarRule = new ColumnarRule {
    override def postColumnarTransitions: Rule[SparkPlan] = TransformWithStateRule
  }

  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case exec: TransformWithStateExec
        if isPlain(exec, classOf[TransformWithStateExec], exec.isStreaming) =>
      OwnTransformWithState.of(exec)
    case exec: TransformWithStateInPySparkExec
        if isPlain(exec, classOf[TransformWithStateInPySparkExec], exec.isStreaming) =>
      OwnTransformWithState.of(exec)
  }

  /** Whether a session sets Cleancut's provider, by the name that Spark compares. */
  private[cleancut] def isRequested(conf: SQLConf): Boolean =
    conf.getConf(SQLConf.STATE_STORE_PROVIDER_CLASS) == ClassNames.StateStoreProvider

  private def isPlain(exec: SparkPlan, plain: Class[_], isStreaming: Boolean): Boolean =
    exec.getClass == plain && isStreaming && isRequested(exec.conf)
}
