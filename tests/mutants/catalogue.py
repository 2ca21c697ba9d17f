"""The planted defects: a text of a file, what it is replaced by, and the tests that must fail."""

from collections.abc import Sequence
from dataclasses import dataclass

_WORKER = "jvm/core/src/main/resources/worker"
_SINKS = "python/cleancut/sinks/_core"
_FORMAT = "python/cleancut/_format"
_READ = "python/cleancut/_checkpoint/read"

_STATE_TESTS = ("tests/unit/test_worker_state_batches.py",)
_RECALL_TESTS = ("tests/unit/test_recall.py",)
_LEDGER_TESTS = (
    "tests/unit/test_ledger_machine.py",
    "tests/unit/test_sink_ledger.py",
    "tests/unit/test_sink_core.py",
    "tests/unit/test_sink_failures.py",
)
_CUT_TESTS = (
    "tests/unit/test_cut_vectors.py",
    "tests/unit/test_cuts.py",
    "tests/unit/test_chain_vectors.py",
    "tests/unit/test_paged_chains.py",
    "tests/unit/test_verify_pages.py",
    "tests/unit/test_unreleased_formats.py",
)
_ROW_TESTS = (
    "tests/unit/test_state_batches.py",
    "tests/unit/test_long_lists.py",
    "tests/unit/test_stored_checkpoints.py",
    "tests/unit/test_checkpoint.py",
)


@dataclass(frozen=True)
class Mutant:
    """A planted defect.

    Attributes:
        area: the part of the system.
        defect: what is wrong.
        path: the file, from the root of the repository.
        old: the replaced text, which the file has once.
        new: the text in its place.
        tests: arguments of pytest.
    """

    area: str
    defect: str
    path: str
    old: str
    new: str
    tests: Sequence[str]


def _of(area: str, path: str, tests: Sequence[str], *defects: tuple[str, str, str]) -> list[Mutant]:
    return [Mutant(area, defect, path, old, new, tests) for defect, old, new in defects]


