package org.apache.spark.sql.execution.streaming.state.cleancut.session

import java.lang.reflect.InvocationTargetException

import org.scalatest.{Assertion, BeforeAndAfterAll}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.{SparkThrowable, SparkUnsupportedOperationException}
import org.apache.spark.api.python.{PythonEvalType, SimplePythonFunction}
import org.apache.spark.sql.Encoders
import org.apache.spark.sql.catalyst.expressions.PythonUDF
import org.apache.spark.sql.catalyst.plans.logical.TransformWithStateInPySpark.UserFacingDataType
import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.execution.{SparkPlan, UnionExec}
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming._

import io.cleancut.{CleancutExtensions, CleancutStateStoreProvider}

/** A processor for plans that are not run. */
class Unused extends StatefulProcessorWithInitialState[Long, Long, Long, Long] {
  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = ()
  override def handleInputRows(
      key: Long,
      rows: Iterator[Long],
      timers: TimerValues
  ): Iterator[Long] = rows
  override def handleInitialState(key: Long, state: Long, timers: TimerValues): Unit = ()
}

/** Applies the rule to plans. `TransformWithStateSuite` runs queries. */
class TransformWithStateRuleSuite extends AnyFunSuite with BeforeAndAfterAll {
  import TransformWithStateRuleSuite._

  private lazy val spark: SparkSession = SparkSession
    .builder()
    .master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.extensions", classOf[CleancutExtensions].getName)
    .getOrCreate()

  override protected def afterAll(): Unit = spark.stop()

  private def numbers: DataFrame = spark.range(3).toDF()

  // Spark plans `transformWithState` for a batch here. A stream's plan differs only by this flag.
  private def scalaExec(
      withInitialState: Boolean,
      isStreaming: Boolean
  ): TransformWithStateExec = {
    val keyed = numbers.as(Encoders.scalaLong).groupByKey(identity)(Encoders.scalaLong)
    val (time, mode, out) = (TimeMode.None(), OutputMode.Update(), Encoders.scalaLong)
    val query =
      if (withInitialState)
        keyed.transformWithState(new Unused, time, mode, keyed)(out, Encoders.scalaLong)
      else keyed.transformWithState(new Unused, time, mode)(out)
    val plan = query.asInstanceOf[org.apache.spark.sql.classic.Dataset[_]].queryExecution.sparkPlan
    plan
      .collectFirst { case exec: TransformWithStateExec => exec }
      .get
      .copy(isStreaming = isStreaming)
  }

  private def pythonExec(
      withInitialState: Boolean,
      isStreaming: Boolean
  ): TransformWithStateInPySparkExec = {
    val child = leaf
    val state = leaf
    val function = SimplePythonFunction(
      Seq.empty[Byte],
      new java.util.HashMap,
      new java.util.ArrayList,
      "python3",
      "3",
      new java.util.ArrayList,
      null
    )
    val udf = PythonUDF(
      "process",
      function,
      child.schema,
      child.output,
      PythonEvalType.SQL_TRANSFORM_WITH_STATE_PYTHON_ROW_UDF,
      udfDeterministic = true
    )
    TransformWithStateInPySparkExec(
      udf,
      child.output,
      child.output,
      OutputMode.Update(),
      TimeMode.None(),
      None,
      Some(1L),
      None,
      None,
      None,
      UserFacingDataType.PYTHON_ROW,
      child,
      isStreaming,
      withInitialState,
      state,
      state.output,
      state.schema
    )
  }

  private def leaf: SparkPlan = numbers.queryExecution.sparkPlan

  private def on[A](provider: String)(body: => A): A = {
    spark.conf.set(ProviderKey, provider)
    try body
    finally spark.conf.unset(ProviderKey)
  }

  // Protected in Scala and public in the class file. Running the operator instead needs a query.
  private def validate(plan: SparkPlan, isStreaming: Boolean = true): Unit = {
    val check = plan.getClass.getMethod("validateStateStoreProvider", java.lang.Boolean.TYPE)
    try check.invoke(plan, Boolean.box(isStreaming))
    catch { case e: InvocationTargetException => throw e.getCause }
    ()
  }

