package io.cleancut.coordinator

import org.slf4j.LoggerFactory

import io.cleancut.base.StoreId
import io.cleancut.coordinator.state.{EarlierRuns, QueryRun}
import io.cleancut.format.StoreCut
import io.cleancut.format.cut.Cut
import io.cleancut.protocol.{CommitEntry, EpochPlan}

/**
 * Finds the chains of an epoch's cut, from the sources in [[CommitSources.inOrder]].
 *
 * The frames of the epoch's tasks are durable before these tasks finish, and the tasks finish
 * before the sink does. So frames that this run lacks were written by an earlier run of the epoch,
 * whose output the sink has. If nothing of that run is left, the tasks have to run again.
 *
 * Without state; requests are made without the lock of the [[RunRegistry]].
 */
final private[coordinator] class CommitSources(
    runs: RunRegistry,
    stores: EpochStores,
    finisher: EpochFinisher
) {
  import CommitSources._
  import runs.archive

  /**
   * The chains after an epoch.
   *
   * @param entry
   *   Spark's own entry for the commit log
   * @param plan
   *   the tasks of the epoch, if they can be run here; evaluated only if some have not run
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_EPOCH_INCOMPLETE, CLEANCUT_FENCED
   */
  def find(run: QueryRun, epoch: Long, entry: String, plan: => Option[EpochPlan]): Seq[StoreCut] = {
    val request = new Request(run, epoch, entry, () => plan)
    inOrder.iterator
      .flatMap(source => source(request))
      .nextOption()
      .getOrElse(stores.await(run, epoch, () => request.collect()))
  }

  private type Source = Request => Option[Seq[StoreCut]]

  private def inOrder: Seq[Source] =
    Seq(fromSeal(_), fromThisRun(_), fromSealedRun(_), fromEarlierRun(_), fromPlan(_))

  /** The seal of an earlier run, if the epoch is finished from it. */
  private def fromSeal(request: Request) =
    request.finishing.map(finisher.finished(request.run, _, request.entry))

  /**
   * The frames that this run has collected. If Spark counts versions, only counted versions are
   * used.
   */
  private def fromThisRun(request: Request) =
    if (request.isSure || request.isCounted) request.reported.toOption else None

  /**
   * The seal of an earlier run: the sink has published the epoch, and none of its tasks ran again.
   */
  private def fromSealedRun(request: Request) =
    if (request.isCounted || request.reported.isRight) None else request.sealedStores

  /** The frames that an earlier run or this one has made durable, if they are complete. */
  private def fromEarlierRun(request: Request) =
    if (request.isCounted) None
    else {
      def isWhole(stores: Seq[StoreCut]) = request.plan.forall(_.isWhole(stores))
      choose(request.reported, earlierRuns(request.run, request.epoch), isWhole)
    }

  /** The tasks, which run again. */
  private def fromPlan(request: Request) =
    if (request.isCounted) None
    else {
      // Garbage collection of a later owner may have deleted the missing frames.
      runs.checkOwner(request.run, request.epoch)
      request.plan.foreach { tasks =>
        logger.info(
          s"Runs epoch ${request.epoch} of ${archive.location}, because its sink skipped it"
        )
        tasks.run()
      }
      request.collect().toOption
    }

  private def earlierRuns(run: QueryRun, epoch: Long): Closed = {
    // For its own tasks, a run knows more than their segments contain.
    val (cut, tasks, segments) = runs.locked {
      val collected = Option(run.ledger.epoch).filter(_.epoch == epoch)
      (run.ledger.lastCut, collected.toSeq.flatMap(_.tasks.map(_.toSet)), collected.map(_.segments))
    }
    val others = archive.segments.ofEpoch(epoch, segments.getOrElse(Set.empty))
    new EarlierRuns(epoch, cut, others, run.id.runId, tasks).close()
  }

  /** The epoch that a commit completes, and the frames known for it. */
  final private class Request(
      val run: QueryRun,
      val epoch: Long,
      val entry: String,
      plannedBy: () => Option[EpochPlan]
  ) {
    private val counted = CommitEntry.countedIds(entry)

    lazy val plan: Option[EpochPlan] = plannedBy()

    val finishing: Option[Cut] = runs.locked(run.at(epoch).finishing)

    lazy val reported: Closed = collect()

    /** Whether Spark names the versions that count. */
    def isCounted: Boolean = counted.isDefined

    /** Without an earlier cut, only tasks define the set of stores, and some may not have run. */
    lazy val isSure: Boolean =
      reported.isRight && runs.locked(
        run.ledger.lastCut.isDefined || run.ledger.operation.exists(_.settled.nonEmpty)
      )

    def sealedStores: Option[Seq[StoreCut]] =
      runs.locked(run.at(epoch).sealedBefore).map(_.stores)

    def collect(): Closed = stores.closed(run, epoch, counted)
  }
}

private[coordinator] object CommitSources {
  private val logger = LoggerFactory.getLogger(classOf[QueryCoordinator])

  /** The stores of an epoch, or the missing ones. */
  private type Closed = Either[Set[StoreId], Seq[StoreCut]]

  /** Returns the complete one of this run and an earlier run. */
  def choose(
      reported: Closed,
      earlier: Closed,
      isWhole: Seq[StoreCut] => Boolean
  ): Option[Seq[StoreCut]] = {
    // An empty result is no evidence if this run has seen a task.
    val before =
      earlier.toOption.filter(stores => isWhole(stores) && (stores.nonEmpty || reported.isRight))
    (reported.toOption.filter(isWhole), before) match {
      case (Some(current), Some(other)) if current.size < other.size => before
      case (current, _)                                              => current.orElse(before)
    }
  }
}
