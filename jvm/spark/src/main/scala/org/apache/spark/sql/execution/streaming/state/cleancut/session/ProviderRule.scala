package org.apache.spark.sql.execution.streaming.state.cleancut.session

import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator
import org.apache.spark.sql.execution.streaming.state.cleancut.framefiles.StoreFiles
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.internal.SQLConf

import io.cleancut.conf.Settings
import io.cleancut.error.Errors

/**
 * Refuses an epoch whose state another provider would keep, where the session requires Cleancut's.
 * A query that begins so has nothing in its checkpoint that its start could have been refused for.
 */
object ProviderRule extends Rule[SparkPlan] {

  /** The rule at the place where Spark has given the operators their state. */
  val injection: ColumnarRule = new ColumnarRule {
    override def postColumnarTransitions: Rule[SparkPlan] = ProviderRule
  }

  /** @throws io.cleancut.error.CleancutException CLEANCUT_PROVIDER_MISMATCH */
  override def apply(plan: SparkPlan): SparkPlan = {
    for {
      operator <- plan.collectFirst { case stateful: StatefulOperator => stateful }
      info <- operator.stateInfo
      // In a batch it has no checkpoint.
      if info.checkpointLocation.nonEmpty && !TransformWithStateRule.isAsked(plan.conf)
      if Settings.from(plan.conf.getAllConfs).requiresProvider
    } throw Errors.providerMismatch(
      StoreFiles.checkpointOf(info.checkpointLocation).toString,
      plan.conf.getConf(SQLConf.STATE_STORE_PROVIDER_CLASS),
      "that is the provider which the session or the checkpoint names"
    )
    plan
  }
}
