"""The coordinator: ownership, seals, cuts, and the collection of garbage."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, mutants_of

_CORE = "jvm/core/src/main/scala/io/cleancut"
_COORDINATOR = f"{_CORE}/coordinator"
_CHECKPOINT_FILES = (
    "jvm/spark/src/main/scala/org/apache/spark/sql/execution/streaming/state/cleancut"
    "/checkpointfiles"
)

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
            "version > 0 && (known.isEmpty || !isStored)",
            "version > 0 && !isStored",
        ),
        (
            "O10: stores write no base after an epoch that another run has committed",
            "version > 0 && (known.isEmpty || !isStored)",
            "version > 0 && known.isEmpty",
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
        (
            "O6: a run records its end although an object may still appear",
            "writer.isIdle && !hasFailed &&",
            "writer.isIdle &&",
        ),
    ),
    *mutants_of(
        "commit protocol",
        f"{_COORDINATOR}/EpochClaims.scala",
        ("EpochWriterSuite", *_RUN_SUITES),
        (
            "Q1: a fenced run of the same driver plans an epoch before its cut exists",
            "runs.ifBegun(runId)",
            "runs.ifCurrent(runId)",
        ),
        (
            "O6: the failed write of an entry is forgotten",
            "run.fold(write)(_.writing(write))",
            "write",
        ),
        (
            "O6: the failed write of an entry next to the epoch is forgotten",
            "current.writer.begin(current.writing(write))",
            "current.writer.begin(write)",
        ),
    ),
    *mutants_of(
        "commit protocol",
        f"{_CHECKPOINT_FILES}/OwnedLog.scala",
        ("OwnedLogSuite",),
        (
            "O12: an entry that a later owner has deleted is reported as missing",
            "          if (!isUnknown(path)) checkOwner()\n",
            "",
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
            "C2: two attempts that wrote different stores of a task count together",
            "attempts ++ ownTasks ++ ofOperators",
            "attempts ++ ownTasks ++ ofOperators.take(0)",
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
            "O6: the failed write of a cut is forgotten",
            "run.writing(archive.cuts.create(cut))",
            "archive.cuts.create(cut)",
        ),
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
        f"{_COORDINATOR}/CommitSources.scala",
        ("CommitSourcesSuite", "SkippedEpochSuite", "FinishedEpochSuite", _SIMULATION),
        (
            "C2: frames of this run count although an earlier run has more stores",
            "if current.size < other.size => before",
            "if false => before",
        ),
        (
            "C2: an earlier run without frames completes an epoch whose tasks have run",
            "isWhole(stores) && (stores.nonEmpty || reported.isRight)",
            "isWhole(stores)",
        ),
        (
            "C2: without a cut, some tasks complete an epoch",
            "      reported.isRight && runs.locked(",
            "      reported.isRight || runs.locked(",
        ),
        (
            "tasks of a skipped epoch run again without an ownership check",
            "      runs.checkOwner(request.run, request.epoch)\n",
            "",
        ),
        (
            "C1: frames that Spark did not count complete an epoch",
            "  private def fromEarlierRun(request: Request) =\n    if (request.isCounted) None",
            "  private def fromEarlierRun(request: Request) =\n    if (false) None",
        ),
    ),
    *mutants_of(
        "commit protocol",
        f"{_COORDINATOR}/EpochFinisher.scala",
        ("FinishedEpochSuite", _SIMULATION),
        (
            "N1: an epoch is finished from a seal of other input",
            "      .filter(_.offsets == runs.logs.offsets(epoch))\n",
            "",
        ),
        (
            "N1: an epoch is finished from a seal without all stores",
            "      if (missing.nonEmpty) {",
            "      if (false) {",
        ),
        (
            "N1: an epoch is finished without an ownership check",
            "      runs.checkOwner(run, epoch)\n",
            "",
        ),
        (
            "N3: Spark continues from other versions than those of the seal",
            "Either.cond(others.isEmpty, seal.stores, others)",
            "Either.cond(true, seal.stores, others)",
        ),
    ),
    *mutants_of(
        "commit protocol",
        f"{_COORDINATOR}/OfflineEpochRun.scala",
        ("ReplacedEpochSuite", "ReferredSegmentsSuite", _SIMULATION),
        (
            "an operation loses in-flight rows",
            "    for (source <- inFlight if !source.isEmpty) {",
            "    for (source <- inFlight if source.isEmpty) {",
        ),
        (
            "a cut does not list the segments that an operation references",
            "      run.ledger.operate(_.copy(referred = Some(referred)))\n",
            "",
        ),
        (
            "frames of an operation are read before they are durable",
            "    frames.flush(run, epoch)\n",
            "",
        ),
        (
            "a running query keeps a cancelled operation",
            "run => runs.locked(run.cancelReplacement())",
            "_ => ()",
        ),
    ),
    *mutants_of(
        "commit protocol",
        f"{_COORDINATOR}/SealWriter.scala",
        ("SealedEpochSuite", "FinishedEpochSuite", _SIMULATION),
        (
            "S6: a repeated seal of another result is accepted",
            "      if (!stored.exists(hasSealed(_, seal))) {",
            "      if (false) {",
        ),
        (
            "S6: a repeated seal with other output is accepted",
            " && stored.output == seal.output &&",
            " &&",
        ),
        (
            "seals are never deleted by their run",
            "    runs.locked(run.sealWritten(name))\n",
            "",
        ),
    ),
    *mutants_of(
        "commit protocol",
        f"{_COORDINATOR}/EpochClaims.scala",
        ("SealedEpochSuite", "EpochWriterSuite", "CutsEndpointSuite", _SIMULATION),
        (
            "S10: a run does not check ownership after its claim",
            "    val owner = runs.laterOwner(run)\n",
            "    val owner = Option.empty[String]\n",
        ),
        (
            "S9: a claim does not copy the seal that the run follows",
            "      followed.fold(empty) { seal =>",
            "      followed.filter(_ => false).fold(empty) { seal =>",
        ),
        (
            "O15: a task opens a store before the entry of its epoch exists",
            "      else if (waits(run, epoch)) planned(run)\n",
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
