"""What differs between two states, against states that are known."""

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
from tests.unit.drawn_states import DrawnCheckpoint, Rows
from tests.vectors.frame_cases import put, remove

Values = dict[tuple[int, int], list[int]]


def values_of(partitions: list[Rows]) -> Values:
    found: Values = {}
    for number, rows in enumerate(partitions):
        for key, value in rows:
            found.setdefault((number, key), []).append(value)
    return found


def changed(old: Values, new: Values) -> dict[tuple[int, int], tuple[list[int], list[int]]]:
    return {
        key: (old.get(key, []), new.get(key, []))
        for key in old.keys() | new.keys()
        if old.get(key) != new.get(key)
    }


def counts(side: Any) -> list[int]:
    """The values of a key, as a row of changes has them."""
    if side is None:
        return []
    return [of["count"] for of in (side if isinstance(side, list) else [side])]


@pytest.mark.parametrize("has_cuts", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_each_pair_of_states_differs_in_what_has_changed(
    seed: int, has_cuts: bool, tmp_path: Path
) -> None:
    drawn = DrawnCheckpoint(tmp_path / "checkpoint", Random(seed), has_cuts=has_cuts)
    checkpoint = Checkpoint(drawn.location)
    versions = sorted(drawn.expected)
    for before, after in zip(versions, [*versions[1:], versions[0]], strict=True):
        pair = drawn.expected[before], drawn.expected[after]
        differing = {}
        # Of families that some partitions lack it is not drawn which.
        whole = [{of for of in state if len(state[of]) == len(state["default"])} for state in pair]
        for family in sorted(whole[0] & whole[1]):
            known = changed(*(values_of(of.get(family, [])) for of in pair))
            found = checkpoint.changes(0, before - 1, after - 1, family=family).read_all()
            assert {
                (of["partition"], of["key"]["id"]): (counts(of["before"]), counts(of["after"]))
                for of in found.to_pylist()
            } == known
            kinds = found.column("change").to_pylist()
            assert len(kinds) == len(known)
            if known:
                differing[family] = tuple(map(kinds.count, ("added", "changed", "removed")))
        told = checkpoint.diff(before - 1, after - 1)
        found_in = {of.family: (of.added, of.changed, of.removed) for of in told}
        assert {of: found_in[of] for of in found_in if of in whole[0] & whole[1]} == differing


@pytest.fixture
def level_0(files: CheckpointFiles) -> Checkpoint:
    files.delta(1, [put(1, "ada", 3, 1.5), put(2, "grace", 1, 0.5)], 2)
    files.delta(2, [put(1, "ada", 4, 2.5), remove(2, "grace"), put(4, "emmy", 2, 8.0)], 2)
    return Checkpoint(files.location)


def test_states_of_other_partitions_are_compared_as_a_whole(files: CheckpointFiles) -> None:
    """As before and after a rescale, to one partition and from it."""
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
        found = change_reader(history, before, after, "default").read_all()
        kinds = found.column("change").to_pylist()
        assert {kind: kinds.count(kind) for kind in kinds} == expected


def test_changes_have_the_types_of_the_state(level_0: Checkpoint) -> None:
    found = level_0.changes(0, 0).read_all()
    state = level_0.state(0).schema
    assert found.schema.names == ["change", "key", "before", "after", "partition"]
    assert found.schema.field("key").type == state.field("key").type
    assert found.schema.field("after").type == state.field("value").type
    by_name = {of["key"]["name"]: of for of in found.to_pylist()}
    assert by_name["ada"]["before"] == {"count": 3, "sum": 1.5}
    assert by_name["ada"]["after"] == {"count": 4, "sum": 2.5}
    assert by_name["grace"]["after"] is None
    assert by_name["grace"]["change"] == "removed"
    assert by_name["emmy"]["before"] is None
    assert by_name["emmy"]["change"] == "added"


def test_a_diff_tells_by_how_much_the_rows_have_grown(level_0: Checkpoint) -> None:
    (told,) = level_0.diff(0)
    assert (told.operator, told.store, told.family) == (0, "default", "default")
    assert (told.added, told.changed, told.removed, told.partitions) == (1, 1, 1, 1)
    (back,) = level_0.diff(1, 0)
    assert (back.added, back.changed, back.removed) == (1, 1, 1)
    assert told.bytes == -back.bytes
    assert level_0.diff(1, 1) == []
    assert level_0.changes(0, 1, 1).read_all().num_rows == 0


def test_states_that_are_not_there_are_named(level_0: Checkpoint) -> None:
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


def test_damage_is_an_error_and_no_difference(files: CheckpointFiles) -> None:
    files.delta(1, [put(1, "ada", 3, 1.5)], 1)
    path = files.delta(2, [put(1, "ada", 4, 2.5)], 1)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptedError):
        Checkpoint(files.location).diff(0)


def test_rows_in_flight_come_in_their_order_and_most_cuts_have_none(
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
    (told,) = Checkpoint(files.location).skew()
    assert (told.operator, told.store, told.partitions, told.largest) == (0, "default", 5, 3)
    assert told.factor == pytest.approx(told.largest_bytes / told.median_bytes, abs=0.01)
    assert told.bytes == told.largest_bytes + 4 * told.median_bytes
    assert told.factor > 2
