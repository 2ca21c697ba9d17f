package io.cleancut.coordinator.sim

/**
 * What is broken on purpose, to see whether the simulation finds it.
 *
 * @param signs
 *   what violations say that come of it
 */
sealed abstract class Defect(signs: String*) extends Product with Serializable {
  def shows(violation: String): Boolean = signs.exists(violation.contains)
}

object Defect {
  case object None extends Defect

  /** The bucket takes conditional writes of cuts as if they had no condition. */
  case object NoConditions extends Defect("was committed by", "follows that of")

  /** The coordinator hears of one store of an attempt only. */
  case object NoAttempts extends Defect("has a task of several attempts")

  /** Executors report frames before they are durable. */
  case object EarlyAck extends Defect("which is not there")

  /** Bases may not be adopted late, as far as the sweep knows. */
  case object NoMargin extends Defect("which is not there", "was deleted, which")

  /** A sweep takes segments of bases that were announced, or adopted late. */
  case object NotSpared extends Defect("which is not there", "was deleted, which")

  /** A sink writes without having sealed what it had the coordinator hold. */
  case object NeverSealed extends Defect("could not commit epoch")

  /** Tasks leave the rows of the last cut's channels where they are. */
  case object NotReplayed extends Defect("has lost rows")

  /** An attempt leaves other rows in flight than were decided on, and says that it did not. */
  case object Undecided extends Defect("gave other rows", "the sink got other rows")

  /** An attempt that is done leaves out what it has read of its channels. */
  case object Unreported extends Defect("cannot be committed")

  /**
   * An attempt takes the key at which the epoch before was cut for a key with its second column.
   */
  case object KeySorted extends Defect("out of order", "twice")

  /** An attempt that repeats a decision leaves the first of equal rows in flight. */
  case object FirstEqual extends Defect("out of order", "gave other rows", "got other rows")

  /** A driver that starts again finds no seal of the epoch. */
  case object SealsLost extends Defect("the sink got other rows", "was to show other rows")

  /** A task of an epoch that is finished goes on from what it has made, and not from the seal. */
  case object KeptAsMade extends Defect("has other rows than were shown", "has lost rows")

  /** A sink writes the rows of its own run beside the state that another one has sealed. */
  case object ShownAsMade extends Defect("has other rows than were shown", "was to show other rows")

  /** The query lies on a file system whose rename looks first and renames then. */
  case object SchemeTrusted extends Defect("was committed by", "follows that of")

  /** A run begins its first epoch without claiming it. */
  case object NoClaim extends Defect("the sink has rows")

  /** Runs do not look for a later owner. */
  case object Blind
      extends Defect("failed with", "was committed by", "the sink got other rows", "too many rows")

  /** An entry of the log of offsets replaces that of another run. */
  case object Overwriting extends Defect("was written again with other bytes")

  /** A root names pages that are not there yet. */
  case object EarlyPage extends Defect("which is not there")

  /** A page names merged frames that are not there yet. */
  case object EarlyMerge extends Defect("which is not there")

  /** A root leaves out what no page has. */
  case object ShortWindow extends Defect("has lost rows", "cannot be read", "no base of", "lacks")

  /** A root has all frames of its segments count. */
  case object AllCounted extends Defect("has too many rows", "cannot be read", "two bases of")

  /** A run says that it has ended while it goes on. */
  case object EndedTooEarly extends Defect("failed with")

  /** An act leaves rows in flight where they are. */
  case object ActForgets extends Defect("has lost rows", "lacks")

  /** An operation writes deltas too, so that its frames count where an epoch is recovered. */
  case object ActAsTasks extends Defect("has lost rows", "has too many rows", "lacks")

  /** A cut after that of an act does not list what its bases refer to. */
  case object ReferredForgotten extends Defect("which is not there", "was deleted, which")

  /** A sweep looks over what a cut lists as referred to. */
  case object ReferredUnseen extends Defect("which is not there", "was deleted, which")

  /** An act lists what its sources lie in, and not what these refer to. */
  case object ReferredOnce extends Defect("which is not there", "was deleted, which")

  /** An act refers to a cut that it has found before it owned the query. */
  case object SourceUnchecked extends Defect("which is not there", "was deleted, which")

  /** A sweep does not look whether its run has been followed. */
  case object SweptBeside extends Defect("which is not there", "was deleted, which")

  /** Who gives cuts up by hand does not look for a run that has begun meanwhile. */
  case object ExpiredBeside extends Defect("which is not there", "was deleted, which")

  /** A sweep takes a savepoint that cannot be read for none. */
  case object SavepointSkipped extends Defect("was deleted, which the savepoint")

  /** A sweep knows the creation of such a savepoint by the clock of its own host. */
  case object SavepointByHostClock extends Defect("was deleted, which the savepoint")

  /** A sweep knows the ages of cuts by the clock of its own host. */
  case object AgesByHostClock extends Defect("was deleted before its age")

  /** A sweep begins whether or not another one runs. */
  case object SweepsAtOnce extends Defect("sweeps at once")

  /** A query begins whether or not an act has been finished. */
  case object ActsUnseen extends Defect("too many rows", "the sink has rows", "runs")

  /** Those of acts that copy no rows. */
  val ofReferences: Set[Defect] = Set(
    ReferredForgotten,
    ReferredUnseen,
    ReferredOnce,
    SourceUnchecked,
    SweptBeside,
    ExpiredBeside
  )

  /** Those that show where rows of a key have an order. */
  val ofOrder: Set[Defect] = Set(KeySorted, FirstEqual)

  /** Those of savepoints that cannot be read. */
  val ofSavepoints: Set[Defect] = Set(SavepointSkipped, SavepointByHostClock)

  /** Those of acts on the checkpoint. */
  val ofActs: Set[Defect] = Set[Defect](ActForgets, ActAsTasks, ActsUnseen) ++ ofReferences

  /** Those that show where two runs plan one epoch. */
  val ofOffsets: Set[Defect] = Set(Overwriting, EndedTooEarly)

  val all: Seq[Defect] =
    Seq(NoConditions, SchemeTrusted, NoAttempts, EarlyAck, NoMargin, NotSpared, NeverSealed) ++
      Seq(NotReplayed, Undecided, Unreported, KeySorted, FirstEqual) ++
      Seq(SealsLost, KeptAsMade, ShownAsMade) ++
      Seq(
        NoClaim,
        Blind,
        Overwriting,
        EndedTooEarly,
        EarlyPage,
        EarlyMerge,
        ShortWindow,
        AllCounted
      ) ++ ofActs ++ ofSavepoints ++ Seq(AgesByHostClock, SweepsAtOnce)
}
