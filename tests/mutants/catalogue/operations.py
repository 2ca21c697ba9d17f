"""Offline operations: rescale, clone, rollback, migrate and bootstrap; savepoints and metadata."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, mutants_of

_RETAIN = "python/cleancut/_checkpoint/retain"


MUTANTS: Sequence[Mutant] = [
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
