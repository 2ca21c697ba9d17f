package org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators

import java.util.concurrent.TimeUnit

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.expressions.{
  Expression,
  GetStructField,
  LessThanOrEqual,
  Literal
}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike
import org.apache.spark.sql.execution.python.streaming.{
  FlatMapGroupsInPandasWithStateExec,
  TransformWithStateInPySparkExec
}
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.operators.stateful.flatmapgroupswithstate._
import org.apache.spark.sql.execution.streaming.operators.stateful.join._
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._
import org.apache.spark.sql.execution.streaming.state.StateStoreConf
import org.apache.spark.sql.execution.streaming.state.cleancut.capture.pythonworker.PythonOperator
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.DriverCuts
import org.apache.spark.sql.execution.streaming.state.cleancut.framefiles.StoreFiles
import org.apache.spark.sql.execution.streaming.state.cleancut.session.{
  OwnTransformWithState,
  TransformWithStateRule
}
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.{RealTime, RunningQueries}
import org.apache.spark.sql.execution.streaming.{
  AvailableNowTrigger,
  OneTimeTrigger,
  ProcessingTimeTrigger
}
import org.apache.spark.sql.internal.SQLConf

import io.cleancut.conf.{CaptureMode, Settings}
import io.cleancut.coordinator.QueryCoordinator

/**
 * Puts a [[ChannelExec]] behind each exchange that a stateful operator has asked for, where rows
 * may stay in flight or some are from earlier epochs. Other plans stay as they are, and cost
 * nothing.
 */
object ChannelRule extends Rule[SparkPlan] {

  /** The rule at the place where exchanges and sorts are in the plan, and stages are not. */
  val injection: ColumnarRule = new ColumnarRule {
    override def postColumnarTransitions: Rule[SparkPlan] = ChannelRule
  }

  override def apply(plan: SparkPlan): SparkPlan = {
    val operators = plan.collect { case writer: StateStoreWriter => writer }
    val found = for {
      first <- operators.headOption
      info <- first.stateInfo
      // In a batch it has no checkpoint.
      if info.checkpointLocation.nonEmpty
      if TransformWithStateRule.isAsked(first.conf) && !isDone(plan)
      location = StoreFiles.checkpointOf(info.checkpointLocation).toString
      if location != Explained
      cuts <- DriverCuts.of(location)
    } yield new ChannelPlan(plan, operators, info, cuts).result
    found.getOrElse(plan)
  }

  // Where Spark says that a query is which it plans only to explain it; some lines do in each run.
  private val Explained = "<unknown>"

  private def isDone(plan: SparkPlan): Boolean =
    plan.exists(node => node.isInstanceOf[ChannelExec] || node.isInstanceOf[ChannelProgressExec])
}

