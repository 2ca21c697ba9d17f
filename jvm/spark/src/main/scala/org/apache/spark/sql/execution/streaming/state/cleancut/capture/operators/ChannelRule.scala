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
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.SharedStores
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
import io.cleancut.coordinator.state.Pipelining

/**
 * Adds a [[ChannelExec]] above each exchange that a stateful operator requires, if rows may stay in
 * flight or in-flight rows of earlier epochs exist. Other plans are unchanged.
 */
object ChannelRule extends Rule[SparkPlan] {

  /** Applies the rule when the plan has exchanges and sorts, and no stages yet. */
  val injection: ColumnarRule = new ColumnarRule {
    override def postColumnarTransitions: Rule[SparkPlan] = ChannelRule
  }

  override def apply(plan: SparkPlan): SparkPlan = {
    val operators = plan.collect { case writer: StateStoreWriter => writer }
    val capturing = for {
      first <- operators.headOption
      info <- first.stateInfo
      // In a batch query the operator has no checkpoint.
      if info.checkpointLocation.nonEmpty
      if TransformWithStateRule.isRequested(first.conf) && !isDone(plan)
      location = StoreFiles.checkpointOf(info.checkpointLocation).toString
      if location != Explained
      cuts <- DriverCuts.of(location)
    } yield new ChannelPlan(plan, operators, info, cuts).result
    capturing.getOrElse(plan)
  }

  // Spark marks plans that it only creates for an explain; some versions mark each run.
  private val Explained = "<unknown>"

  private def isDone(plan: SparkPlan): Boolean =
    plan.exists(node => node.isInstanceOf[ChannelExec] || node.isInstanceOf[ChannelProgressExec])
}