  private def assertRefused(plan: SparkPlan): Assertion = {
    val error = intercept[SparkUnsupportedOperationException](validate(plan))
    assert((error: SparkThrowable).getCondition == Refused)
  }

  for {
    (name, ours, make) <- Seq[(String, Class[_], (Boolean, Boolean) => SparkPlan)](
      ("Scala", classOf[CleancutTransformWithStateExec], scalaExec),
      ("PySpark", classOf[CleancutTransformWithStateInPySparkExec], pythonExec)
    )
    withInitialState <- Seq(false, true)
  } {
    val what = s"the operator of $name ${if (withInitialState) "with" else "without"} initial state"

    test(s"$what is replaced with all that it has, and accepts the provider") {
      on(Cleancut) {
        val plain = make(withInitialState, true)
        assertRefused(plain)
        val replaced = TransformWithStateRule(plain)
        assert(replaced.getClass == ours)
        assert(replaced.productIterator.toSeq == plain.productIterator.toSeq)
        validate(replaced)
        assert(TransformWithStateRule(replaced) eq replaced)
      }
    }

    test(s"$what is not replaced with other providers, or in batch queries") {
      for (provider <- Seq(RocksDb, Foreign)) on(provider) {
        val plain = make(withInitialState, true)
        assert(TransformWithStateRule(plain) eq plain)
      }
      on(Cleancut) {
        val batch = make(withInitialState, false)
        assert(TransformWithStateRule(batch) eq batch)
        validate(batch, isStreaming = false)
      }
    }

    test(s"$what behaves as Spark's after its session is set to another provider") {
      val replaced = on(Cleancut)(TransformWithStateRule(make(withInitialState, true)))
      on(RocksDb)(validate(replaced))
      on(Foreign)(assertRefused(replaced))
    }

    test(s"$what does not equal Spark's, and copies keep its class") {
      on(Cleancut) {
        val plain = make(withInitialState, true)
        val replaced = TransformWithStateRule(plain)
        assert(plain != replaced && replaced != plain)
        val child = leaf
        val copies = Seq(
          replaced.clone(),
          replaced.makeCopy(replaced.productIterator.map(_.asInstanceOf[AnyRef]).toArray),
          TransformWithStateRule(plain)
        )
        for (copy <- copies) {
          assert(copy.getClass == ours)
          assert(copy == replaced && copy.hashCode == replaced.hashCode)
        }
        val moved = replaced.withNewChildren(Seq(child, child))
        assert(moved.getClass == ours)
        assert(moved.children.head eq child)
        assert((moved.children.last eq child) == withInitialState)
        validate(moved)
      }
    }
  }

  test("every operator of a chain is replaced, and those of an initial state") {
    on(Cleancut) {
      val inner = scalaExec(withInitialState = false, isStreaming = true)
      val chain = scalaExec(withInitialState = true, isStreaming = true)
        .copy(child = inner, initialState = inner)
      val python = pythonExec(withInitialState = true, isStreaming = true)
      val plan = TransformWithStateRule(UnionExec(Seq(chain, python)))
      assert(plan.collect { case exec: TransformWithStateExec => exec.getClass }.size == 3)
      plan.foreach {
        case exec: TransformWithStateExecBase => validate(exec)
        case _                                =>
      }
    }
  }

  test("a session with the extension has the rule") {
    val rules = spark.sessionState.columnarRules.map(_.postColumnarTransitions)
    assert(rules.contains(TransformWithStateRule))
  }
}

object TransformWithStateRuleSuite {
  private val ProviderKey = SQLConf.STATE_STORE_PROVIDER_CLASS.key
  private val Cleancut = classOf[CleancutStateStoreProvider].getName
  private val RocksDb = classOf[RocksDBStateStoreProvider].getName
  private val Foreign =
    "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
  private val Refused = "UNSUPPORTED_FEATURE.STORE_BACKEND_NOT_SUPPORTED_FOR_TWS"
}
