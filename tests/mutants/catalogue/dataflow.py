"""Dataflows: the decision on a vector, its record, and what keeps the cuts of its members."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, mutants_of

_DATAFLOW = "python/cleancut/dataflow"

_MODEL_TESTS = (
    "tests/unit/test_flow_vector.py",
    "tests/unit/test_flow.py",
    "tests/unit/test_flow_coordinator.py",
)
_COORDINATOR_TESTS = (
    "tests/unit/test_flow_coordinator.py",
    "tests/unit/test_flow.py",
    "tests/unit/test_flow_simulation.py::test_every_visible_vector_is_consistent",
)

MUTANTS: Sequence[Mutant] = [
    *mutants_of(
        "dataflows",
        f"{_DATAFLOW}/_model/vector.py",
        _MODEL_TESTS,
        (
            "a cut that has consumed the last epoch of its sender is too new",
            "and received.epoch > vector[received.sender]",
            "and received.epoch >= vector[received.sender]",
        ),
        (
            "members are lowered once only",
            "            lowered = True\n    return",
            "            lowered = False\n    return",
        ),
        (
            "a member without an older cut remains",
            "            if at[member] == 0:\n"
            "                return Outcome(None, {}, {member: ahead})\n",
            "            if at[member] == 0:\n                continue\n",
        ),
    ),
    *mutants_of(
        "dataflows",
        f"{_DATAFLOW}/_model/facts.py",
        _MODEL_TESTS,
        (
            "rolled back epochs count",
            "            if epoch > source:\n                return False\n",
            "",
        ),
        ("operations that were rolled back count", "            until = source\n", ""),
        (
            "the last of several operations has the source of its record",
            "known[operation] = min(source, known.get(operation, source))",
            "known[operation] = source",
        ),
        (
            "operations after a cut belong to its lineage",
            "operation for operation in self.operations if operation[0] <= epoch",
            "operation for operation in self.operations",
        ),
    ),
    *mutants_of(
        "dataflows",
        f"{_DATAFLOW}/_cuts/decision.py",
        _MODEL_TESTS,
        (
            "consumed epochs that the sender has rolled back count",
            "if sender is not None and "
            "not lineages[sender].also(operations).counts(consumed.epoch):",
            "if False:",
        ),
        (
            "operations that only the channel has recorded are ignored",
            "lineages[sender].also(operations).counts",
            "lineages[sender].counts",
        ),
        (
            "a query that has begun may be at its beginning",
            "if not view.has_begun and view.trouble is None:",
            "if view.trouble is None:",
        ),
    ),
    *mutants_of(
        "dataflows",
        f"{_DATAFLOW}/_cuts/channels.py",
        _COORDINATOR_TESTS,
        (
            "hidden epochs count",
            "        if (epoch, attempt) in self.back:\n"
            '            return f"epoch {epoch} is hidden"\n',
            "",
        ),
        (
            "an epoch that was published again counts as the consumed one",
            'return None if is_same else f"epoch {epoch} was published again since"',
            "return None",
        ),
        (
            "rolled back epochs are in flight",
            "if edge.consumed < epoch <= edge.sent and edge.lineage.counts(epoch):",
            "if edge.consumed < epoch <= edge.sent:",
        ),
        (
            "a channel without a known sender is no constraint",
            "        if self.owner is None:\n            # Treated",
            "        if False:\n            # Treated",
        ),
    ),
    *mutants_of(
        "dataflows",
        f"{_DATAFLOW}/_cuts/coordinator.py",
        _COORDINATOR_TESTS,
        (
            "the last vector is returned although another coordinator has begun",
            "            if self.is_followed():\n                raise self._followed()\n"
            "            return last\n",
            "            return last\n",
        ),
        (
            "savepoints of a failed attempt remain",
            "        except BaseException:\n            self._unpin(fresh)\n            raise\n",
            "        except BaseException:\n            raise\n",
        ),
        (
            "channels that change meanwhile are ignored",
            "            if problem is not None:\n                raise _TryAgainError(f",
            "            if False:\n                raise _TryAgainError(f",
        ),
        (
            "a coordinator that was followed expires vectors",
            "            raise self._followed()\n        stay = ",
            "            pass\n        stay = ",
        ),
        (
            "a vector without changes is written again",
            "if last is not None and not force and self._is_same(last, decision.chosen):",
            "if False:",
        ),
    ),
    *mutants_of(
        "dataflows",
        f"{_DATAFLOW}/_store/log.py",
        _COORDINATOR_TESTS,
        (
            "an entry of another coordinator counts as the own vector",
            "    if not store.create(names.vector_name(record.number), record.encode()):\n"
            "        entry",
            "    store.create(names.vector_name(record.number), record.encode())\n"
            "    if False:\n        entry",
        ),
        (
            "vectors without their savepoints count",
            "return [vector for vector in vectors "
            "if all(_is_kept(cut, there) for cut in vector.members)]",
            "return vectors",
        ),
        (
            "savepoints that other vectors need are dropped",
            "for place, pin in gone - kept if pin",
            "for place, pin in gone if pin",
        ),
        (
            "savepoints of another dataflow are dropped",
            "pin is not None and pin.flow == flow and pin.generation",
            "pin is not None and pin.generation",
        ),
        (
            "savepoints of vectors are dropped at the start",
            " and (checkpoint, name) not in named",
            "",
        ),
        (
            "vectors with a name expire",
            "kept = {*named, *(entry.number for entry in entries[-keep:])}",
            "kept = {*(entry.number for entry in entries[-keep:])}",
        ),
        (
            "young entries of earlier coordinators are deleted",
            " and entry.written_ms < since_ms\n",
            "\n",
        ),
    ),
]
