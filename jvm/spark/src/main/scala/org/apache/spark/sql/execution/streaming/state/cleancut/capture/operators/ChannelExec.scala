package org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators

import org.apache.spark.TaskContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.LazilyGeneratedOrdering
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state.cleancut.capture.pythonworker.{
  WorkerChannel,
  WorkerPage
}
import org.apache.spark.sql.execution.streaming.state.cleancut.capture.{
  AlternatingRows,
  CapturingChannel,
  ChannelPort,
  ChannelSchema,
  DecidingChannel,
  FollowingChannel,
  GroupedOrder,
  RowBuffer
}
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination._
import org.apache.spark.sql.execution.streaming.state.cleancut.framefiles.StoreFiles
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.BeforeCommit
import org.apache.spark.sql.execution.streaming.state.{StateStoreConf, StateStoreId}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.InFlightKeys
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.util.SerializableConfiguration

import io.cleancut.base.{Clock, StoreId}
import io.cleancut.conf.{Capture, ChannelSettings}
import io.cleancut.coordinator.state.Arrival
import io.cleancut.error.Errors
import io.cleancut.format.{Channels, CutLayout, StoreLayout}
import io.cleancut.format.cut.{ChannelReading, ChannelReport}
import io.cleancut.protocol.{ChannelOpened, ChannelTask}

/**
 * Capture operator between an exchange and the stateful operator that requires it. It emits the
 * in-flight rows of the last cut, then the rows of the exchange. Once its task is overtaken, it
 * keeps the remaining rows for the next epoch.
 *
 * If the operator requires sorted input, this operator is above the sort, which reads all rows
 * before it emits one. Rows of earlier epochs are then merged with the others of their key, see
 * [[AlternatingRows]]; otherwise they come first.
 *
 * @param operator
 *   ID of the stateful operator
 * @param input
 *   index of this input of the operator
 * @param all
 *   the captured inputs of the operator
 * @param late
 *   true for rows that the operator would drop as late in the next epoch
 * @param hashed
 *   partitioning expressions of the exchange
 * @param settings
 *   settings of this epoch: in mode aligned no rows stay in flight, and in-flight rows of earlier
 *   epochs are emitted
 * @param groups
 *   grouping of the rows, if the operator requires rows grouped by key
 */
case class ChannelExec(
    operator: StatefulOperatorStateInfo,
    input: Int,
    all: Seq[Int],
    late: Option[Expression],
    hashed: Seq[Expression],
    settings: ChannelSettings,
    groups: Option[GroupedInput],
    child: SparkPlan
) extends UnaryExecNode {

  override def output: Seq[Attribute] = child.output

  override def outputPartitioning: Partitioning = child.outputPartitioning

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "replayedRows" -> SQLMetrics.createMetric(sparkContext, "rows of earlier epochs"),
    "inFlightRows" -> SQLMetrics.createMetric(sparkContext, "in-flight rows"),
    "inFlightBytes" -> SQLMetrics.createSizeMetric(sparkContext, "size of in-flight rows"),
    "tasksOvertaken" -> SQLMetrics.createMetric(sparkContext, "tasks that were overtaken")
  )

  override protected def doExecute(): RDD[InternalRow] = {
    val hadoopConf = new SerializableConfiguration(session.sessionState.newHadoopConf())
    val task = new ChannelProgram(
      operator,
      input,
      all,
      output,
      late,
      hashed,
      settings,
      groups,
      new StateStoreConf(session.sessionState.conf),
      sparkContext.broadcast(hadoopConf),
      metrics
    )
    child.execute().mapPartitionsWithIndexInternal((partition, rows) => task.run(partition, rows))
  }

  override protected def withNewChildInternal(newChild: SparkPlan): ChannelExec =
    copy(child = newChild)
}

/**
 * Rows that are grouped by key.
 *
 * @param keyOrder
 *   grouping columns, in the order that the operator requires
 * @param rowOrder
 *   sort order of the input: the grouping columns, then columns that sort the rows of a key
 * @param worker
 *   whether their function runs in Python
 * @param dropped
 *   true for rows that the operator drops as late before the worker receives them
 * @param hasProcessingTime
 *   whether the function has timeouts or timers in processing time
 */
case class GroupedInput(
    keyOrder: Seq[SortOrder],
    rowOrder: Seq[SortOrder],
    worker: Boolean,
    dropped: Option[Expression],
    hasProcessingTime: Boolean
)

