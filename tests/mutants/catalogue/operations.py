"""Offline operations: rescale, clone, rollback, migrate and bootstrap; savepoints and metadata."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, mutants_of

_OPERATIONS = (
    "jvm/spark/src/main/scala/org/apache/spark/sql/execution/streaming/state/cleancut/operations"
)
_RETAIN = "python/cleancut/_checkpoint/retain"


def _effect(test: str) -> tuple[str, ...]:
    """A test in a separate JVM, because each has a Spark session."""
    return (f"OperationEffectsSuite::{test}",)


MUTANTS: Sequence[Mutant] = [
    *mutants_of(
        "offline operations",
        f"{_OPERATIONS}/OfflineOperation.scala",
        _effect(
            "a rollback takes the epoch after an unused one, and the query reads its input again"
        ),
        (
            "a rollback takes the epoch that the query may have planned",
            "query.isBack || edit.isDefined ||",
            "edit.isDefined ||",
        ),
    ),
    *mutants_of(
        "offline operations",
        f"{_OPERATIONS}/OfflineOperation.scala",
        _effect("an operation is refused while the query runs"),
        (
            "an operation runs while the query runs",
            "if (runId.isEmpty && (other.isEmpty || !from.isWithCuts)) checkStopped",
            "if (false) checkStopped",
        ),
    ),
    *mutants_of(
        "offline operations",
        f"{_OPERATIONS}/OfflineOperation.scala",
        _effect("a rollback is refused if input files of later epochs are missing"),
        (
            "a rollback loses input that is missing",
            "    if (!allowsMissingInput) input.missing.foreach",
            "    if (false) input.missing.foreach",
        ),
    ),
    *mutants_of(
        "offline operations",
        f"{_OPERATIONS}/OfflineOperation.scala",
        _effect(
            "a clone of the same query has its published epochs, and one of another query does not"
        ),
        (
            "a clone for another query has the published epochs",
            "if (isOther) SinkEpochs.Empty else CarriedRecords.of(from, query)",
            "CarriedRecords.of(from, query)",
        ),
    ),
    *mutants_of(
        "offline operations",
        f"{_OPERATIONS}/PlannedEpochs.scala",
        _effect("a plan is outdated after another epoch, and after its savepoint has another one"),
        (
            "an operation runs although the query has committed since its plan",
            "committed.lastOption.filter(_ != last)",
            "committed.lastOption.filter(_ => false)",
        ),
        (
            "an operation runs on a savepoint of another epoch than planned",
            "    if (query.epoch != source) {",
            "    if (false) {",
        ),
    ),
    *mutants_of(
        "offline operations",
        f"{_OPERATIONS}/PlannedEpochs.scala",
        _effect("a clone has the planned state, although the query has committed since"),
        (
            "a clone reads the last epoch instead of the planned one",
            "if (committed.lastOption.forall(_ == source)) requested",
            "if (true) requested",
        ),
    ),
    *mutants_of(
        "offline operations",
        f"{_OPERATIONS}/OfflineEpoch.scala",
        _effect("an undone rollback returns to the state before it"),
        (
            "an undone rollback does not find the epoch before it",
            "      mark(last, OffsetEntry.LastBeforeAct) ++\n",
            "",
        ),
    ),
    *mutants_of(
        "offline operations",
        f"{_OPERATIONS}/RetiredPartitions.scala",
        _effect("a rescale without cuts moves the stores of removed partitions away"),
        (
            "the stores of a removed partition stay",
            "name.toIntOption.exists(_ >= partitions)",
            "name.toIntOption.exists(_ > partitions)",
        ),
    ),
    *mutants_of(
        "offline operations",
        f"{_OPERATIONS}/StagedState.scala",
        _effect("files of Spark's provider are moved so that the snapshot of a store is the last"),
        (
            "a snapshot is moved before the files that it names",
            "    val below =\n",
            "    lazy val below =\n",
        ),
    ),
    *mutants_of(
        "offline operations",
        f"{_OPERATIONS}/OfflineRun.scala",
        (
            "OperationChecksSuite::a refused operation does not take over from a driver that has "
            "continued",
        ),
        (
            "an operation takes over from a driver that has continued",
            "        checkLast(archive.cuts.epochs().lastOption.getOrElse(-1L), last, operation, "
            "place)\n",
            "",
        ),
    ),
    *mutants_of(
        "offline operations",
        f"{_OPERATIONS}/StateReference.scala",
        _effect("each rescale by reference keeps the counts, and so does the next epoch"),
        (
            "a partition lacks sources with the same remainder",
            "      partition % shared until query.partitions by shared\n",
            "      partition % shared until (partition % shared + 1)\n",
        ),
    ),
    *mutants_of(
        "offline operations",
        f"{_OPERATIONS}/CarriedRecords.scala",
        _effect(
            "a clone of the same query continues its checkpoint, and one of another query does not"
        ),
        (
            "a clone for another query continues the checkpoint",
            "if (isOther) Lineage.Empty else lineage(from, query)",
            "lineage(from, query)",
        ),
        (
            "a clone of the same query continues no checkpoint",
            "if (isOther) Lineage.Empty else lineage(from, query)",
            "Lineage.Empty",
        ),
    ),
    *mutants_of(
        "offline operations",
        f"{_OPERATIONS}/start/FirstState.scala",
        _effect("a query that is bootstrapped counts on from the given rows"),
        (
            "rows of a family may be given twice",
            "case (family, all) if all.size > 1 => family",
            "case (family, all) if all.size > 2 => family",
        ),
    ),
    *mutants_of(
        "offline operations",
        f"{_OPERATIONS}/start/FirstState.scala",
        _effect("a migrated query has the rows that are given, and those of unchanged state"),
        (
            "a migration runs although the query has committed since its plan",
            "    planned.foreach {\n      _.checkLast(",
            "    planned.filter(_ => false).foreach {\n      _.checkLast(",
        ),
    ),
    *mutants_of(
        "offline operations",
        f"{_OPERATIONS}/start/CheckpointOrigin.scala",
        _effect("a migrated query has the rows that are given, and those of unchanged state"),
        (
            "a migrated query takes an epoch that sinks may know",
            "override val epoch: Long = stored.begun + 2",
            "override val epoch: Long = stored.begun + 1",
        ),
        (
            "given rows are added to those that are carried over",
            "        !isGiven\n",
            "        true\n",
        ),
    ),
    *mutants_of(
        "offline operations",
        f"{_OPERATIONS}/start/CheckpointOrigin.scala",
        _effect("a migration to other values requires their rows"),
        (
            "rows of other columns are carried over by a migration",
            "if (!isGiven && !isAlike(family, now))",
            "if (false)",
        ),
    ),
    *mutants_of(
        "savepoints",
        f"{_RETAIN}/savepoints.py",
        ("tests/unit/test_savepoints.py",),
        (
            "a savepoint retains a corrupted cut",
            "    CutReader(root.objects).cut(chosen)\n",
            "",
        ),
        (
            "a savepoint keeps its name although it is of another cut",
            "if not root.objects.create(target, data) and root.objects.read(target) != data:",
            "if not root.objects.create(target, data) and False:",
        ),
        (
            "a savepoint stays although its cut was deleted meanwhile",
            "    if chosen not in root.epochs():",
            "    if False:",
        ),
        (
            "a savepoint is reported although another one was stored",
            "    if root.objects.read(target) != data:\n        raise cut",
            "    if False:\n        raise cut",
        ),
        (
            "a savepoint has the name of an epoch",
            "    elif name.isdecimal():",
            "    elif False:",
        ),
    ),
    *mutants_of(
        "savepoints",
        f"{_RETAIN}/metadata.py",
        ("tests/unit/test_verify_spark_files.py",),
        (
            "metadata of another query is accepted",
            "query_id_of(files.read(METADATA)) != query:",
            "query_id_of(files.read(METADATA)) == 0:",
        ),
        (
            "a corrupted cut prevents the restore of metadata",
            "        except (CorruptedError, FileNotFoundError):",
            "        except FileNotFoundError:",
        ),
    ),
    *mutants_of(
        "verification of Spark's logs",
        "python/cleancut/_checkpoint/verify/spark_entries.py",
        ("tests/unit/test_verify_spark_files.py",),
        (
            "a source that is read twice needs two logs",
            "    if not _offsets(offsets).keys() <= logs and _are_in_other_logs",
            "    if False and _are_in_other_logs",
        ),
        (
            "logs may lack entries if each source has a log",
            "    if not _offsets(offsets).keys() <= logs and _are_in_other_logs",
            "    if _are_in_other_logs",
        ),
        (
            "a log may have a gap if a source is read twice",
            "return is_reached and not has_gap and",
            "return is_reached and",
        ),
        (
            "a log may end early if a source is read twice",
            "return is_reached and not has_gap and",
            "return not has_gap and",
        ),
        (
            "sources with different offsets may have one log",
            " and len(logs) >= len(set(last.values()))",
            "",
        ),
        (
            "a compacted entry is not the highest of a log",
            "name.removesuffix(_COMPACT) for name in there",
            "name for name in there",
        ),
    ),
    *mutants_of(
        "expiry",
        f"{_RETAIN}/expiry.py",
        ("tests/unit/test_expiry.py",),
        (
            "young cuts expire",
            "oldest = min([*by_number, *young, max(cuts)])",
            "oldest = min([*by_number, max(cuts)])",
        ),
        (
            "frames of level 0 are deleted while a version of them is retained",
            "if self.expired or self.retained_epochs[0] > newest else []",
            "if True else []",
        ),
        (
            "an expiry is applied twice",
            "        if self.is_applied:",
            "        if False:",
        ),
        (
            "objects are deleted although the last run may live",
            "        if why is None:\n            raise",
            "        if False:\n            raise",
        ),
    ),
    *mutants_of(
        "offline operations",
        "python/cleancut/_operations/offline.py",
        ("tests/unit/test_offline.py", "tests/unit/test_cli_operations.py"),
        (
            "a plan is applied without the epochs that it was made for",
            "self._arguments, self._epochs())",
            'self._arguments, "{}")',
        ),
        (
            "a plan is applied twice",
            "        if self.is_applied:\n            raise",
            "        if False:\n            raise",
        ),
        (
            "a rollback takes an epoch and undo together",
            "    if (to is None) != undo:",
            "    if False:",
        ),
        (
            "a clone keeps the ID of its query",
            "options = (not same_query, text_of(cuts)",
            "options = (same_query, text_of(cuts)",
        ),
        (
            "a time is passed in seconds",
            "int(state.timestamp() * 1000)",
            "int(state.timestamp())",
        ),
        (
            "a clone to RocksDB may have cuts",
            '    if provider == "rocksdb" and cuts:',
            "    if False:",
        ),
    ),
]
