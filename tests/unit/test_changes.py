"""Changes between two states, compared with known states."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from cleancut import Checkpoint, CorruptedError, RequestError
from cleancut._checkpoint.read.history import History
from cleancut._checkpoint.read.root import open_root
from cleancut._checkpoint.tables.changes import change_reader
from cleancut._storage.access import S3Access
from tests.unit.checkpoint_files import CheckpointFiles
from tests.unit.cut_files import CutFiles
from tests.unit.random_states import RandomCheckpoint, Rows
from tests.vectors.frame_cases import put, remove

Values = dict[tuple[int, int], list[int]]


def values_of(partitions: list[Rows]) -> Values:
    values: Values = {}
    for number, rows in enumerate(partitions):
        for key, value in rows:
            values.setdefault((number, key), []).append(value)
    return values


def changed(old: Values, new: Values) -> dict[tuple[int, int], tuple[list[int], list[int]]]:
    return {
        key: (old.get(key, []), new.get(key, []))
        for key in old.keys() | new.keys()
        if old.get(key) != new.get(key)
    }


def counts(side: Any) -> list[int]:
    """Returns the values of a key as a row of changes has them."""
    if side is None:
        return []
    return [value["count"] for value in (side if isinstance(side, list) else [side])]


@pytest.mark.parametrize("has_cuts", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_changes_between_two_states_are_complete(seed: int, has_cuts: bool, tmp_path: Path) -> None:
    drawn = RandomCheckpoint(tmp_path / "checkpoint", Random(seed), has_cuts=has_cuts)
    checkpoint = Checkpoint(drawn.location)
    versions = sorted(drawn.expected)
    for before, after in zip(versions, [*versions[1:], versions[0]], strict=True):
        pair = drawn.expected[before], drawn.expected[after]
        differing = {}
        # The generator decides which partitions lack a family, so only complete families are
        # compared.
        whole = [
            {name for name in state if len(state[name]) == len(state["default"])} for state in pair
        ]
        for family in sorted(whole[0] & whole[1]):
            known = changed(*(values_of(state.get(family, [])) for state in pair))
            changes = checkpoint.changes(0, before - 1, after - 1, family=family).read_all()
            assert {
                (change["partition"], change["key"]["id"]): (
                    counts(change["before"]),
                    counts(change["after"]),
                )
                for change in changes.to_pylist()
            } == known
            kinds = changes.column("change").to_pylist()
            assert len(kinds) == len(known)
            if known:
                differing[family] = tuple(map(kinds.count, ("added", "changed", "removed")))
        families = checkpoint.diff(before - 1, after - 1)
        found_in = {diff.family: (diff.added, diff.changed, diff.removed) for diff in families}
        assert {
            name: found_in[name] for name in found_in if name in whole[0] & whole[1]
        } == differing


@pytest.fixture
def level_0(files: CheckpointFiles) -> Checkpoint:
    files.delta(1, [put(1, "ada", 3, 1.5), put(2, "grace", 1, 0.5)], 2)
    files.delta(2, [put(1, "ada", 4, 2.5), remove(2, "grace"), put(4, "emmy", 2, 8.0)], 2)
    return Checkpoint(files.location)


def test_states_with_different_partitions_are_compared(files: CheckpointFiles) -> None:
    """As before and after a rescale to one partition or from one."""
    for partition, names in enumerate((["ada", "emmy"], ["grace"])):
        rows = [put(len(name), name, 1, 0.5) for name in names]
        files.delta(1, rows, len(rows), operator=0, partition=partition)
    files.delta(1, [put(3, "ada", 1, 0.5), put(5, "grace", 2, 0.5)], 2, operator=1)
    history = History(open_root(files.location, S3Access()))
    several, one = (history.named(0).of(operator, "default") for operator in (0, 1))
    for before, after, expected in (
        (several, one, {"changed": 1, "removed": 1}),
        (one, several, {"changed": 1, "added": 1}),
    ):
        changes = change_reader(history, before, after, "default").read_all()
        kinds = changes.column("change").to_pylist()
        assert {kind: kinds.count(kind) for kind in kinds} == expected


def test_changes_have_the_types_of_the_state(level_0: Checkpoint) -> None:
    changes = level_0.changes(0, 0).read_all()
    state = level_0.state(0).schema
    assert changes.schema.names == ["change", "key", "before", "after", "partition"]
    assert changes.schema.field("key").type == state.field("key").type
    assert changes.schema.field("after").type == state.field("value").type
    by_name = {change["key"]["name"]: change for change in changes.to_pylist()}
    assert by_name["ada"]["before"] == {"count": 3, "sum": 1.5}
    assert by_name["ada"]["after"] == {"count": 4, "sum": 2.5}
    assert by_name["grace"]["after"] is None
    assert by_name["grace"]["change"] == "removed"
    assert by_name["emmy"]["before"] is None
    assert by_name["emmy"]["change"] == "added"


def test_a_diff_reports_the_growth_in_bytes(level_0: Checkpoint) -> None:
    (diff,) = level_0.diff(0)
    assert (diff.operator, diff.store, diff.family) == (0, "default", "default")
    assert (diff.added, diff.changed, diff.removed, diff.partitions) == (1, 1, 1, 1)
    (back,) = level_0.diff(1, 0)
    assert (back.added, back.changed, back.removed) == (1, 1, 1)
    assert diff.bytes == -back.bytes
    assert level_0.diff(1, 1) == []
    assert level_0.changes(0, 1, 1).read_all().num_rows == 0


def test_missing_states_are_named(level_0: Checkpoint) -> None:
    for ask in (lambda: level_0.diff(7), lambda: level_0.changes(0, 0, 7)):
        with pytest.raises(RequestError, match="epoch 7") as error:
            ask()
        assert error.value.error_id == "CLEANCUT_STATE_NOT_FOUND"
    for ask in (lambda: level_0.diff("no"), lambda: level_0.skew("no")):
        with pytest.raises(RequestError, match="savepoint no"):
            ask()
    with pytest.raises(RequestError, match="column family other"):
        level_0.changes(0, 0, family="other")
    for wrong in (1.5, True, None):
        with pytest.raises(TypeError, match="epoch or the name of a savepoint"):
            level_0.diff(wrong)  # type: ignore[arg-type]


def test_damage_is_an_error_instead_of_a_difference(files: CheckpointFiles) -> None:
    files.delta(1, [put(1, "ada", 3, 1.5)], 1)
    path = files.delta(2, [put(1, "ada", 4, 2.5)], 1)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptedError):
        Checkpoint(files.location).diff(0)


def test_in_flight_rows_are_listed_in_order(
    four_cuts: CutFiles,
) -> None:
    checkpoint = Checkpoint(str(four_cuts.location))
    last = checkpoint.cuts()[-1].epoch
    none = checkpoint.in_flight(0)
    assert (none.num_rows, none.column_names) == (0, ["row", "number", "partition"])
    four_cuts.in_flight(1, {number: put(0, "x", 10 * number, 0.5) for number in (2, 0, 1)})
    assert checkpoint.in_flight(0).to_pylist() == [
        {"row": {"count": 10 * number, "sum": 0.5}, "number": number, "partition": 1}
        for number in range(3)
    ]
    assert checkpoint.in_flight(0, at=last).num_rows == 0
    assert checkpoint.in_flight(0, side=1).num_rows == 0
    assert checkpoint.diff(last) == []
    with pytest.raises(RequestError, match="epoch 77"):
        checkpoint.in_flight(0, at=77)


def test_skew_names_the_largest_partition(files: CheckpointFiles) -> None:
    for partition in range(5):
        many = [put(i, "x", i, 0.5) for i in range(300 if partition == 3 else 3)]
        files.delta(1, many, len(many), partition=partition)
    (skew,) = Checkpoint(files.location).skew()
    assert (skew.operator, skew.store, skew.partitions, skew.largest) == (0, "default", 5, 3)
    assert skew.factor == pytest.approx(skew.largest_bytes / skew.median_bytes, abs=0.01)
    assert skew.bytes == skew.largest_bytes + 4 * skew.median_bytes
    assert skew.factor > 2
