package org.apache.spark.sql.execution.streaming.state.cleancut.session

import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator
import org.apache.spark.sql.execution.streaming.state.cleancut.framefiles.StoreFiles
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.internal.SQLConf

import io.cleancut.conf.Settings
import io.cleancut.error.Errors

/**
 * Refuses an epoch whose state would use another provider if the session requires Cleancut's. A new
 * query has no checkpoint, so this cannot be checked at its start.
 */
object ProviderRule extends Rule[SparkPlan] {

  /** The rule, applied after Spark has added state information to the operators. */
  val injection: ColumnarRule = new ColumnarRule {
    override def postColumnarTransitions: Rule[SparkPlan] = ProviderRule
  }

  /** @throws io.cleancut.error.CleancutException CLEANCUT_PROVIDER_MISMATCH */
  override def apply(plan: SparkPlan): SparkPlan = {
    for {
      operator <- plan.collectFirst { case stateful: StatefulOperator => stateful }
      info <- operator.stateInfo
      // Batch queries have no checkpoint.
      if info.checkpointLocation.nonEmpty && !TransformWithStateRule.isRequested(plan.conf)
      if Settings.from(plan.conf.getAllConfs).requiresProvider
    } throw Errors.providerMismatch(
      StoreFiles.checkpointOf(info.checkpointLocation).toString,
      plan.conf.getConf(SQLConf.STATE_STORE_PROVIDER_CLASS),
      "it is set in the session or the checkpoint"
    )
    plan
  }
}
