package io.cleancut.protocol

import io.cleancut.format.cut.Cut
import io.cleancut.conf.Capture

/**
 * Where the epoch that is next stands in its run, as far as its gate decides by it. Events change
 * it by [[EpochState.decide]] and by nothing else; whoever asks for another epoch is told what
 * holds for one of which nothing is known.
 *
 * @param epoch
 *   that is next
 * @param isFirst
 *   of the run
 * @param isHeld
 *   the sink will seal it, and its frames are kept until then
 * @param isSealed
 *   all that its tasks have made is durable, and the sink may show it
 * @param finishing
 *   the seal of an earlier run that its tasks take over, in place of what they make
 * @param isUnclaimed
 *   it follows a cut, and nothing says yet that a seal of an earlier run counts no more
 * @param sealedBefore
 *   the seal that an earlier run has made of it
 */
final private[cleancut] case class EpochState(
    epoch: Long,
    isFirst: Boolean,
    isHeld: Boolean = false,
    isSealed: Boolean = false,
    finishing: Option[Cut] = None,
    isUnclaimed: Boolean = false,
    sealedBefore: Option[Cut] = None
) {
  import EpochState._

  /** In which of its phases between the first task and the cut it is. */
  def phase: Phase =
    if (finishing.isDefined) Finishing
    else if (isSealed) Sealed
    else if (isHeld) Held
    else Open

  /** This, if it is that of `other`; else that of an epoch of which nothing is known. */
  def of(other: Long): EpochState =
    if (other == epoch) this else EpochState(other, isFirst = false)

  /**
   * The run before this one may have looked for its successor in vain, and be about to seal its
   * last epoch with rows in flight. This run begins with the same epoch, aligned, and what it shows
   * of that must not be taken for the other's. Where it holds the epoch, its own seal says so.
   */
  def isToClaim: Boolean = isUnclaimed && (sealedBefore.isDefined || !isHeld)

  /**
   * What a seal is made of.
   *
   * @param hasDecisions
   *   rows of the epoch stay in flight, or were to
   */
  def sealBy(hasDecisions: Boolean): SealBy =
    if (isSealed || sealedBefore.isDefined) SealBy.Look
    else if (isUnclaimed || hasDecisions) SealBy.AnObject
    else SealBy.Look

  /**
   * Whether rows of a channel may stay in flight. Only where the sink seals an epoch has nobody
   * seen it before its rows are decided on. The first epoch of a run may have run before, and been
   * seen, without capture.
   */
  def mayDefer(asked: Capture): Boolean = asked != Capture.Off && !isFirst && isHeld
}

private[cleancut] object EpochState {
  sealed trait Phase
  case object Open extends Phase
  case object Held extends Phase
  case object Sealed extends Phase
  case object Finishing extends Phase

  /** By what others see that an epoch is sealed. */
  sealed trait SealBy
  object SealBy {

    /** A look whether another run owns the query by now. */
    case object Look extends SealBy

    /** An object, which a later owner follows. */
    case object AnObject extends SealBy
  }

  /** What happens to an epoch. */
  sealed trait Event {
    def epoch: Long
  }

  /** The sink will seal it. */
  final case class Hold(epoch: Long) extends Event

  /** An object says that no seal of an earlier run counts, or which. */
  final case class Claim(epoch: Long) extends Event

  /** The sink may show it. */
  final case class Seal(epoch: Long) extends Event

  /** Its tasks are to take over what an earlier run has sealed. */
  final case class Finish(from: Cut) extends Event {
    override def epoch: Long = from.epoch
  }

  /** There is a cut of it. */
  final case class Commit(epoch: Long) extends Event

  /** What is to be done for an event. */
  sealed trait Act
  object Act {
    case object Nothing extends Act

    /** Frames of the epoch are kept from now on. */
    case object KeepFrames extends Act

    /** What was kept for it is let go. */
    case object LetGo extends Act
  }

  /** The first epoch of a run. */
  def first(epoch: Long, followsCut: Boolean, sealedBefore: Option[Cut]): EpochState =
    EpochState(
      epoch,
      isFirst = true,
      isUnclaimed = followsCut,
      sealedBefore = sealedBefore.filter(_.epoch == epoch)
    )

  /** The state after an event, and what is to be done. An event of another epoch is none. */
  def decide(state: EpochState, event: Event): (EpochState, Act) =
    if (event.epoch != state.epoch) (state, Act.Nothing)
    else
      event match {
        case Hold(_) if state.isHeld => (state, Act.Nothing)
        case Hold(_)                 => (state.copy(isHeld = true), Act.KeepFrames)
        case Claim(_)                => (state.copy(isUnclaimed = false), Act.Nothing)
        case Seal(_)                 => (state.copy(isSealed = true), Act.Nothing)
        case Finish(from)            => (state.copy(finishing = Some(from)), Act.Nothing)
        case Commit(epoch)           => (EpochState(epoch + 1, isFirst = false), Act.LetGo)
      }
}
