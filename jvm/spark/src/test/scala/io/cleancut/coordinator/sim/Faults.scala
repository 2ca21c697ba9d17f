package io.cleancut.coordinator.sim

import scala.collection.mutable
import scala.util.Random

/** What is injected, and how often it was. */
sealed abstract class Fault(val name: String) extends Product with Serializable

object Fault {
  case object Throttled extends Fault("throttled")
  case object FailedBefore extends Fault("request failed before its effect")
  case object LostAnswer extends Fault("answer lost after the effect")
  case object SlowSeal extends Fault("seal took long")
  case object LateWrite extends Fault("write took effect late")
  case object WriteOfTheDead extends Fault("write of a dead process took effect")
  case object MessageTwice extends Fault("message delivered twice")
  case object LostReply extends Fault("reply to a message lost")
  case object LostFailure extends Fault("report of a failed attempt lost")
  case object LostArrival extends Fault("news of a channel read to its end lost")
  case object AttemptFailed extends Fault("attempt failed")
  case object FailedBehind extends Fault("attempt failed behind rows that are kept")
  case object Speculation extends Fault("speculative attempt")
  case object TaskAgain extends Fault("finished task run again")
  case object FrozenBeforeSeal extends Fault("driver frozen before its seal while another one ran")
  case object StoppedBehindSeal extends Fault("query stopped between seal and sink")
  case object StoppedBeforeCommit extends Fault("query stopped between sink and commit")
  case object StoppedBehindCut extends Fault("query stopped between cut and entry")
  case object DriverCrash extends Fault("driver crashed")
  case object ExecutorCrash extends Fault("executor crashed")
  case object Zombie extends Fault("driver replaced while alive")
  case object RunAgain extends Fault("query restarted in its driver")
  case object Maintenance extends Fault("base by maintenance")
  case object LongUpload extends Fault("upload of a base that spans epochs")
  case object Pin extends Fault("cut pinned")
  case object SecondAction extends Fault("second action")
  case object SkippedSink extends Fault("sink skipped the epoch")
  case object PartialAction extends Fault("action on some partitions")
  case object Seal extends Fault("epoch sealed")
  case object PlanRun extends Fault("epoch run by the gate")
  case object CutNow extends Fault("epoch cut by hand")
  case object LeftInFlight extends Fault("rows left in flight by an attempt")
  case object Replay extends Fault("rows in flight read again")
  case object Followed extends Fault("attempt that follows a decision")
  case object FollowedSeal extends Fault("epoch that follows a seal")
  case object Finished extends Fault("epoch finished from its seal")
  case object UnsaidEnd extends Fault("run ended without a word")
  case object Adopted extends Fault("epoch committed by a run before")
  case object Fence extends Fault("epoch planned against a run before")
  case object RolledForward extends Fault("entry written behind its cut by the next run")
  case object Act extends Fault("act on the checkpoint")
  case object ActBeside extends Fault("act while a driver lives")
  case object ActBetween extends Fault("act while no driver runs")
  case object ActStopped extends Fault("act stopped between its entry and its cut")
  case object ActLeft extends Fault("operation killed before its entry")
  case object SkippedLeftover extends Fault("sink skipped an epoch of a killed operation")
  case object ActRefused extends Fault("act refused")
  case object ActBehindAct extends Fault("act behind one that was not done")
  case object ActInFlight extends Fault("act that took rows in flight along")
  case object ActByReference extends Fault("act that copied no rows")
  case object ActBack extends Fault("act that went back to an earlier cut or a savepoint")
  case object ActBehindReference extends Fault("act on bases that refer themselves")
  case object Expiry extends Fault("cuts given up by hand")
  case object ExpiryStopped extends Fault("cuts given up by hand while a run began")
  case object StalledSweep extends Fault("sweep stopped while an act referred to what it deletes")
  case object StartSweep extends Fault("sweep at the start of a run")
  case object SlowListing extends Fault("listing of segments took long")
  case object UnreadableSavepoint extends Fault("savepoint not readable by a sweep")
  case object UnreadablePage extends Fault("page not readable by a sweep")
  case object LeftByAct extends Fault("start of the query behind an act that was not done")

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
    FailedBehind,
    Speculation,
    TaskAgain,
    FrozenBeforeSeal,
    StoppedBehindSeal,
    StoppedBeforeCommit,
    StoppedBehindCut,
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
    UnsaidEnd,
    Adopted,
    Fence,
    CutNow,
    LeftInFlight,
    Replay,
    Followed,
    FollowedSeal,
    Finished,
    Act,
    ActBeside,
    ActBetween,
    ActStopped,
    ActLeft,
    SkippedLeftover,
    ActRefused,
    ActBehindAct,
    ActInFlight,
    ActByReference,
    ActBack,
    ActBehindReference,
    Expiry,
    ExpiryStopped,
    LeftByAct,
    StalledSweep,
    StartSweep,
    SlowListing,
    UnreadableSavepoint,
    UnreadablePage
  )
}

/**
 * Draws faults. Each run has rates of its own, zero for some kinds, so that rare combinations are
 * not drowned in frequent ones; after [[calm]] none comes.
 */
final class Faults(random: Random) {
  import Faults._

  private val rates = mutable.Map.empty[Fault, Double]
  private val counts = mutable.LinkedHashMap.empty[Fault, Int]
  private var isCalm = false
  private var left = MaxFaults

  def calm(): Unit = isCalm = true

  /** Whether it strikes now; `factor` is how much likelier it is than usual. */
  def strikes(fault: Fault, factor: Double = 1.0): Boolean = {
    val rate = rates.getOrElseUpdate(fault, Rates(random.nextInt(Rates.size)))
    val isStruck = !isCalm && left > 0 && random.nextDouble() < rate * factor
    if (isStruck) {
      left -= 1
      count(fault)
    }
    isStruck
  }

  /** Notes what the simulated query did of itself. */
  def count(fault: Fault): Unit =
    counts(fault) = counts.getOrElse(fault, 0) + 1

  def struck: Map[Fault, Int] = counts.toMap
}

private object Faults {
  private val Rates = IndexedSeq(0.0, 0.0, 0.005, 0.02, 0.1)
  private val MaxFaults = 60
}