/** The work of one task of a [[ChannelExec]]. */
final private class ChannelProgram(
    operator: StatefulOperatorStateInfo,
    input: Int,
    all: Seq[Int],
    output: Seq[Attribute],
    late: Option[Expression],
    hashed: Seq[Expression],
    settings: ChannelSettings,
    groups: Option[GroupedInput],
    conf: StateStoreConf,
    hadoopConf: Broadcast[SerializableConfiguration],
    metrics: Map[String, SQLMetric]
) extends Serializable {
  private val schema = ChannelProgram.schemaOf(output)

  def run(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val port = new TaskPort(partition)
    val opened = port.open()
    if (opened.isFinished) {
      // Read, so that corruption is detected before the commit.
      opened.decided.flatMap(_._2).foreach(port.frames.read)
      Iterator.empty
    } else read(port, opened, rows.asInstanceOf[Iterator[UnsafeRow]])
  }

  private def read(
      port: TaskPort,
      opened: ChannelOpened,
      exchanged: Iterator[UnsafeRow]
  ): Iterator[UnsafeRow] = {
    val stored = opened.stored.map(port.frames.read)
    stored.foreach(rows => port.replays(rows.size))
    val source = stored.fold(exchanged)(rows => joined(rows, exchanged, port.newBuffer()))
    opened.decided match {
      case Some((decided, staying)) =>
        val left = staying.fold(port.newBuffer())(port.frames.read)
        published(new FollowingChannel(source, port.rows, port, decided, left))
      case None if opened.mayDefer && groups.exists(_.worker) => published(port.toWorker(source))
      case None if opened.mayDefer                            =>
        val maxBytes = settings.maxInFlightBytes
        published(new DecidingChannel(source, port.rows, port, maxBytes, splitsGroups))
      case None => source
    }
  }

  /** Registers the keys with in-flight rows for the operator. */
  private def published(channel: CapturingChannel): Iterator[UnsafeRow] = {
    groups.foreach { grouping =>
      val hash = ChannelProgram.keyHash(hashed, grouping.keyOrder.map(_.child))
      val keys = new InFlightKeys(
        grouping.keyOrder.size,
        grouping.hasProcessingTime,
        key => channel.hasInFlight(hash(key))
      )
      InFlightKeys.register(operator.operatorId, keys)
    }
    channel
  }

  /** An operator whose rows are not grouped by key has no groups to split. */
  private def splitsGroups: Boolean = settings.splitsGroups || groups.isEmpty

  private def joined(
      earlier: RowBuffer,
      exchanged: Iterator[UnsafeRow],
      buffer: RowBuffer
  ): Iterator[UnsafeRow] = groups match {
    case Some(grouping) =>
      val order = GroupedOrder(
        new LazilyGeneratedOrdering(grouping.keyOrder, output),
        new LazilyGeneratedOrdering(grouping.rowOrder, output)
      )
      AlternatingRows(earlier, exchanged, order, splitsGroups, buffer)
    case None => earlier.iterator ++ exchanged
  }

  private def rowSchema: ChannelSchema = new ChannelSchema {
    // Compiled only if rows may stay in flight.
    private lazy val isLate = predicate(late)
    private lazy val isLateNow = predicate(groups.flatMap(_.dropped))
    private lazy val keyOf = ChannelProgram.keyHash(hashed, output)

    override def hash(row: UnsafeRow): Long =
      XXH64.hashUnsafeBytes(row.getBaseObject, row.getBaseOffset, row.getSizeInBytes, 0L)

    override def keyHash(row: UnsafeRow): Int = keyOf(row)

    override def isDeferrable(row: UnsafeRow): Boolean = !isLate.exists(_.eval(row))

    override def isDropped(row: UnsafeRow): Boolean = isLateNow.exists(_.eval(row))

    private def predicate(condition: Option[Expression]) = {
      val made = condition.map(Predicate.create(_, output))
      made.foreach(_.initialize(0))
      made
    }
  }

  /** Connects one task with the coordinator and its frames. */
  final private class TaskPort(partition: Int) extends ChannelPort {
    private val attempt = TaskContext.get().taskAttemptId()
    private val id = StateStoreId(
      operator.checkpointLocation,
      operator.operatorId,
      partition,
      Channels.name(input)
    )
    private val checkpoint = StoreFiles.checkpointOf(id.checkpointRootLocation).toString
    private val runId = operator.queryRunId.toString

    // Created on demand: most tasks neither have nor leave in-flight rows.
    lazy val frames: ChannelFrames = {
      val taskConf = new org.apache.hadoop.conf.Configuration(hadoopConf.value.value)
      taskConf.set(StreamExecution.RUN_ID_KEY, runId)
      new ChannelFrames(id, schema, conf, taskConf)
    }
    // Registered before the driver knows the task, so that no notification is missed.
    private val flag: OvertakeFlag =
      if (settings.capture == Capture.Off) new OvertakeFlag
      else {
        TaskContext.get().addTaskCompletionListener[Unit] { _ =>
          OvertakeWatch.remove(checkpoint, runId, attempt)
        }
        OvertakeWatch.register(checkpoint, runId, attempt, settings.requestTimeoutMs)
      }

    val rows: ChannelSchema = rowSchema

    private var replayed = 0L
    private var keptBytes = 0L

    def replays(rows: Long): Unit = {
      metrics("replayedRows") += rows
      replayed = rows
    }

    override val channel: StoreId = channelOf(input)

    private val link = OperatorTask
      .current(checkpoint, runId, operator.operatorId, settings.requestTimeoutMs)
      .getOrElse(throw new IllegalStateException("no task reads this channel"))

    private def channelOf(input: Int) =
      StoreId(operator.operatorId, partition, Channels.name(input))

    override def isOvertaken: Boolean = flag.isRaised

    override def newBuffer(): RowBuffer = RowBuffer.inTask()

    def open(): ChannelOpened = {
      def task(input: Int) = ChannelTask(
        attempt,
        channelOf(input),
        operator.storeVersion,
        operator.numPartitions,
        OvertakeWatch.executor,
        settings.capture
      )
      val opened =
        link.channel(task(input), all.map(task)).fold(no => throw unreachable(no), identity)
      if (opened.isOvertaken) flag.raise()
      opened
    }

    def toWorker(source: Iterator[UnsafeRow]): CapturingChannel = {
      val page = new WorkerPage(attempt, splitsGroups)
      TaskContext.get().addTaskCompletionListener[Unit](_ => page.close())
      flag.onRaise(() => page.overtake())
      val bound = settings.maxInFlightBytes
      val made = new WorkerChannel(source, rows, this, page, bound, splitsGroups)
      BeforeCommit.register(operator.operatorId, partition)(() => made.finish())
      made
    }

    override def write(kept: RowBuffer): Unit = {
      frames.write(operator.storeVersion, kept, rows.keyHash)
      metrics("inFlightBytes") += kept.sizeBytes
      keptBytes = kept.sizeBytes
    }

    override def arrived(report: ChannelReport, beyondBound: Long): Unit = {
      metrics("inFlightRows") += report.deferred.rows
      if (flag.isRaised) metrics("tasksOvertaken") += 1
      val captureNs = flag.sinceNs.map(Clock.System.monotonicNs() - _)
      val reading = ChannelReading(replayed, keptBytes, beyondBound, captureNs)
      val arrival = Arrival(report, reading)
      link.arrived(arrival)
      // Early notification of waiting executors; it counts with the frames of the task.
      CutsClient.tell(Arrived(checkpoint, runId, attempt, arrival), settings.requestTimeoutMs)
    }

    override def differs(decided: ChannelReport, actual: ChannelReport): Throwable = {
      val epoch = operator.storeVersion
      val seal = s"$checkpoint/${StoreLayout.RootName}/${CutLayout.sealsOf(epoch)}"
      Errors.inFlightInputMismatch(
        checkpoint,
        epoch,
        seal,
        decided.channel,
        decided.input.rows,
        actual.input.rows
      )
    }

    private def unreachable(reply: CutsReply) =
      GroupedFrame.errorOf(reply, checkpoint, operator.storeVersion, channel.toString)
  }
}

private object ChannelProgram {

  /**
   * The schema of the rows of an exchange; partial aggregates may have columns with equal names.
   */
  def schemaOf(output: Seq[Attribute]): StructType = {
    val seen = collection.mutable.Map.empty[String, Int]
    StructType(output.map { attribute =>
      val count = seen.getOrElse(attribute.name, 0) + 1
      seen(attribute.name) = count
      val name = if (count == 1) attribute.name else s"${attribute.name}_$count"
      StructField(name, attribute.dataType, attribute.nullable)
    })
  }

  /**
   * Hash of the columns by which the exchange partitions its rows.
   *
   * @param input
   *   columns of the rows to hash: those of the exchange, or only the grouping columns
   */
  def keyHash(hashed: Seq[Expression], input: Seq[Expression]): InternalRow => Int =
    if (hashed.isEmpty) _ => 0
    else {
      val columns = input.collect { case attribute: Attribute => attribute }
      val projection = UnsafeProjection.create(Seq(new Murmur3Hash(hashed)), columns)
      row => projection(row).getInt(0)
    }
}
