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
  CapturingChannel,
  ChannelPort,
  ChannelSchema,
  DecidingChannel,
  FollowingChannel,
  GroupedOrder,
  RowBuffer,
  RowsInTurn
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
 * The channel between an exchange and the stateful operator that asked for it. It hands on the rows
 * that the last cut holds for it, and then those of the exchange; once its task is overtaken, it
 * keeps what is left for the next epoch.
 *
 * Where the operator wants its input sorted, the channel is above the sort, which reads everything
 * before it hands on a row. Rows of earlier epochs then come with the others of their key, see
 * [[RowsInTurn]]; elsewhere they come first.
 *
 * @param operator
 *   whose input it is
 * @param input
 *   which of them
 * @param all
 *   the inputs of the operator that have a channel
 * @param late
 *   true for rows that the operator would drop as late in the next epoch
 * @param hashed
 *   by which the exchange divides the rows
 * @param settings
 *   of this epoch: in mode aligned none stay in flight, and those of earlier ones are handed on
 * @param groups
 *   of an operator that wants its rows by key
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
    "inFlightRows" -> SQLMetrics.createMetric(sparkContext, "rows that stay in flight"),
    "inFlightBytes" -> SQLMetrics.createSizeMetric(sparkContext, "size of rows in flight"),
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
 * Rows that come together by key.
 *
 * @param keyOrder
 *   grouping columns, in the order that the operator requires
 * @param rowOrder
 *   sort order of the input: the grouping columns, then columns that sort the rows of a key
 * @param worker
 *   whether the function that they are for runs in Python
 * @param dropped
 *   true for rows that the operator drops as late before they come to the worker
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

/** What each task of a [[ChannelExec]] does. */
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
      // Read, so that what is damaged is found before it is committed.
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
    stored.foreach(of => port.replays(of.size))
    val source = stored.fold(exchanged)(of => joined(of, exchanged, port.newBuffer()))
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

  /** The operator can ask which of its keys have in-flight rows. */
  private def published(channel: CapturingChannel): Iterator[UnsafeRow] = {
    groups.foreach { of =>
      val hash = ChannelProgram.keyHash(hashed, of.keyOrder.map(_.child))
      val keys = new InFlightKeys(
        of.keyOrder.size,
        of.hasProcessingTime,
        key => channel.hasInFlight(hash(key))
      )
      InFlightKeys.register(operator.operatorId, keys)
    }
    channel
  }

  /** An operator that does not get its rows by key has no groups. */
  private def splitsGroups: Boolean = settings.splitsGroups || groups.isEmpty

  private def joined(
      earlier: RowBuffer,
      exchanged: Iterator[UnsafeRow],
      buffer: RowBuffer
  ): Iterator[UnsafeRow] = groups match {
    case Some(of) =>
      val order = GroupedOrder(
        new LazilyGeneratedOrdering(of.keyOrder, output),
        new LazilyGeneratedOrdering(of.rowOrder, output)
      )
      RowsInTurn(earlier, exchanged, order, splitsGroups, buffer)
    case None => earlier.iterator ++ exchanged
  }

  private def rowSchema: ChannelSchema = new ChannelSchema {
    // Compiled only where rows may be left.
    private lazy val isLate = predicate(late)
    private lazy val isLateNow = predicate(groups.flatMap(_.dropped))
    private lazy val keyOf = ChannelProgram.keyHash(hashed, output)

    override def hash(row: UnsafeRow): Long =
      XXH64.hashUnsafeBytes(row.getBaseObject, row.getBaseOffset, row.getSizeInBytes, 0L)

    override def keyHash(row: UnsafeRow): Int = keyOf(row)

    override def isDeferrable(row: UnsafeRow): Boolean = !isLate.exists(_.eval(row))

    override def isDropped(row: UnsafeRow): Boolean = isLateNow.exists(_.eval(row))

    private def predicate(of: Option[Expression]) = {
      val made = of.map(Predicate.create(_, output))
      made.foreach(_.initialize(0))
      made
    }
  }

  /** The coordinator and the frames, for one task. */
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

    // Most tasks neither have rows in flight nor leave any, and are not to pay for it.
    lazy val frames: ChannelFrames = {
      val own = new org.apache.hadoop.conf.Configuration(hadoopConf.value.value)
      own.set(StreamExecution.RUN_ID_KEY, runId)
      new ChannelFrames(id, schema, conf, own)
    }
    // Registered before the driver hears of the task, so that no news is missed.
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
      // For those that wait for it; it counts with the frames of the task.
      CutsClient.tell(Arrived(checkpoint, runId, attempt, arrival), settings.requestTimeoutMs)
    }

    override def differs(decided: ChannelReport, found: ChannelReport): Throwable = {
      val epoch = operator.storeVersion
      val seal = s"$checkpoint/${StoreLayout.RootName}/${CutLayout.sealsOf(epoch)}"
      Errors.inFlightInputMismatch(
        checkpoint,
        epoch,
        seal,
        decided.channel,
        decided.input.rows,
        found.input.rows
      )
    }

    private def unreachable(reply: CutsReply) =
      GroupedFrame.errorOf(reply, checkpoint, operator.storeVersion, channel.toString)
  }
}

private object ChannelProgram {

  /** The rows of an exchange as a table; partial aggregates may have columns of one name. */
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
   * Hash of the columns by which the exchange divides its rows.
   *
   * @param input
   *   columns of the rows to hash: those of the exchange, or the grouping columns alone
   */
  def keyHash(hashed: Seq[Expression], input: Seq[Expression]): InternalRow => Int =
    if (hashed.isEmpty) _ => 0
    else {
      val columns = input.collect { case attribute: Attribute => attribute }
      val projection = UnsafeProjection.create(Seq(new Murmur3Hash(hashed)), columns)
      row => projection(row).getInt(0)
    }
}
