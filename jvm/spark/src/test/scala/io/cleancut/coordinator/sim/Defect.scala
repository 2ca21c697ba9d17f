package io.cleancut.coordinator.sim

/**
 * A planted defect that the simulation must find.
 *
 * @param signs
 *   phrases in the violations that the defect causes
 */
sealed abstract class Defect(signs: String*) extends Product with Serializable {
  def shows(violation: String): Boolean = signs.exists(violation.contains)
}

object Defect {
  case object None extends Defect

  /** The bucket ignores the condition of conditional writes of cuts. */
  case object NoConditions extends Defect("was committed by", "follows that of")

  /** An attempt registers only one of its stores. */
  case object NoAttempts extends Defect("has a task of several attempts")

  /** Executors report frames before they are durable. */
  case object EarlyAck extends Defect("which is not there")

  /** Garbage collection has no margin for late bases. */
  case object NoMargin extends Defect("which is not there", "was deleted, which")

  /** Garbage collection deletes segments of bases that were announced or adopted late. */
  case object NotSpared extends Defect("which is not there", "was deleted, which")

  /** A sink writes an epoch that the coordinator holds without sealing it. */
  case object NeverSealed extends Defect("could not commit epoch")

  /** Tasks do not replay the in-flight rows of the last cut. */
  case object NotReplayed extends Defect("has lost rows")

  /** An attempt leaves other in-flight rows than the decision has, and reports the decision. */
  case object Undecided extends Defect("emitted other rows", "the sink got other rows")

  /** An attempt that is done does not report its channels. */
  case object Unreported extends Defect("cannot be committed")

  /** An attempt merges in-flight rows by key and second column, not by key. */
  case object KeySorted extends Defect("out of order", "twice")

  /** An attempt that repeats a decision defers the first of equal rows. */
  case object FirstEqual extends Defect("out of order", "emitted other rows", "got other rows")

  /** A restarted driver does not find the seal of the epoch. */
  case object SealsLost extends Defect("the sink got other rows", "was to show other rows")

  /** A task of a finished epoch continues from its own version, not from that of the seal. */
  case object KeptAsMade extends Defect("has other rows than were shown", "has lost rows")

  /** A sink publishes the rows of its own run with the state that another run has sealed. */
  case object ShownAsMade extends Defect("has other rows than were shown", "was to show other rows")

  /** The checkpoint is on a file system whose rename checks first and renames later. */
  case object SchemeTrusted extends Defect("was committed by", "follows that of")

  /** A run begins its first epoch without claiming it. */
  case object NoClaim extends Defect("the sink has rows")

  /** Runs do not check for a later owner. */
  case object Blind
      extends Defect("failed with", "was committed by", "the sink got other rows", "too many rows")

  /** An entry of the offset log replaces that of another run. */
  case object Overwriting extends Defect("was written again with other bytes")

  /** A cut references pages that do not exist yet. */
  case object EarlyPage extends Defect("which is not there")

  /** A page references merged frames that do not exist yet. */
  case object EarlyMerge extends Defect("which is not there")

  /** A cut omits window parts that are in no page. */
  case object ShortWindow extends Defect("has lost rows", "cannot be read", "no base of", "lacks")

  /** A cut counts all frames of its segments. */
  case object AllCounted extends Defect("has too many rows", "cannot be read", "two bases of")

  /** A run writes its end marker and continues. */
  case object EndedTooEarly extends Defect("failed with")

  /** An operation drops the in-flight rows. */
  case object OperationForgets extends Defect("has lost rows", "lacks")

  /** An operation also writes deltas, so its frames count when an epoch is recovered. */
  case object OperationAsTasks extends Defect("has lost rows", "has too many rows", "lacks")

  /** A cut after that of an operation does not list the segments that its bases refer to. */
  case object ReferredForgotten extends Defect("which is not there", "was deleted, which")

  /** Garbage collection ignores the referred segments of a cut. */
  case object ReferredUnseen extends Defect("which is not there", "was deleted, which")

  /** An operation lists the segments of its sources, and not the segments that these refer to. */
  case object ReferredOnce extends Defect("which is not there", "was deleted, which")

  /** An operation refers to a cut that it has read before it owned the query. */
  case object SourceUnchecked extends Defect("which is not there", "was deleted, which")

  /** Garbage collection does not check whether its run is fenced. */
  case object CollectedWhenFenced extends Defect("which is not there", "was deleted, which")

  /** A manual expiry does not check for a run that has begun since. */
  case object ExpiredWhenFenced extends Defect("which is not there", "was deleted, which")

  /** Garbage collection ignores a savepoint that cannot be read. */
  case object SavepointSkipped extends Defect("was deleted, which the savepoint")

  /** Garbage collection compares the creation of such a savepoint with the clock of its host. */
  case object SavepointByHostClock extends Defect("was deleted, which the savepoint")

