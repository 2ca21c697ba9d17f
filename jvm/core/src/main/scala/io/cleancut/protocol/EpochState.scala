package io.cleancut.protocol

import io.cleancut.format.cut.Cut
import io.cleancut.conf.Capture

/**
 * The state of the next epoch in its run: the part that its commit depends on. Only events change
 * it, by [[EpochState.decide]]. For other epochs it has the state of an unknown epoch.
 *
 * @param epoch
 *   the next epoch
 * @param isFirst
 *   whether it is the first epoch of the run
 * @param followsSealed
 *   whether its run has sealed the epoch before
 * @param isHeld
 *   whether the sink will seal it, so that its frames are held until then
 * @param isSealed
 *   whether the frames of its tasks are durable, and the sink may publish
 * @param finishing
 *   seal of an earlier run that its tasks take over instead of their results
 * @param isUnclaimed
 *   whether it follows a cut, and no object states yet that seals of earlier runs do not count
 * @param sealedBefore
 *   seal of an earlier run for this epoch
 */
final private[cleancut] case class EpochState(
    epoch: Long,
    isFirst: Boolean,
    followsSealed: Boolean = false,
    isHeld: Boolean = false,
    isSealed: Boolean = false,
    finishing: Option[Cut] = None,
    isUnclaimed: Boolean = false,
    sealedBefore: Option[Cut] = None
) {
  import EpochState._

  /** The phase between the first task and the cut. */
  def phase: Phase =
    if (finishing.isDefined) Finishing
    else if (isSealed) Sealed
    else if (isHeld) Held
    else Open

  /** This state, if it belongs to `other`; otherwise the state of an unknown epoch. */
  def of(other: Long): EpochState =
    if (other == epoch) this else EpochState(other, isFirst = false)

  /**
   * The previous run may have checked for its successor before this run began, and be about to seal
   * its last epoch with in-flight rows. This run begins with the same epoch, aligned, and its
   * output must not be taken for that of the previous run. If this run holds the epoch, its seal is
   * sufficient.
   */
  def isToClaim: Boolean = isUnclaimed && (sealedBefore.isDefined || !isHeld)

  /**
   * How the epoch is sealed.
   *
   * @param hasDecisions
   *   whether there are decisions on rows of the epoch
   */
  def sealMethod(hasDecisions: Boolean): SealMethod =
    if (isSealed || sealedBefore.isDefined) SealMethod.OwnerCheck
    else if (isUnclaimed || hasDecisions) SealMethod.SealObject
    else SealMethod.OwnerCheck

  /**
   * Whether the next epoch may begin while its cut is being written. The first epoch of a run may
   * find the cut of an earlier run, from which the next epoch continues.
   */
  def mayCommitLater: Boolean = isSealed && !isFirst

  /**
   * Whether rows of a shuffle input may stay in flight. Only if the sink seals an epoch, its output
   * is invisible before its rows are decided on. The first epoch of a run may have run before
   * without capture, and be visible.
   */
  def mayDefer(capture: Capture): Boolean = capture != Capture.Off && !isFirst && isHeld
}

private[cleancut] object EpochState {
  sealed trait Phase
  case object Open extends Phase
  case object Held extends Phase
  case object Sealed extends Phase
  case object Finishing extends Phase

  /** How other runs recognize that an epoch is sealed. */
  sealed trait SealMethod
  object SealMethod {

    /** By a check that no other run owns the query. */
    case object OwnerCheck extends SealMethod

    /** By an object, which a later owner follows. */
    case object SealObject extends SealMethod
  }

  /** An event of an epoch. */
  sealed trait Event {
    def epoch: Long
  }

  /** The sink will seal it. */
  final case class Hold(epoch: Long) extends Event

  /** An object states which seal of an earlier run counts, if any. */
  final case class Claim(epoch: Long) extends Event

  /** The sink may publish it. */
  final case class Seal(epoch: Long) extends Event

  /** Its tasks take over the versions that an earlier run has sealed. */
  final case class Finish(from: Cut) extends Event {
    override def epoch: Long = from.epoch
  }

  /** It has a cut. */
  final case class Commit(epoch: Long) extends Event

  /** The effect of an event. */
  sealed trait Act
  object Act {
    case object Nothing extends Act

    /** Holds frames of the epoch from now on. */
    case object KeepFrames extends Act

    /** Releases the held frames. */
    case object CloseEpoch extends Act
  }

  /** The first epoch of a run. */
  def first(epoch: Long, followsCut: Boolean, sealedBefore: Option[Cut]): EpochState =
    EpochState(
      epoch,
      isFirst = true,
      isUnclaimed = followsCut,
      sealedBefore = sealedBefore.filter(_.epoch == epoch)
    )

  /** The state after an event, and its effect. Events of other epochs have none. */
  def decide(state: EpochState, event: Event): (EpochState, Act) =
    if (event.epoch != state.epoch) (state, Act.Nothing)
    else
      event match {
        case Hold(_) if state.isHeld => (state, Act.Nothing)
        case Hold(_)                 => (state.copy(isHeld = true), Act.KeepFrames)
        case Claim(_)                => (state.copy(isUnclaimed = false), Act.Nothing)
        case Seal(_)                 => (state.copy(isSealed = true), Act.Nothing)
        case Finish(from)            => (state.copy(finishing = Some(from)), Act.Nothing)
        case Commit(epoch)           =>
          val next = EpochState(epoch + 1, isFirst = false, followsSealed = state.isSealed)
          (next, Act.CloseEpoch)
      }
}
