package io.cleancut.coordinator.sim

import scala.collection.mutable
import scala.util.Random

/** A fault that the simulation injects, or an event that it counts. */
sealed abstract class Fault(val name: String) extends Product with Serializable

object Fault {
  case object Throttled extends Fault("throttled")
  case object FailedBefore extends Fault("request failed before its effect")
  case object LostAnswer extends Fault("response lost after the effect")
  case object SlowSeal extends Fault("seal took long")
  case object LateWrite extends Fault("write took effect late")
  case object WriteOfTheDead extends Fault("write of a dead process took effect")
  case object MessageTwice extends Fault("message delivered twice")
  case object LostReply extends Fault("reply to a message lost")
  case object LostFailure extends Fault("report of a failed attempt lost")
  case object LostArrival extends Fault("arrival of a channel lost")
  case object AttemptFailed extends Fault("attempt failed")
  case object FailedAfterRows extends Fault("attempt failed after its rows were kept")
  case object Speculation extends Fault("speculative attempt")
  case object TaskAgain extends Fault("finished task run again")
  case object FrozenBeforeSeal
      extends Fault("driver frozen before its seal while another driver ran")
  case object ConcurrentEntry extends Fault("entry written concurrently with its epoch")
  case object PipelinedCut extends Fault("next epoch begun before the cut")
  case object Handover extends Fault("run ended for its successor")
  case object Takeover extends Fault("query taken by a run that had waited")
  case object StoppedAfterPlan extends Fault("query stopped before the tasks of its epoch")
  case object StoppedAfterSeal extends Fault("query stopped between seal and sink")
  case object StoppedBeforeCommit extends Fault("query stopped between sink and commit")
  case object StoppedAfterCut extends Fault("query stopped between cut and entry")
  case object DriverCrash extends Fault("driver crashed")
  case object ExecutorCrash extends Fault("executor crashed")
  case object Zombie extends Fault("driver replaced while alive")
  case object RunAgain extends Fault("query restarted in its driver")
  case object Maintenance extends Fault("base by maintenance")
  case object LongUpload extends Fault("upload of a base that spans epochs")
  case object Pin extends Fault("savepoint created")
  case object SecondAction extends Fault("second action")
  case object SkippedSink extends Fault("sink skipped the epoch")
  case object PartialAction extends Fault("action on some partitions")
  case object Seal extends Fault("epoch sealed")
  case object PlanRun extends Fault("epoch run in the commit")
  case object CutNow extends Fault("epoch cut by hand")
  case object LeftInFlight extends Fault("rows left in flight by an attempt")
  case object Replay extends Fault("in-flight rows replayed")
  case object Followed extends Fault("attempt that follows a decision")
  case object FollowedSeal extends Fault("epoch that follows a seal")
  case object Finished extends Fault("epoch finished from its seal")
  case object UnmarkedEnd extends Fault("run ended without an end marker")
  case object Adopted extends Fault("epoch of an earlier run adopted")
  case object Fence extends Fault("epoch without input planned after a live run")
  case object RolledForward extends Fault("commit entry written by the next run")
  case object Operation extends Fault("operation on the checkpoint")
  case object OperationWithDriver extends Fault("operation while a driver is alive")
  case object OperationWithoutDriver extends Fault("operation while no driver runs")
  case object OperationStopped extends Fault("operation stopped between its entry and its cut")
  case object OperationKilled extends Fault("operation killed before its entry")
  case object SkippedLeftover extends Fault("sink skipped an epoch of a killed operation")
  case object OperationRefused extends Fault("operation refused")
  case object OperationAfterIncomplete extends Fault("operation after an incomplete operation")
  case object OperationInFlight extends Fault("operation that copied in-flight rows")
  case object OperationByReference extends Fault("operation that copied no rows")
  case object Rollback extends Fault("rollback to an earlier cut or a savepoint")
  case object OperationOnReferences extends Fault("operation on referring bases")
  case object Expiry extends Fault("cuts expired manually")
  case object ExpiryStopped extends Fault("cuts expired manually while a run began")
  case object StalledSweep
      extends Fault("garbage collection stopped while an operation referred to its cuts")
  case object StartSweep extends Fault("garbage collection at the start of a run")
  case object SlowListing extends Fault("listing of segments took long")
  case object UnreadableSavepoint extends Fault("savepoint not readable by garbage collection")
  case object UnreadablePage extends Fault("page not readable by garbage collection")
  case object ReadAhead extends Fault("logs read ahead at the start of a run")
  case object SlowStart extends Fault("run waited after it had read ahead")
  case object StartAfterIncomplete extends Fault("start of the query after an incomplete operation")

  val all: Seq[Fault] = Seq(
    Throttled,
    FailedBefore,
    LostAnswer,
    SlowSeal,
    LateWrite,
    WriteOfTheDead,
    MessageTwice,
    LostReply,
    LostFailure,
    LostArrival,
    AttemptFailed,
    FailedAfterRows,
    Speculation,
    TaskAgain,
    FrozenBeforeSeal,
    ConcurrentEntry,
    PipelinedCut,
    Handover,
    Takeover,
    StoppedAfterPlan,
    StoppedAfterSeal,
    StoppedBeforeCommit,
    StoppedAfterCut,
    DriverCrash,
    ExecutorCrash,
    Zombie,
    RunAgain,
    Maintenance,
    LongUpload,
    Pin,
    SecondAction,
    SkippedSink,
    PartialAction,
    Seal,
    PlanRun,
    RolledForward,
    ReadAhead,
    SlowStart,
    UnmarkedEnd,
    Adopted,
    Fence,
    CutNow,
    LeftInFlight,
    Replay,
    Followed,
    FollowedSeal,
    Finished,
    Operation,
    OperationWithDriver,
    OperationWithoutDriver,
    OperationStopped,
    OperationKilled,
    SkippedLeftover,
    OperationRefused,
    OperationAfterIncomplete,
    OperationInFlight,
    OperationByReference,
    Rollback,
    OperationOnReferences,
    Expiry,
    ExpiryStopped,
    StartAfterIncomplete,
    StalledSweep,
    StartSweep,
    SlowListing,
    UnreadableSavepoint,
    UnreadablePage
  )
}

/**
 * Draws faults. Each run has its own rates, zero for some kinds, so that frequent faults do not
 * hide rare combinations. No fault strikes after [[calm]].
 */
final class Faults(random: Random) {
  import Faults._

  private val rates = mutable.Map.empty[Fault, Double]
  private val counts = mutable.LinkedHashMap.empty[Fault, Int]
  private var isCalm = false
  private var left = MaxFaults

  def calm(): Unit = isCalm = true

  /** Whether a fault strikes now; `factor` multiplies its rate. */
  def strikes(fault: Fault, factor: Double = 1.0): Boolean = {
    val rate = rates.getOrElseUpdate(fault, Rates(random.nextInt(Rates.size)))
    val isStruck = !isCalm && left > 0 && random.nextDouble() < rate * factor
    if (isStruck) {
      left -= 1
      count(fault)
    }
    isStruck
  }

  /** Counts an event of the simulated query. */
  def count(fault: Fault): Unit =
    counts(fault) = counts.getOrElse(fault, 0) + 1

  def struck: Map[Fault, Int] = counts.toMap
}

private object Faults {
  private val Rates = IndexedSeq(0.0, 0.0, 0.005, 0.02, 0.1)
  private val MaxFaults = 60
}