/** The channels of one epoch's plan. */
final private class ChannelPlan(
    plan: SparkPlan,
    operators: Seq[StateStoreWriter],
    info: StatefulOperatorStateInfo,
    cuts: QueryCoordinator
) extends Logging {
  private val conf = operators.head.conf
  private val runId = info.queryRunId.toString
  private val trigger = RunningQueries.byRun(runId).map(_.trigger)
  private val settings = {
    val asked = Settings.from(new StateStoreConf(conf).sqlConfs).channels
    // Spark looks for new input at the next trigger and not before.
    val intervalMs = trigger.collect { case ProcessingTimeTrigger(ms) => ms }.getOrElse(0L)
    asked.copy(drainMs = Option.when(hasNoInput)(intervalMs))
  }
  private val inFlight = cuts.inFlight(runId).getOrElse(Nil).map(_.store)
  private val isDecided = cuts.isDecidedBefore(runId, info.storeVersion)

  def result: SparkPlan =
    if (settings.mode == CaptureMode.Aligned && inFlight.isEmpty && !isDecided) atWatermark(plan)
    else {
      val decided = operators.map(operator => operator -> captured(operator))
      val refused = for {
        (operator, (Some(why), _)) <- decided
        of <- operator.stateInfo
      } yield of.operatorId -> why
      cuts.alignedBecause(runId, refused.toMap)
      val channels = decided.flatMap { case (_, (_, of)) => of }
      withProgress(recalling(atWatermark(channels.foldLeft(plan)(insert))))
    }

  /**
   * While rows are in flight to them, joins and functions with timeouts or timers in event time run
   * at the watermark of the epoch before, behind which all of these rows are. A join does not take
   * rows into its state that it would evict in the same epoch, so that two that were in flight
   * until then would not meet; and a function may set no timeout before its watermark.
   *
   * State with TTL expires at the timestamp of the epoch before, too: rows that were in flight find
   * the state that they would have found in that epoch.
   */
  private def atWatermark(plan: SparkPlan): SparkPlan = plan.transformUp {
    case join: StreamingSymmetricHashJoinExec if isFed(join) =>
      JoinEviction.at(join, join.eventTimeWatermarkForLateEvents)
    // Spark 4.3 looks only for what one epoch adds, and an epoch before may have evicted less.
    case join: StreamingSymmetricHashJoinExec =>
      JoinEviction.at(join, join.eventTimeWatermarkForEviction)
    case groups: FlatMapGroupsWithStateExec if isFed(groups) =>
      groups.copy(eventTimeWatermarkForEviction = groups.eventTimeWatermarkForLateEvents)
    case groups: FlatMapGroupsInPandasWithStateExec if isFed(groups) =>
      groups.copy(eventTimeWatermarkForEviction = groups.eventTimeWatermarkForLateEvents)
    case groups: TransformWithStateExec =>
      val at = groups.copy(
        eventTimeWatermarkForEviction = evictionOf(groups),
        batchTimestampMs = timestampOf(groups, groups.batchTimestampMs)
      )
      OwnTransformWithState.of(WholeScans.of(at))
    case groups: TransformWithStateInPySparkExec =>
      val at = groups.copy(
        eventTimeWatermarkForEviction = evictionOf(groups),
        batchTimestampMs = timestampOf(groups, groups.batchTimestampMs)
      )
      OwnTransformWithState.of(WholeScans.of(at))
  }

  private def evictionOf(groups: StateStoreWriter with WatermarkSupport): Option[Long] =
    if (isFed(groups)) groups.eventTimeWatermarkForLateEvents
    else groups.eventTimeWatermarkForEviction

  /** Timestamp at which an operator runs, given that of the epoch. */
  private def timestampOf(groups: StateStoreWriter, ofEpoch: Option[Long]): Option[Long] =
    if (isFed(groups)) ofEpoch.map(ms => cuts.lastTimestampMs(runId).fold(ms)(Math.min(_, ms)))
    else ofEpoch

  private def insert(plan: SparkPlan, channel: ChannelExec): SparkPlan = plan.transformUp {
    case node if node eq channel.child => channel
  }

  /** Rows that are on their way to a Python worker may stay as well. */
  private def recalling(plan: SparkPlan): SparkPlan = plan.transformUp {
    case operator if PythonOperator.is(operator) =>
      operator.children.head match {
        case channel: ChannelExec if channel.settings.mode != CaptureMode.Aligned =>
          PythonOperator.recalling(operator)
        case _ => operator
      }
  }

  /** Below the channel that Spark meets last, so that the entries before it keep their places. */
  private def withProgress(plan: SparkPlan): SparkPlan =
    plan.collect { case channel: ChannelExec => channel }.lastOption.fold(plan) { last =>
      val own = info.copy(operatorId = ChannelProgressExec.OperatorId, stateStoreCkptIds = None)
      plan.transformUp {
        case channel: ChannelExec if channel eq last =>
          channel.copy(child = ChannelProgressExec(Some(own), channel.child))
      }
    }

  /**
   * Why an operator is aligned in this epoch, if it is, and its channels. One that is aligned has
   * them where rows are in flight to it, or may have been in an earlier attempt.
   */
  private def captured(operator: StateStoreWriter): (Option[String], Seq[ChannelExec]) = {
    val reason = wholePlan.orElse(refusal(operator))
    val inputs = inputsOf(operator).map { case (input, child, onSort) =>
      channelOf(operator, input, child, onSort)
    }
    val found = inputs.collect { case Right(channel) => channel }
    val channels = found.map(_.copy(all = found.map(_.input)))
    val none = Option.when(channels.isEmpty)("it has no input that Spark divides by keys")
    val why = reason.orElse(inputs.collectFirst { case Left(problem) => problem }).orElse(none)
    // What is in flight comes first in any case.
    val needed =
      if (why.isEmpty) channels.map(_.copy(settings = settings))
      else if (isDecided || isFed(operator)) channels
      else Nil
    (why, needed)
  }

  private def isFed(operator: StateStoreWriter): Boolean = {
    val id = operator.getStateInfo.operatorId
    inFlight.exists(_.operator == id)
  }

  /** Why nothing can be captured in this epoch. */
  private lazy val wholePlan: Option[String] =
    if (settings.mode == CaptureMode.Aligned) Some("mode is aligned")
    // Its rows are given to the sink as they come, and not when an epoch ends.
    else if (trigger.exists(RealTime.is)) Some("it runs in real-time mode")
    else if (!conf.getConf(SQLConf.STREAMING_NO_DATA_MICRO_BATCHES_ENABLED))
      Some(s"${SQLConf.STREAMING_NO_DATA_MICRO_BATCHES_ENABLED.key} is false")
    else if (!conf.getConf(SQLConf.STATEFUL_OPERATOR_ALLOW_MULTIPLE))
      Some(s"${SQLConf.STATEFUL_OPERATOR_ALLOW_MULTIPLE.key} is false")
    else if (isLastEpoch) Some("the query ends with this epoch")
    else None

  /** A query that ends with its data drains its channels before. */
  private def isLastEpoch: Boolean = trigger.exists {
    case OneTimeTrigger      => true
    case AvailableNowTrigger => hasNoInput
    case _                   => false
  }

  /** Spark puts empty tables in the place of sources that have nothing new. */
  private def hasNoInput: Boolean = plan.collectLeaves().forall {
    case _: LocalTableScanExec => true
    // An initial state that is not given is never planned.
    case PlanLater(of) => !of.isStreaming
    case leaf          => leaf.logicalLink.exists(!_.isStreaming)
  }

  private def refusal(operator: StateStoreWriter): Option[String] = operator match {
    case _: StateStoreSaveExec | _: SessionWindowStateStoreSaveExec | _: StreamingDeduplicateExec |
        _: StreamingDeduplicateWithinWatermarkExec | _: StreamingSymmetricHashJoinExec |
        _: FlatMapGroupsWithStateExec | _: TransformWithStateExec =>
      lateBehind(operator)
    case python if PythonOperator.is(python) =>
      PythonOperator.refusal(python).orElse(lateBehind(python))
    case other => Some(s"${other.shortName} is not captured yet")
  }

  private def lateBehind(operator: StateStoreWriter): Option[String] =
    Option.when(
      hasEventTimeBehind(operator) && !NoneLateBehind.of(operator, plan)
    )("an operator behind it drops late rows, and Cleancut cannot prove that none would be late")

  private def hasEventTimeBehind(operator: StateStoreWriter): Boolean =
    plan.exists(_.isInstanceOf[EventTimeWatermarkExec]) &&
      operators.exists(other => (other ne operator) && other.exists(_ eq operator))

  /** Number and root of each input that may be captured, and whether above its sort. */
  private def inputsOf(operator: StateStoreWriter): Seq[(Int, SparkPlan, Boolean)] =
    operator match {
      case join: StreamingSymmetricHashJoinExec =>
        Seq((0, join.left, false), (1, join.right, false))
      // The other input is the initial state, which is never captured.
      case groups: FlatMapGroupsWithStateExec  => Seq((0, groups.child, true))
      case groups: TransformWithStateExec      => Seq((0, groups.child, true))
      case python if PythonOperator.is(python) => Seq((0, python.children.head, true))
      case other                               => other.children.take(1).map(c => (0, c, false))
    }

  private def channelOf(
      operator: StateStoreWriter,
      input: Int,
      child: SparkPlan,
      onSort: Boolean
  ): Either[String, ChannelExec] = for {
    exchange <- exchangeBelow(child)
    below = if (onSort) sortAbove(child, exchange) else exchange
    late <- lateness(operator, input, exchange)
    groups <- groupsOf(operator, onSort, below)
  } yield {
    val hashed = exchange.outputPartitioning match {
      case HashPartitioning(expressions, _) => expressions
      case _                                => Nil
    }
    val aligned = settings.copy(mode = CaptureMode.Aligned)
    ChannelExec(operator.getStateInfo, input, Nil, late, hashed, aligned, groups, below)
  }

  private def groupsOf(
      operator: StateStoreWriter,
      onSort: Boolean,
      below: SparkPlan
  ): Either[String, Option[GroupedInput]] = below match {
    case _ if !onSort   => Right(None)
    case sort: SortExec =>
      val worker = PythonOperator.is(operator)
      // The sort may have further columns, which order the rows of a key.
      val keyOrder = operator.requiredChildOrdering.head
      val dropped = PythonOperator.dropped(operator)
      val hasTime = ProcessingTime.isUsed(operator)
      Right(Some(GroupedInput(keyOrder, sort.sortOrder, worker, dropped, hasTime)))
    case _ => Left("its input is sorted already, so there is no sort to merge with")
  }

  private def sortAbove(child: SparkPlan, exchange: SparkPlan): SparkPlan =
    child.collectFirst { case sort: SortExec if sort.child eq exchange => sort }.getOrElse(exchange)

  @annotation.tailrec
  private def exchangeBelow(node: SparkPlan): Either[String, SparkPlan] = node match {
    case exchange: ShuffleExchangeLike               => Right(exchange)
    case sort: SortExec                              => exchangeBelow(sort.child)
    case restore: StateStoreRestoreExec              => exchangeBelow(restore.child)
    case restore: SessionWindowStateStoreRestoreExec => exchangeBelow(restore.child)
    case aggregate: BaseAggregateExec                => exchangeBelow(aggregate.child)
    case _ => Left("its input is divided by its keys already, so there is no exchange")
  }

  /**
   * What the operator will drop as late in the next epoch: rows at or below the watermark by which
   * it evicts state in this one.
   */
  private def lateness(
      operator: StateStoreWriter,
      input: Int,
      exchange: SparkPlan
  ): Either[String, Option[Expression]] = {
    val late = operator match {
      case join: StreamingSymmetricHashJoinExec =>
        val side = if (input == 0) join.left else join.right
        WatermarkSupport.watermarkExpression(
          WatermarkSupport.findEventTimeColumn(side.output, allowMultipleEventTimeColumns = false),
          join.eventTimeWatermarkForEviction
        )
      case sessions: SessionWindowStateStoreSaveExec => mayMergeWithEvicted(sessions)
      case supported: WatermarkSupport               => supported.watermarkExpressionForEviction
      case _                                         => None
    }
    if (late.forall(_.references.subsetOf(exchange.outputSet))) Right(late)
    else Left("its event time is computed behind the exchange")
  }

  /**
   * A session that begins at or before the watermark may be the continuation of one that is evicted
   * in this epoch, which without it ends too early. One that begins behind it is not late either.
   */
  private def mayMergeWithEvicted(sessions: SessionWindowStateStoreSaveExec): Option[Expression] =
    sessions.eventTimeWatermarkForEviction.map { watermarkMs =>
      val start = GetStructField(sessions.sessionExpression, 0)
      val watermarkUs = TimeUnit.MILLISECONDS.toMicros(watermarkMs)
      LessThanOrEqual(start, Literal(watermarkUs, start.dataType))
    }
}
