package io.cleancut.coordinator.sim

import scala.collection.mutable
import scala.util.Random

import io.cleancut.base.StoreId
import io.cleancut.cutstore.Paging

/** How a sink processes an epoch, and a repeated epoch. */
sealed trait SinkKind

object SinkKind {

  /** It writes the epoch again, with the same result. */
  case object Plain extends SinkKind

  /** It runs two actions on the epoch. */
  case object Twice extends SinkKind

  /** It skips a repeated epoch without an action. */
  case object Skipping extends SinkKind

  /** It runs an action on some partitions, and skips a repeated epoch then. */
  case object Peeking extends SinkKind

  /** It seals the epoch before it writes. */
  case object Sealing extends SinkKind

  /** It runs an action before it seals the epoch. */
  case object SealingLate extends SinkKind

  /** It skips a repeated epoch without an action. It seals other epochs before it writes. */
  case object SealingOnce extends SinkKind

  /** It stages the rows before it seals, and finishes an epoch that another run has sealed. */
  case object Staging extends SinkKind

  val all: IndexedSeq[SinkKind] =
    IndexedSeq(Plain, Twice, Skipping, Peeking, Sealing, SealingLate, SealingOnce)

  /** Sinks that keep the rows of a batch, because they seal. */
  val keeping: Set[SinkKind] = Set(Sealing, SealingLate, SealingOnce, Staging)

  /** Sinks for checkpoint format 2, with which Spark requires each task of an epoch to run. */
  val ofFormat2: IndexedSeq[SinkKind] = IndexedSeq(Plain, Twice, Sealing, SealingLate)
}

/**
 * One task of a stage, and the stores that each of its attempts opens.
 *
 * @param isCaptured
 *   whether its input rows may stay in flight
 */
final case class SimTask(stores: Seq[StoreId], partition: Int, isCaptured: Boolean) {
  def operator: Long = stores.head.operator
  def channel: StoreId = SimChannel.of(operator.toInt, partition)
}

/**
 * Code and configuration of one start of the query.
 *
 * @param captures
 *   whether rows may stay in flight
 * @param keepsRows
 *   whether the sink keeps the rows of the batch
 */
final case class SimRun(sink: SinkKind, captures: Boolean, keepsRows: Boolean) {

  /** Whether the sink shows no row of an epoch before its seal. */
  def isSealing: Boolean = SinkKind.keeping(sink)
}

/**
 * The query of one run of the simulation.
 *
 * @param isLong
 *   whether it has many epochs, and the least margin for late bases
 * @param tasks
 *   tasks of an epoch, if they are many; the run then has few epochs
 */