/** The captured inputs in one epoch's plan. */
final private class ChannelPlan(
    plan: SparkPlan,
    operators: Seq[StateStoreWriter],
    info: StatefulOperatorStateInfo,
    cuts: QueryCoordinator
) extends Logging {
  private val conf = operators.head.conf
  private val runId = info.queryRunId.toString
  private val trigger = RunningQueries.byRun(runId).map(_.trigger)
  private val configured = Settings.from(new StateStoreConf(conf).sqlConfs)
  private val unpipelined = {
    val isInBucket = SharedStores.isInBucket(StoreFiles.checkpointOf(info.checkpointLocation))
    PipelinedCuts.refusal(runId, isInBucket, configured, conf)
  }
  private val settings = {
    // Spark checks for new input only at the next trigger.
    val intervalMs = trigger.collect { case ProcessingTimeTrigger(ms) => ms }.getOrElse(0L)
    configured.channels.copy(drainMs = Option.when(hasNoInput)(intervalMs))
  }
  private val inFlight = cuts.inFlight(runId).getOrElse(Nil).map(_.store)
  private val isDecided = cuts.isDecidedBefore(runId, info.storeVersion)

  def result: SparkPlan = {
    val done = withProgress(withChannels)
    val isWaiting = done.exists(_.isInstanceOf[ChannelProgressExec])
    val why = unpipelined.orElse(Option.unless(isWaiting)("no stateful operator has an exchange"))
    cuts.pipeline(runId, why.fold(Pipelining.at(info.storeVersion))(Pipelining.off))
    done
  }

  private def withChannels: SparkPlan =
    if (settings.mode == CaptureMode.Aligned && inFlight.isEmpty && !isDecided) atWatermark(plan)
    else {
      val decided = operators.map(operator => operator -> captured(operator))
      val refused = for {
        (operator, (Some(why), _)) <- decided
        info <- operator.stateInfo
      } yield info.operatorId -> why
      cuts.alignedBecause(runId, refused.toMap)
      val channels = decided.flatMap { case (_, (_, inputs)) => inputs }
      atWatermark(channels.foldLeft(plan)(insert))
    }

  /**
   * While they have in-flight rows, joins and functions with event-time timeouts or timers run at
   * the watermark of the previous epoch, which none of these rows has passed. A join does not store
   * rows that it would evict in the same epoch, so two in-flight rows would not be joined; and a
   * function must not set a timeout before its watermark.
   *
   * State with TTL also expires at the timestamp of the previous epoch, so in-flight rows find the
   * state that they would have found in that epoch.
   */
  private def atWatermark(plan: SparkPlan): SparkPlan = plan.transformUp {
    case join: StreamingSymmetricHashJoinExec if isFed(join) =>
      JoinEviction.at(join, join.eventTimeWatermarkForLateEvents)
    // Spark 4.3 only scans the range of one epoch, but an earlier epoch may have evicted less.
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

  /** Timestamp at which an operator runs, given the timestamp of the epoch. */
  private def timestampOf(groups: StateStoreWriter, ofEpoch: Option[Long]): Option[Long] =
    if (isFed(groups)) ofEpoch.map(ms => cuts.lastTimestampMs(runId).fold(ms)(Math.min(_, ms)))
    else ofEpoch

  private def insert(plan: SparkPlan, channel: ChannelExec): SparkPlan = plan.transformUp {
    case node if node eq channel.child => channel
  }

  /**
   * Inserted below the capture operator that Spark visits last, so that entries before it keep
   * their positions. In a plan without capture operators it is inserted at the same place, if the
   * query does not wait for its cuts.
   */
  private def withProgress(plan: SparkPlan): SparkPlan = {
    val progressInfo =
      info.copy(operatorId = ChannelProgressExec.OperatorId, stateStoreCkptIds = None)
    def progress(child: SparkPlan) =
      ChannelProgressExec(Some(progressInfo), isPipelined = unpipelined.isEmpty, child)
    plan.collect { case channel: ChannelExec => channel }.lastOption match {
      case Some(last) =>
        plan.transformUp {
          case channel: ChannelExec if channel eq last =>
            channel.copy(child = progress(channel.child))
        }
      case None if unpipelined.isEmpty =>
        val last = operators.last.collectFirst { case exchange: ShuffleExchangeLike => exchange }
        plan.transformUp { case node if last.exists(_ eq node) => progress(node) }
      case None => plan
    }
  }

  /**
   * The reason why an operator is aligned in this epoch, if any, and its captured inputs. An
   * aligned operator has them if it has in-flight rows, or may have had them in an earlier attempt.
   */
  private def captured(operator: StateStoreWriter): (Option[String], Seq[ChannelExec]) = {
    val reason = wholePlan.orElse(refusal(operator))
    val inputs = inputsOf(operator).map { case (input, child, onSort) =>
      channelOf(operator, input, child, onSort)
    }
    val capturable = inputs.collect { case Right(channel) => channel }
    val channels = capturable.map(_.copy(all = capturable.map(_.input)))
    val none = Option.when(channels.isEmpty)("none of its inputs is partitioned by key")
    val why = reason.orElse(inputs.collectFirst { case Left(problem) => problem }).orElse(none)
    // In-flight rows always come first.
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

  /** The reason why no operator can be captured in this epoch. */
  private lazy val wholePlan: Option[String] =
    if (settings.mode == CaptureMode.Aligned) Some("mode is aligned")
    // The sink receives rows continuously, and not at the end of an epoch.
    else if (trigger.exists(RealTime.is)) Some("it runs in real-time mode")
    else if (!conf.getConf(SQLConf.STREAMING_NO_DATA_MICRO_BATCHES_ENABLED))
      Some(s"${SQLConf.STREAMING_NO_DATA_MICRO_BATCHES_ENABLED.key} is false")
    else if (!conf.getConf(SQLConf.STATEFUL_OPERATOR_ALLOW_MULTIPLE))
      Some(s"${SQLConf.STATEFUL_OPERATOR_ALLOW_MULTIPLE.key} is false")
    else if (isLastEpoch) Some("the query ends with this epoch")
    else None

  /** A query that ends with its data processes its in-flight rows before. */
  private def isLastEpoch: Boolean = trigger.exists {
    case OneTimeTrigger      => true
    case AvailableNowTrigger => hasNoInput
    case _                   => false
  }

  /** Spark replaces sources without new data by empty tables. */
  private def hasNoInput: Boolean = plan.collectLeaves().forall {
    case _: LocalTableScanExec => true
    // A missing initial state is never planned.
    case PlanLater(source) => !source.isStreaming
    case leaf              => leaf.logicalLink.exists(!_.isStreaming)
  }

  private def refusal(operator: StateStoreWriter): Option[String] = operator match {
    case _: StateStoreSaveExec | _: SessionWindowStateStoreSaveExec | _: StreamingDeduplicateExec |
        _: StreamingDeduplicateWithinWatermarkExec | _: StreamingSymmetricHashJoinExec |
        _: FlatMapGroupsWithStateExec | _: TransformWithStateExec =>
      lateDownstream(operator)
    case python if PythonOperator.is(python) =>
      PythonOperator.refusal(python).orElse(lateDownstream(python))
    case other => Some(s"${other.shortName} is not captured yet")
  }

  private def lateDownstream(operator: StateStoreWriter): Option[String] =
    Option.when(
      hasEventTimeDownstream(operator) && !LatenessProof.of(operator, plan)
    )("a downstream operator drops late rows, and it is unknown whether its rows would be late")

  private def hasEventTimeDownstream(operator: StateStoreWriter): Boolean =
    plan.exists(_.isInstanceOf[EventTimeWatermarkExec]) &&
      operators.exists(other => (other ne operator) && other.exists(_ eq operator))

  /**
   * Index and root of each input that may be captured, and whether it is captured above its sort.
   */
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
    case _ => Left("its input is already partitioned by its keys, so there is no exchange")
  }

  /**
   * The rows that the operator will drop as late in the next epoch: rows at or below the watermark
   * by which it evicts state in this epoch.
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
    else Left("its event time is computed after the exchange")
  }

  /**
   * A session that begins at or before the watermark may continue a session that is evicted in this
   * epoch, which would end too early without it. A session that begins after the watermark is not
   * late either.
   */
  private def mayMergeWithEvicted(sessions: SessionWindowStateStoreSaveExec): Option[Expression] =
    sessions.eventTimeWatermarkForEviction.map { watermarkMs =>
      val start = GetStructField(sessions.sessionExpression, 0)
      val watermarkUs = TimeUnit.MILLISECONDS.toMicros(watermarkMs)
      LessThanOrEqual(start, Literal(watermarkUs, start.dataType))
    }
}