MUTANTS: Sequence[Mutant] = [
    *_of(
        "state of Python functions",
        f"{_WORKER}/state_batches.py",
        _STATE_TESTS,
        (
            "prefetched responses are kept after a write",
            " or state in self._choice.written",
            "",
        ),
        (
            "added keys do not count in the table of keys",
            "self._table = self._table + len(self._added) if keys is None else len(keys)",
            "self._table = self._table if keys is None else len(keys)",
        ),
        ("a request overtakes earlier writes", "        self._before()\n", ""),
        (
            "rows with a NaN in their key use prefetched responses",
            "if not self._has_floats or _equals_itself(key):",
            "if True:",
        ),
        (
            "responses of earlier keys are kept",
            "        self._responses = []\n        if not reads:",
            "        if not reads:",
        ),
        (
            "the number of a key in a replaced table is kept",
            "        if keys is not None:\n            self._number = None\n",
            "",
        ),
        (
            "values that can change are not copied",
            "            elif kind not in _SMALL:",
            "            elif False:",
        ),
        (
            "the key is not sent before a request that depends on it",
            "            self._send_key()\n",
            "",
        ),
        (
            "keys without a response count as requested",
            "return len(self._responses)",
            "return len(keys)",
        ),
        (
            "the status of deferred writes is ignored",
            "        if response.statusCode != 0:",
            "        if False:",
        ),
        (
            "keys of timers accumulate",
            '        """Must be called after the last group."""\n        self._responses = []',
            '        """Must be called after the last group."""',
        ),
    ),
    *_of(
        "state of Python functions",
        f"{_WORKER}/state_clients.py",
        _STATE_TESTS,
        (
            "a list is read again for each element",
            "None if iterator in self._pages else self._batches.read",
            "self._batches.read",
        ),
        (
            "clients of other tasks are replaced",
            " if client is batches.client else made",
            "",
        ),
        (
            "map entries lose their key",
            "self._batches.write(MAP_UPDATE, state, (key, value))",
            "self._batches.write(MAP_UPDATE, state, (value, value))",
        ),
    ),
    *_of(
        "in-flight rows of Python functions",
        f"{_WORKER}/recall.py",
        _RECALL_TESTS,
        (
            "the first row of a group may be skipped while groups are whole",
            "not (begins or self._splits_groups)",
            "False",
        ),
        (
            "rows from `resume` on are skipped too",
            "return min(count, last - self.seen), False",
            "return count, False",
        ),
        (
            "rows before `stop` are skipped",
            "return min(count, first - self.seen), True",
            "return min(count, first - self.seen), False",
        ),
        (
            "the first skipped row is not reported",
            "            self.page.write(SKIPPED, first)\n",
            "            pass\n",
        ),
        (
            "progress counts a row that the function has not received",
            "self.page.write(TAKEN, self.seen)",
            "self.page.write(TAKEN, self.seen + 1)",
        ),
        (
            "rows that the function did not read are not counted",
            "        for _ in group:\n            pass\n",
            "",
        ),
    ),
    *_of(
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
    *_of(
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
    *_of(
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
    *_of(
        "format of cuts",
        f"{_FORMAT}/envelope.py",
        _CUT_TESTS,
        (
            "a wrong checksum is accepted",
            "if crc32(stored, crc32(data[:_CHECKED])) != crc:",
            "if False:",
        ),
        (
            "the header is not in the checksum",
            "crc32(stored, crc32(data[:_CHECKED]))",
            "crc32(stored)",
        ),
        ("a body of another size is accepted", "if len(stored) != stored_size:", "if False:"),
        ("an unknown codec is accepted", "if codec != _ZSTD or reserved != 0:", "if False:"),
    ),
    *_of(
        "format of cuts",
        f"{_FORMAT}/cut/cut.py",
        _CUT_TESTS,
        ("a cut of another epoch is accepted", "if epoch not in (None, cut.epoch):", "if False:"),
        ("a store may be in a cut twice", "if store_id in chains:", "if False:"),
        (
            "versions of frames may descend",
            "if any(one.name.version >= other.name.version for one, other in pairwise(chain)):",
            "if False:",
        ),
        (
            "a chain may end in another version",
            'if (last.version, last.version_id) != (version, typed(fields, "id", str)):',
            "if False:",
        ),
        (
            "a frame may be in a segment that is not named",
            "not 0 <= index < len(segments)",
            "not index < len(segments)",
        ),
        (
            "references may have any version",
            "if not before < version <= epoch + 1:",
            "if False:",
        ),
    ),
    *_of(
        "format of cuts",
        f"{_FORMAT}/chains.py",
        _CUT_TESTS,
        (
            "a chain may begin with a later changelog",
            'if first.kind != "base" and first.version != 1:',
            "if False:",
        ),
        (
            "a version may be missing in a chain",
            "if other.name.version != one.name.version + 1:",
            "if False:",
        ),
        (
            "changelogs before the snapshot are kept",
            "frame for frame in candidates if frame.name.version > top",
            "frame for frame in candidates if frame.name.version >= top",
        ),
        (
            "a snapshot may follow another frame",
            'if any(frame.name.kind == "base" for frame in chain[1:]):',
            "if False:",
        ),
    ),
    *_of(
        "reader of state",
        f"{_READ}/live_rows.py",
        _ROW_TESTS,
        ("a wrong number of keys is accepted", "if fold.live != newest.keys:", "if False:"),
        (
            "older values of a key are returned too",
            "            said.add(key)\n            values = ",
            "            values = ",
        ),
        (
            "values of a list are in reverse order",
            "((family_id, key, item) for item in reversed(values))",
            "((family_id, key, item) for item in values)",
        ),
        (
            "a removed family returns with its rows",
            "        if families:\n            there",
            "        if False:\n            there",
        ),
        (
            "appended values of keys in the snapshot are lost",
            "                yield from ((family_id, key, value) for value in reversed(values))",
            "                yield from ()",
        ),
        (
            "removed keys of a snapshot are returned",
            "if said is None or key in said or value is None:",
            "if said is None or value is None:",
        ),
        (
            "a merge into a family without lists is accepted",
            "                if family_id not in self._lists:",
            "                if False:",
        ),
        (
            "the oldest value of a key is returned by a lookup",
            "for record in (item for block in blocks for item in reversed(block.records)):",
            "for record in (item for block in blocks for item in block.records):",
        ),
    ),
]