final class SimPlan(
    random: Random,
    val isLong: Boolean,
    val rows: SimRows,
    tasks: Option[Int] = None
) {
  val partitions: Int = {
    val drawn = 1 + random.nextInt(3)
    tasks.getOrElse(drawn)
  }

  /** Limit of the tasks that run at the same time. */
  val slots: Int = tasks.fold(Int.MaxValue)(_ => SimPlan.Slots)

  /** Limit of the new rows of an epoch, exclusive. */
  def maxNew: Int = tasks.getOrElse(rows.maxNew)
  val isFormat2: Boolean = random.nextInt(3) == 0

  private val kinds = {
    val possible = if (isFormat2) SinkKind.ofFormat2 else SinkKind.all
    if (rows.isGrouped) possible.filter(SinkKind.keeping) else possible
  }
  val epochs: Long = {
    val drawn = 3L + random.nextInt(9)
    if (tasks.isDefined) SimPlan.FewEpochs else if (isLong) drawn + SimPlan.MoreEpochs else drawn
  }
  val keep: Int = {
    val drawn = 1 + random.nextInt(3)
    if (tasks.isDefined) 1 else drawn
  }

  /** Maximum of the additional epochs that a driver retains. */
  val keepMore: Int = random.nextInt(2)
  val sweepEpochs: Long = 1L + random.nextInt(3)
  val baseMargin: Long = {
    val drawn = random.nextInt(6)
    if (isLong || tasks.isDefined) 1L else 1L + drawn
  }
  val pageSize: Int = if (random.nextBoolean()) 3 else 1000
  val executors: Int = 1 + random.nextInt(3)

  /** Limit of the frames that a driver keeps: some drivers keep few frames, and some none. */
  val budgetBytes: Long =
    SimPlan.Budgets(((epochs + keep + sweepEpochs + baseMargin) % SimPlan.Budgets.size).toInt)

  /** Small pages that are often replaced. */
  val paging: Paging = {
    val drawn = (epochs + 3 * keep + 5 * sweepEpochs + 7 * baseMargin).toInt
    Paging(1 + drawn % 3, epochs = 1 + drawn / 3 % 3, longEpochs = 1 + drawn % 4)
  }

  /** Number of epochs that were committed without cuts before the simulation. */
  val levelZeroEpochs: Long = if (random.nextInt(4) == 0) 1L + random.nextInt(2) else 0L

  /** Tasks by stage; the tasks of a stage run concurrently. */
  val stages: Seq[Seq[SimTask]] = Seq.tabulate(stageCount(random)) { operator =>
    val names = SimPlan.Names(random.nextInt(SimPlan.Names.size))
    val isCaptured = random.nextInt(3) > 0 || rows.isGrouped
    Seq.tabulate(partitions) { partition =>
      SimTask(names.map(StoreId(operator.toLong, partition, _)), partition, isCaptured)
    }
  }

  private def stageCount(random: Random): Int = {
    val drawn = 1 + random.nextInt(2)
    if (tasks.isDefined) 1 else drawn
  }

  val stores: Seq[StoreId] = stages.flatten.flatMap(_.stores)

  /**
   * Whether the checkpoint is on a file system, where a file of the commit log follows each cut.
   */
  val isOnFiles: Boolean = random.nextBoolean()

  /**
   * Whether a driver without cuts died after the sink of the epoch that is the first with a cut.
   */
  val isSeenBefore: Boolean = random.nextInt(4) == 0

  /** Whether each start of the query may have another sink and mode. */
  val isRedeployed: Boolean = random.nextBoolean()

  private val first = draw(random)

  private val started = mutable.Buffer.empty[SimRun]

  def newRun(random: Random): SimRun = {
    val run = if (isRedeployed) draw(random) else first
    started += run
    run
  }

  /** The sinks of all starts of the query so far. */
  def sinks: Set[SinkKind] = started.map(_.sink).toSet

  private def draw(random: Random): SimRun = {
    val drawn = kinds(random.nextInt(kinds.size))
    // Half of the sealing sinks.
    val sink = if (drawn == SinkKind.Sealing && random.nextBoolean()) SinkKind.Staging else drawn
    val captures = !isRedeployed || random.nextInt(4) > 0
    SimRun(sink, captures, keepsRows = !isFormat2 && SinkKind.keeping(sink))
  }

  /**
   * Whether each run reads other rows of an epoch, from the second epoch with a cut on. From there
   * each seal is an object if a channel is captured, and the sink does not read the rows twice.
   */
  val isUnsteady: Boolean =
    !isRedeployed && first.sink == SinkKind.Staging && stages.exists(_.exists(_.isCaptured))

  /** The rows that tasks emit for an epoch without in-flight rows. */
  def rowsOf(from: Int, until: Int): Map[SimTask, Vector[Int]] =
    stages.flatten.map { task =>
      task -> rows.byKey(rows.sorted(rowsOf(task.partition, from, until)))
    }.toMap

  /** The rows of a partition, in the order of its input. */
  def rowsOf(partition: Int, from: Int, until: Int): Vector[Int] =
    (from until until).filter(_ % partitions == partition).map(rows.at).toVector
}

object SimPlan {

  /** A row is its number, plus a multiple of this constant that its run adds. */
  val Numbers: Int = 1000000

  def numberOf(row: Int): Int = row % Numbers

  private val MoreEpochs = 8L
  private val FewEpochs = 2L
  private val Slots = 16
  val Budgets: IndexedSeq[Long] = IndexedSeq(1L << 20, 0L, 1L << 20, 200L)
  private val Names: IndexedSeq[Seq[String]] = IndexedSeq(Seq("default"), Seq("left", "right"))
}
