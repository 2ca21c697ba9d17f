"""The commit protocol as pure functions: attempts, decisions, epochs, snapshots, pages."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, mutants_of

_CORE = "jvm/core/src/main/scala/io/cleancut"
_PROTOCOL = f"{_CORE}/protocol"
_SIMULATION = (
    "CutSimulationSuite::no epoch is lost, duplicated or committed by two runs despite all faults"
)
_EPOCH_SUITES = ("EpochChannelsSuite", "EpochLedgerSuite", "ChannelLedgerModelSuite", _SIMULATION)

MUTANTS: Sequence[Mutant] = [
    *mutants_of(
        "commit protocol",
        f"{_PROTOCOL}/EpochChannels.scala",
        _EPOCH_SUITES,
        (
            "D3: an attempt with another report than the decision counts",
            "decided.get(report.channel).exists(_.report != report)",
            "decided.get(report.channel).exists(_ => false)",
        ),
        (
            "D1: the last complete attempt decides",
            "        if (!decided.contains(report.channel)) {",
            "        if (true) {",
        ),
        (
            "I3: rows stay in flight after an attempt whose rows may be visible",
            "    if (!mayDefer) whole += channel\n",
            "",
        ),
        (
            "H4: an attempt counts before it has reported all its shuffle inputs",
            "def isRead(attempt: Long): Boolean = !unread(attempt)",
            "def isRead(attempt: Long): Boolean = true",
        ),
    ),
    *mutants_of(
        "commit protocol",
        f"{_PROTOCOL}/EpochLedger.scala",
        _EPOCH_SUITES,
        (
            "D1: an attempt decides before all its frames are kept",
            "known.opened.nonEmpty && known.hasKeptAll && channels.isRead(attempt)",
            "known.opened.nonEmpty && channels.isRead(attempt)",
        ),
        (
            "an attempt that is discarded counts when it repeats a report",
            "of(frame.attempt).discarded.fold[Ack](Ack.Duplicate)(Ack.Discarded)",
            "Ack.Duplicate",
        ),
        (
            "the second frame of an attempt replaces the first",
            "case Some(known) if known.name.kind == name.kind || "
            "known.name.version != name.version =>",
            "case Some(known) if false && known == frame =>",
        ),
    ),
    *mutants_of(
        "commit protocol",
        f"{_PROTOCOL}/ClosingEpoch.scala",
        _EPOCH_SUITES,
        (
            "D3: the cut has the frames of a discarded attempt",
            "attempt.discarded.isEmpty && isComplete(attempt)",
            "isComplete(attempt)",
        ),
        (
            "a failed attempt counts before complete ones",
            ".sortBy(attempt => (!attempt.hasFailed, attempt.turn))",
            ".sortBy(attempt => (attempt.hasFailed, attempt.turn))",
        ),
        (
            "D4: the cut has in-flight rows of another attempt",
            "        .foreach(chosen --= _)",
            "        .foreach(_ => ())",
        ),
        (
            "C2: an attempt counts without all its stores",
            "frames.nonEmpty && attempt.opened.forall(frames.contains) && !reading(attempt.id) &&",
            "frames.nonEmpty && !reading(attempt.id) &&",
        ),
        (
            "C1: a frame of a version that Spark did not count is in the cut",
            "frames.filter { case (_, frame) => ids(frame.name.version.id) }",
            "frames",
        ),
        (
            "P7: an epoch is complete without stores of the previous cut",
            "if (more.isEmpty) before else (before ++ more).sorted(StoreOrder)",
            "more.toVector.sorted(StoreOrder)",
        ),
    ),
    *mutants_of(
        "commit protocol",
        f"{_PROTOCOL}/EpochState.scala",
        ("EpochStateSuite", "SealedEpochSuite", _SIMULATION),
        (
            "I2: rows stay in flight in the first epoch of a run",
            "capture != Capture.Off && !isFirst && isHeld",
            "capture != Capture.Off && isHeld",
        ),
        (
            "I2: rows stay in flight although the sink does not seal",
            "capture != Capture.Off && !isFirst && isHeld",
            "capture != Capture.Off && !isFirst",
        ),
        (
            "S6: an epoch with decisions is sealed without an object",
            "else if (isUnclaimed || hasDecisions) SealMethod.SealObject",
            "else if (isUnclaimed) SealMethod.SealObject",
        ),
        (
            "S11: the first epoch after a cut is sealed without an object",
            "else if (isUnclaimed || hasDecisions) SealMethod.SealObject",
            "else if (hasDecisions) SealMethod.SealObject",
        ),
        (
            "S9: an epoch that follows a seal is not claimed",
            "isUnclaimed && (sealedBefore.isDefined || !isHeld)",
            "isUnclaimed && !isHeld",
        ),
        (
            "a seal of another epoch is followed",
            "      sealedBefore = sealedBefore.filter(_.epoch == epoch)\n",
            "      sealedBefore = sealedBefore\n",
        ),
    ),
    *mutants_of(
        "commit protocol",
        f"{_PROTOCOL}/BaseLedger.scala",
        ("QueryLedgerSuite", "ReferredSegmentsSuite", _SIMULATION),
        (
            "K2: a snapshot that is too old is adopted",
            "    else if (!isAnnounced && number < oldest(last))",
            "    else if (false)",
        ),
        (
            "an older snapshot replaces a newer one",
            "    else if (known.exists(_.name.version.number > number)) Ack",
            "    else if (false) Ack",
        ),
        (
            "a snapshot of another attempt is adopted",
            "kind == FrameKind.Delta && version == base.name.version",
            "kind == FrameKind.Delta",
        ),
        (
            "K3: announced snapshots are garbage",
            "    announced.keySet.toSet ++ written",
            "    Set.empty[String] ++ written",
        ),
        (
            "K3: snapshots that wait for a cut are garbage",
            " ++ written.values.map(_.base.place.segment) ++\n",
            " ++\n",
        ),
        (
            "late snapshots of earlier cuts are garbage",
            "      listed ++ first.map",
            "      first.map",
        ),
    ),
    *mutants_of(
        "commit protocol",
        f"{_PROTOCOL}/CutWindow.scala",
        ("CutWindowSuite", "PagedChainsSuite", _SIMULATION),
        (
            "P13: a cut names a page that is too late",
            "if (!isOwn || by.epoch < oldest) this",
            "if (!isOwn) this",
        ),
        (
            "pages of another window are taken over",
            "if (!isOwn || by.epoch < oldest) this",
            "if (by.epoch < oldest) this",
        ),
        (
            "P2: the window loses epochs that one page lacks",
            "copy(all, parts.filter(_.epoch > all.iterator.map(_.epoch).min))",
            "copy(all, parts.filter(_.epoch > all.iterator.map(_.epoch).max))",
        ),
        (
            "P3: a snapshot that is adopted later is in no window",
            "val isAdopted = chain.size > 1 && isNewBase(",
            "val isAdopted = false && isNewBase(",
        ),
    ),
    *mutants_of(
        "commit protocol",
        f"{_PROTOCOL}/Retention.scala",
        ("RetentionSuite", "ProviderModelSuite"),
        (
            "F10: files of versions that may be requested are deleted",
            "      number <= keepFrom && listing",
            "      listing",
        ),
        (
            "F10: a version of which one attempt has no snapshot is an anchor",
            "number <= keepFrom && listing.at(number).forall(listing.bases)",
            "number <= keepFrom",
        ),
    ),
    *mutants_of(
        "commit protocol",
        f"{_PROTOCOL}/Chain.scala",
        ("ChainSuite", "StoreVectorsSuite"),
        (
            "F7: the parent of a changelog is any attempt",
            "several.find(v => named.id.contains(v.id))",
            "several.lastOption.filter(_ => named != null)",
        ),
        (
            "F7: without a requested ID the first attempt counts",
            "id.fold(candidates.lastOption)",
            "id.fold(candidates.headOption)",
        ),
    ),
    *mutants_of(
        "commit protocol",
        f"{_PROTOCOL}/OffsetEntry.scala",
        ("OffsetEntrySuite",),
        (
            "B1: the watermark of an epoch without input decreases",
            "next.put(key, Math.max(next.path(key).asLong(0L), value))",
            "next.put(key, value)",
        ),
        (
            "an epoch after an operation is marked as one",
            "      case conf: ObjectNode => ActMarks.foreach(conf.remove)\n",
            "",
        ),
    ),
]
