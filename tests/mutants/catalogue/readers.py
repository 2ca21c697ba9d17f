"""Readers in Python."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, mutants_of

_READ = "python/cleancut/_checkpoint/read"

_RETAIN = "python/cleancut/_checkpoint/retain"

_CHAIN_TESTS = (
    "tests/unit/test_chain_vectors.py",
    "tests/unit/test_paged_chains.py",
    "tests/unit/test_verify_pages.py",
    "tests/unit/test_cut_vectors.py",
    "tests/unit/test_verify_cuts.py",
    "tests/unit/test_referenced_snapshots.py",
    "tests/unit/test_expiry.py",
)
_EXPIRY_TESTS = (
    "tests/unit/test_expiry.py",
    "tests/unit/test_referenced_snapshots.py",
    "tests/unit/test_savepoints.py",
)
_ROW_TESTS = (
    "tests/unit/test_state_batches.py",
    "tests/unit/test_long_lists.py",
    "tests/unit/test_stored_checkpoints.py",
    "tests/unit/test_checkpoint.py",
)


MUTANTS: Sequence[Mutant] = [
    *mutants_of(
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
    *mutants_of(
        "reader of cuts",
        f"{_READ}/stored_cut.py",
        _CHAIN_TESTS,
        (
            "pages may overlap",
            "if following is not None and last >= following.first:",
            "if False:",
        ),
        ("offsets may name no frame of a segment", "        if strangers:", "        if False:"),
        (
            "stores of a missing table are returned without its frames",
            "if is_lost or _epoch(its_page) < lost_epoch:",
            "if is_lost:",
        ),
        (
            "stores of a missing page are returned without its frames",
            "if is_lost or _epoch(its_page) < lost_epoch:",
            "if _epoch(its_page) < lost_epoch:",
        ),
        (
            "the number of stores is not compared",
            "if not errors and len(survey.chains) != self.paged.store_count:",
            "if False:",
        ),
        (
            "frames of the window that are in the page count again",
            "if wanted(frame.store) and part.epoch > _epoch(self._page_of(frame.store)):",
            "if wanted(frame.store):",
        ),
        (
            "segments that only pages name are unreferenced",
            "names.update(frame.segment for chain in page.values() for frame in chain)",
            "pass",
        ),
        (
            "segments that snapshots reference are unreferenced",
            "{*self.segments, *(name for base in self.referred for name in base.segments)}",
            "{*self.segments}",
        ),
        (
            "segments of the window are unreferenced",
            "        names.update(part.segment for part in self.paged.window)\n",
            "",
        ),
    ),
    *mutants_of(
        "reader of cuts",
        f"{_READ}/cut_reader.py",
        _CHAIN_TESTS,
        (
            "a frame with a wrong checksum is accepted",
            "        if crc32(data) != placed.crc:",
            "        if False:",
        ),
        (
            "a changelog applies to any version",
            "            if _parent(frame.identity) != expected:",
            "            if False:",
        ),
        (
            "a changelog applies to any state",
            "        if not follows(frame, state):",
            "        if False:",
        ),
    ),
    *mutants_of(
        "expiry",
        f"{_RETAIN}/expiry.py",
        _EXPIRY_TESTS,
        (
            "cuts that an operation may have read are unreferenced",
            "if self._concurrent.alive is not None:\n            self._named",
            "if False:\n            self._named",
        ),
        (
            "a later run is not noticed after cuts were deleted",
            "return last_generation(self._objects.list(OWNERS)) > self.owner.generation",
            "return False",
        ),
        (
            "objects of savepoints are unreferenced",
            "needed = self._named | self._names_of(savepoints.cuts.values())",
            "needed = self._named",
        ),
        (
            "savepoints that cannot be read are ignored",
            " or savepoints.may_reference(part.epoch)",
            "",
        ),
        (
            "frames of an epoch without a cut are deleted",
            "part is None or part.epoch > self.last or",
            "part is None or",
        ),
        (
            "objects are deleted after the fence of another process",
            "        if self._concurrent.runs_nothing:\n            return False\n",
            "",
        ),
        (
            "objects of a live run are deleted whatever their age",
            "- _MARGIN_EPOCHS and not is_young",
            "- _MARGIN_EPOCHS",
        ),
        (
            "objects of a live run are deleted whatever their epoch",
            "part.epoch < self.retained_epochs[0] - _MARGIN_EPOCHS and not is_young",
            "not is_young",
        ),
        (
            "a run that begins after the plan is not noticed",
            "if why is None and scan.owner.alive is not None:",
            "if False:",
        ),
        (
            "ages are computed by the clock of the host",
            "self._now_ms = _owned_ms(self._objects) if fenced else time.time() * 1000",
            "self._now_ms = time.time() * 1000",
        ),
        (
            "a replica can be expired",
            "    try:\n        note = json.loads(root.objects.read(REPLICA))",
            "    return\n    try:\n        note = json.loads(root.objects.read(REPLICA))",
        ),
        (
            "seals of epochs without a cut are deleted",
            "if epoch is not None and epoch <= self.last)",
            "if epoch is not None)",
        ),
    ),
    *mutants_of(
        "expiry",
        f"{_RETAIN}/kept_savepoints.py",
        _EXPIRY_TESTS,
        ("pages of a savepoint are not read", "        cut.named()\n", ""),
        (
            "a cut that was written together with a savepoint counts as later",
            "if last is None or cuts[last] <= time_ms:",
            "if last is None or cuts[last] < time_ms:",
        ),
        (
            "savepoints are unreadable after a temporary failure",
            "        if error.kind is ErrorKind.RETRY:\n            raise\n",
            "",
        ),
    ),
    *mutants_of(
        "replication",
        "python/cleancut/_checkpoint/replicate/replicas.py",
        ("tests/unit/test_replicas.py",),
        (
            "a replica on which a query has started is overwritten",
            "            if name not in owners or not self._is_same(name):",
            "            if False:",
        ),
        (
            "a replica with another cut of an epoch is overwritten",
            '            if not self._is_same(f"{ROOT}/{cut_name(epoch)}"):',
            "            if False:",
        ),
        (
            "the replica of another query is overwritten",
            'if note.get("queryId") != self._cut(last).query_id:',
            "if False:",
        ),
        (
            "a cut is copied before its offset entry",
            "(begun + 1, 4) if cut is None else (cut, 2)",
            "(begun + 1, 4) if cut is None else (cut, -1)",
        ),
        (
            "entries of later epochs are copied",
            'if numbered and int(numbered[2]) <= (last if numbered[1] == "commits" else begun):',
            "if numbered:",
        ),
    ),
]