  /** Garbage collection computes the ages of cuts by the clock of its host. */
  case object AgesByHostClock extends Defect("was deleted before its age")

  /** Garbage collection starts while another one runs. */
  case object SweepsAtOnce extends Defect("sweeps at once")

  /** A query starts after an incomplete operation. */
  case object OperationsUnseen extends Defect("too many rows", "the sink has rows", "runs")

  /** A run uses lists of Spark's logs that it has requested before it owned the query. */
  case object ListBeforeOwning
      extends Defect("without the entry before it", "failed with", "could not commit epoch")

  /** A run relies on the absence of an entry that another run could still create. */
  case object AbsenceKept extends Defect("CLEANCUT_OFFSET_LOG_CONFLICT")

  /** A run uses what an earlier run of its process has read ahead. */
  case object ReadForEarlierRun extends Defect("failed with", "could not commit epoch")

  /** Tasks and the sink do not wait for the entry of the offset log. */
  case object EntryUnawaited
      extends Defect("got other rows", "other rows of epoch", "too many rows", "has lost rows")

  /** A run records its end while its entry of the offset log is being written. */
  case object EndedBeforeEntry extends Defect("failed with")

  /** The entry and the seal of the next epoch do not wait for the cut. */
  case object CutUnawaited extends Defect("is planned after epoch", "is shown after epoch")

  /** The entry of the next epoch does not wait for the cut. */
  case object EntryBeforeCut extends Defect("is planned after epoch")

  /** The sink shows an epoch before the cut of the one before exists. */
  case object SealUnawaited extends Defect("is shown after epoch")

  /** A run does not check ownership after a cut that is written while the next epoch runs. */
  case object CutUnchecked
      extends Defect("failed with", "was accepted after", "other rows", "committed by")

  /** A run records its end while its cut is being written. */
  case object EndedBeforeCut extends Defect("failed with", "committed by", "other rows")

  /** A run that has waited for the run before does not record that it takes the query. */
  case object TakeoverUnwritten
      extends Defect("failed with", "was committed by", "other rows", "too many rows")

  /** A run that has waited lists the cuts before it takes the query. */
  case object TakeoverLate
      extends Defect("failed with", "was committed by", "other rows", "too many rows")

  /** A run with a successor does not check whether that has taken the query. */
  case object TakeoverUnseen
      extends Defect("failed with", "was committed by", "other rows", "too many rows")

  /** A run with a successor does not check for an owner after that. */
  case object LaterOwnerUnseen
      extends Defect("failed with", "was committed by", "other rows", "too many rows")

  /** Defects of handovers. */
  val ofHandovers: Set[Defect] =
    Set(TakeoverUnwritten, TakeoverLate, TakeoverUnseen, LaterOwnerUnseen)

  /** Defects of cuts that are written while the next epoch runs. */
  val ofPipelining: Set[Defect] =
    Set(CutUnawaited, EntryBeforeCut, SealUnawaited, CutUnchecked, EndedBeforeCut)

  /** Defects of entries of the offset log that are written concurrently with their epochs. */
  val ofEntries: Set[Defect] = Set(EntryUnawaited, EndedBeforeEntry)

  /** Defects of operations that copy no rows. */
  val ofReferences: Set[Defect] = Set(
    ReferredForgotten,
    ReferredUnseen,
    ReferredOnce,
    SourceUnchecked,
    CollectedWhenFenced,
    ExpiredWhenFenced
  )

  /** Defects that show if the rows of a key have an order. */
  val ofOrder: Set[Defect] = Set(KeySorted, FirstEqual)

  /** Defects of savepoints that cannot be read. */
  val ofSavepoints: Set[Defect] = Set(SavepointSkipped, SavepointByHostClock)

  /** A run records its end although its entry of the offset log may still appear. */
  case object EndedAfterFailure extends Defect("failed with", "records its end")

  /** Defects of operations on the checkpoint. */
  val ofOperations: Set[Defect] =
    Set[Defect](OperationForgets, OperationAsTasks, OperationsUnseen) ++ ofReferences

  /** Defects that show if two runs plan one epoch. */
  val ofOffsets: Set[Defect] =
    Set(Overwriting, EndedTooEarly, AbsenceKept, EndedBeforeEntry, EndedBeforeCut)

  /** Defects of reading ahead, which show if other runs continue meanwhile. */
  val ofReadAhead: Set[Defect] = Set(ListBeforeOwning, AbsenceKept, ReadForEarlierRun)

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
      ) ++ ofOperations ++ ofSavepoints ++ Seq(AgesByHostClock, SweepsAtOnce) ++
      ofReadAhead ++ ofEntries ++ Seq(EndedAfterFailure) ++ ofPipelining ++ ofHandovers
}
