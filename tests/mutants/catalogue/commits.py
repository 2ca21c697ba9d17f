"""The coordinator: ownership, seals, cuts, and the collection of garbage."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, mutants_of

_CORE = "jvm/core/src/main/scala/io/cleancut"
_COORDINATOR = f"{_CORE}/coordinator"

_SIMULATION = (
    "CutSimulationSuite::no epoch is lost, duplicated or committed by two runs despite all faults"
)
_LEDGER_SUITES = (
    "QueryLedgerSuite",
    "EpochChannelsSuite",
    "CutWindowSuite",
    "ReferredSegmentsSuite",
    _SIMULATION,
)
_RUN_SUITES = (
    "QueryCoordinatorSuite",
    "SuccessorSuite",
    "SealedEpochSuite",
    "FinishedEpochSuite",
    "SkippedEpochSuite",
    _SIMULATION,
)
_SWEEP_SUITES = (
    "QueryCoordinatorSuite",
    "SuccessorSuite",
    "ReferredSegmentsSuite",
    "GarbageCollectorSuite",
    _SIMULATION,
)

MUTANTS: Sequence[Mutant] = [
    *mutants_of(
        "commit protocol",
        f"{_COORDINATOR}/state/QueryLedger.scala",
        _LEDGER_SUITES,
        (
            "a task of another epoch opens a store",
            "    if (version != last + 1) Left(notOpen(version))",
            "    if (false) Left(notOpen(version))",
        ),
        (
            "a store that the cut lacks needs no snapshot",
            "needsBase = version > 0 && known.isEmpty",
            "needsBase = false",
        ),
        (
            "W6: frames of another epoch count",
            "    else if (epoch == last + 1) pending.ack(frame)",
            "    else if (true) pending.ack(frame)",
        ),
        (
            "I4: a plan that does not read in-flight rows opens the store",
            "            .filterNot(pending.channels.hasOpened(attempt, _))",
            "            .filter(_ => false)",
        ),
        (
            "W1: a task opens only the stores that it names",
            "        .flatMap(_.ofTask(operator, partition))\n        .map(_.store)\n"
            "        .filterNot(Channels.isChannel)",
            "        .flatMap(_.ofTask(operator, partition))\n        .map(_.store)\n"
            "        .filter(_ => false)",
        ),
        (
            "D2: an attempt that repeats a decision does not report",
            "channel, mayDefer || follows)",
            "channel, mayDefer)",
        ),
        (
            "references of retained cuts are forgotten",
            "known.filter(reference => bases.mayKeepBefore(reference.since) || ",
            "known.filter(reference => ",
        ),
    ),
    *mutants_of(
        "commit protocol",
        f"{_COORDINATOR}/state/QueryRun.scala",
        _RUN_SUITES,
        (
            "N2: a task of a finished epoch continues with its own version",
            "          .map(chain => opened.copy(needsBase = false, sealedChain = Some(chain)))\n",
            "          .map(_ => opened)\n",
        ),
        (
            "seals are deleted before their epochs have cuts",
            "sealNames.filter(_.epoch <= committed)",
            "sealNames",
        ),
    ),
    *mutants_of(
        "commit protocol",
        f"{_COORDINATOR}/state/EarlierRuns.scala",
        ("EarlierRunsSuite", "SkippedEpochSuite", _SIMULATION),
        (
            "C2: the frames of the oldest run count",
            ".sortBy(-_._1.generation)",
            ".sortBy(_._1.generation)",
        ),
        (
            "frames of an operation count as those of tasks",
            "frames.filter(frame => attempts(frame.attempt))",
            "frames",
        ),
        (
            "frames of the current run count as those of an earlier one",
            "runs.filter(_._1.runId != current)",
            "runs",
        ),
        (
            "C2: an attempt counts without stores that others opened",
            "      tasks.getOrElse(frame.name.store, Set.empty)"
            ".foreach(ledger.open(frame.attempt, _))\n",
            "      ledger.open(frame.attempt, frame.name.store)\n",
        ),
    ),
    *mutants_of(
        "commit protocol",
        f"{_COORDINATOR}/EpochCommitter.scala",
        _RUN_SUITES,
        (
            "O4: a run does not check ownership after its cut",
            "try runs.checkOwner(run, epoch + 1)\n",
            "try ()\n",
        ),
        (
            "a cut references frames that are not durable",
            "    frames.flush(run, epoch)\n",
            "",
        ),
        (
            "O10: a cut of other input is accepted",
            " && cut.offsets == logs.offsets(cut.epoch)",
            "",
        ),
    ),
    *mutants_of(
        "commit protocol",
        f"{_CORE}/cutstore/gc/CutSweep.scala",
        _SWEEP_SUITES,
        (
            "pages of the oldest cut are deleted",
            "flatMap(cut => cut.segments ++ cut.pages).toSet",
            "flatMap(cut => cut.segments).toSet",
        ),
    ),
]
