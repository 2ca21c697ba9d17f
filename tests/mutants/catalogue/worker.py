"""The Python worker: state, and in-flight rows."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, mutants_of

_WORKER = "jvm/core/src/main/resources/worker"

_STATE_TESTS = ("tests/unit/test_worker_state_batches.py",)
_RECALL_TESTS = ("tests/unit/test_recall.py",)


MUTANTS: Sequence[Mutant] = [
    *mutants_of(
        "state of Python functions",
        f"{_WORKER}/state_batches.py",
        _STATE_TESTS,
        ("prefetched responses are kept after a write", " or state in self._choice.written", ""),
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
    *mutants_of(
        "state of Python functions",
        f"{_WORKER}/state_clients.py",
        _STATE_TESTS,
        (
            "a list is read again for each element",
            "None if iterator in self._pages else self._batches.read",
            "self._batches.read",
        ),
        ("clients of other tasks are replaced", " if client is batches.client else made", ""),
        (
            "map entries lose their key",
            "self._batches.write(MAP_UPDATE, state, (key, value))",
            "self._batches.write(MAP_UPDATE, state, (value, value))",
        ),
    ),
    *mutants_of(
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
            "the progress is not reported",
            "        self.row_filter.publish()\n",
            "",
        ),
        (
            "rows that the function did not read are not counted",
            "        for _ in group:\n            pass\n",
            "",
        ),
    ),
]
