"""Sinks: the ledger of a target."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, mutants_of

_SINKS = "python/cleancut/sinks/_core"

_FILES = "python/cleancut/sinks/_files"
_EPOCHS = "python/cleancut/sinks/_epoch_log"

_FILE_TESTS = (
    "tests/unit/test_epoch_files.py",
    "tests/unit/test_retention.py",
    "tests/unit/test_channels.py",
    "tests/unit/test_file_checkpoints.py",
    "tests/unit/test_sink_core.py",
)
_LEDGER_TESTS = (
    "tests/unit/test_ledger_machine.py",
    "tests/unit/test_sink_ledger.py",
    "tests/unit/test_sink_core.py",
    "tests/unit/test_sink_failures.py",
)


MUTANTS: Sequence[Mutant] = [
    *mutants_of(
        "ledger of sinks",
        f"{_SINKS}/ledger.py",
        _LEDGER_TESTS,
        (
            "an earlier run is not fenced",
            "batch.run_id in recorded.former or order is Position.EARLIER",
            "order is Position.EARLIER",
        ),
        (
            "a run at an earlier checkpoint is not fenced",
            "batch.run_id in recorded.former or order is Position.EARLIER",
            "batch.run_id in recorded.former",
        ),
        (
            "an older generation is not fenced",
            "return Fenced(recorded) if is_older else None",
            "return None",
        ),
        (
            "an unrelated query takes over the target",
            "    if order is Position.UNRELATED:\n        return Unrelated(recorded)\n",
            "",
        ),
        (
            "lost epochs of a target are not noticed when a run begins",
            "        _order(recorded, batch, owner, expected)\n        or lost\n",
            "        _order(recorded, batch, owner, expected)\n",
        ),
        (
            "epochs that were used at the old location are kept",
            "    if until is None or last <= until:",
            "    if True:",
        ),
        (
            "epochs after a rollback are not undone",
            "return Undo(followed, surplus, bound) if surplus else Begin(followed)",
            "return Begin(followed)",
        ),
        (
            "a rollback beyond the recorded epochs is accepted",
            "    if is_rollback and bound < first - 1:",
            "    if False:",
        ),
        (
            "the incarnation stays after a rollback",
            "incarnation=operations[-1].epoch if is_rollback else run.incarnation",
            "incarnation=run.incarnation",
        ),
        (
            "undone epochs that count again are not noticed",
            "        if missing:",
            "        if False:",
        ),
        (
            "an undone epoch counts as published",
            "recorded_epoch.epoch.epoch == batch.epoch and not recorded_epoch.is_undone",
            "recorded_epoch.epoch.epoch == batch.epoch",
        ),
        (
            "an epoch with other input counts as published",
            "                if recorded_epoch.epoch.planned_ms == batch.planned_ms\n",
            "                if True\n",
        ),
        (
            "an epoch before the last one is written",
            "return None if run is None or batch.epoch > run.last else Passed(run.last)",
            "return None",
        ),
        (
            "any run may publish",
            "return Fenced(run) if run is None or run.run_id != batch.run_id else run",
            "return Fenced(run) if run is None else run",
        ),
        (
            "the last epoch is not recorded",
            "return replace(run, last=batch.epoch), epoch",
            "return run, epoch",
        ),
        (
            "the run is not counted",
            "generation=recorded.generation + 1",
            "generation=recorded.generation",
        ),
    ),
    *mutants_of(
        "ledger of sinks",
        f"{_SINKS}/query_side.py",
        _LEDGER_TESTS,
        (
            "an operation that a later one discarded still counts",
            "if bound is None or operation.epoch <= bound:",
            "if bound is None:",
        ),
        (
            "discarded epochs count",
            "            if epoch > operation.source:\n                return False\n",
            "",
        ),
    ),
    *mutants_of(
        "ledger of sinks",
        f"{_SINKS}/expected.py",
        _LEDGER_TESTS,
        (
            "the first lost epoch is not noticed",
            "self.published.between(last + 1, before - 1)",
            "self.published.between(last + 2, before - 1)",
        ),
        (
            "every loss is accepted after one was",
            "(lost.first, lost.last) in self.gaps",
            "self.gaps",
        ),
    ),
    *mutants_of(
        "sinks",
        f"{_FILES}/publisher.py",
        _FILE_TESTS,
        (
            "an epoch of another run counts as that of this one",
            "            published = read_manifest(self._directory, staged.epoch)\n"
            "        if published is None:",
            "            pass\n        if published is None:",
        ),
        (
            "a run at a followed checkpoint publishes",
            "        check_followed(self._directory, batch, self._move)\n",
            "",
        ),
        (
            "an epoch after a rollback stays visible",
            "        if not counts_now(self._directory, batch.epoch):",
            "        if False:",
        ),
        (
            "epochs that are lost while the query runs are not noticed",
            "        self._check_last(batch, expected)\n",
            "",
        ),
        (
            "an expired epoch is published again",
            "        if batch.epoch <= self._expired:",
            "        if False:",
        ),
        (
            "sealed files that are gone are published",
            "return existing >= set(staged.files)",
            "return True",
        ),
        (
            "files of hidden epochs are deleted",
            "kept = set(hidden_attempts(self._directory.names(HIDDEN)))",
            "kept = set[Attempt]()",
        ),
        (
            "files of later epochs are deleted",
            "due = [attempt for attempt in self._left if attempt.epoch <= epoch]",
            "due = list(self._left)",
        ),
        (
            "epochs that are lost before a run are not noticed",
            "            if lost is not None:\n                raise error_for(lost, side.batch, "
            "self._directory.location)\n        if is_ours:",
            "        if is_ours:",
        ),
    ),
    *mutants_of(
        "sinks",
        f"{_EPOCHS}/manifest.py",
        _FILE_TESTS,
        (
            "the manifest of another epoch is accepted",
            "if epoch is not None and number != epoch:",
            "if False:",
        ),
        (
            "an epoch with other input counts as published",
            "    if published.planned_ms != batch.planned_ms:",
            "    if False:",
        ),
        (
            "the directory of another query is written to",
            "        if self.query_id != batch.query_id:",
            "        if False:",
        ),
        (
            "the epoch of another query counts as published",
            "    if published.query_id != batch.query_id:",
            "    if False:",
        ),
        (
            "a query that claims a directory second owns it",
            "return owner_found is None or owner_found.query_id == owner.query_id",
            "return True",
        ),
    ),
    *mutants_of(
        "sinks",
        f"{_EPOCHS}/retention.py",
        _FILE_TESTS,
        (
            "expired epochs are deleted before their grace period",
            "        if due.made_ms <= due_ms:",
            "        if True:",
        ),
        (
            "epochs after the limit expire",
            "last = last if until is None else min(last, until)",
            "last = last",
        ),
    ),
    *mutants_of(
        "sinks",
        f"{_EPOCHS}/rollback.py",
        _FILE_TESTS,
        (
            "the first epoch is hidden first",
            "    for epoch in reversed(published):",
            "    for epoch in published:",
        ),
        (
            "the first epoch is hidden first by hand",
            "    for manifest in reversed(manifests):",
            "    for manifest in manifests:",
        ),
        (
            "hidden epochs are deleted without a record",
            "        records.create(undone_name(attempt.epoch), encoded({}))\n",
            "",
        ),
        (
            "an epoch is deleted before it is hidden",
            "        records.create(hidden_name(manifest.attempt), manifest.encode())\n"
            "        records.delete(manifest_name(manifest.epoch))\n",
            "        records.delete(manifest_name(manifest.epoch))\n"
            "        records.create(hidden_name(manifest.attempt), manifest.encode())\n",
        ),
        (
            "epochs that an older run publishes meanwhile stay visible",
            "    if history != known:",
            "    if False:",
        ),
        (
            "an epoch that was published again is replaced by the hidden one",
            "if was_made or records.read(manifest_name(attempt.epoch)) == body:",
            "if True:",
        ),
    ),
    *mutants_of(
        "sinks",
        f"{_EPOCHS}/view.py",
        _FILE_TESTS,
        (
            "epochs that do not count are visible",
            "    if not uncounted:\n        return manifests\n",
            "    return manifests\n",
        ),
        (
            "a listing that changes meanwhile is incomplete",
            "        if len(manifests) == len(listed):",
            "        if True:",
        ),
    ),
    *mutants_of(
        "sinks",
        "python/cleancut/sinks/_two_phase.py",
        ("tests/unit/test_two_phase.py",),
        (
            "a decision that does not count is committed",
            "decision.prepared == left and history.counts(left.epoch):",
            "decision.prepared == left:",
        ),
        (
            "rows that are decided are aborted",
            "                    if decision is None or decision.prepared != left:",
            "                    if True:",
        ),
        (
            "rows of later epochs are aborted",
            "                if left.epoch <= batch.epoch:",
            "                if True:",
        ),
        (
            "rows are undone before an older run may commit them",
            "            self._finish(decision.prepared)\n            try:",
            "            try:",
        ),
        (
            "the record of a handle is deleted before its commit",
            "        self._committer.commit(prepared.handle)\n"
            "        # Last: while the record exists, the handle may have to be committed.\n"
            "        self._of_run().remove(prepared.directory)\n",
            "        self._of_run().remove(prepared.directory)\n"
            "        self._committer.commit(prepared.handle)\n",
        ),
        (
            "an epoch after a rollback is committed",
            "        if not counts_now(self._of_run(), batch.epoch):",
            "        if False:",
        ),
        (
            "the own rows are committed after the decision for others",
            "        self._finish(decision.prepared)\n        self._last",
            "        self._finish(prepared)\n        self._last",
        ),
        (
            "an undone epoch is not recorded",
            "        self._of_run().create(undone_name(epoch), encoded({}))\n",
            "",
        ),
    ),
    *mutants_of(
        "sinks",
        f"{_SINKS}/epoch_sink.py",
        (
            "tests/unit/test_sink_core.py",
            "tests/unit/test_open_epoch.py",
            "tests/unit/test_sink_queries.py",
        ),
        (
            "two queries use one object",
            "            if current not in (None, query):",
            "            if False:",
        ),
        (
            "a run begins at each epoch",
            "        if self._run_id != batch.run_id:\n            self.begin",
            "        if True:\n            self.begin",
        ),
        (
            "a sink can be in a fan out twice",
            "    if not names or len(set(names)) < len(names):",
            "    if not names:",
        ),
    ),
]
