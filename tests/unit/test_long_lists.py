"""Lists whose values fill several blocks of a base."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cleancut import Checkpoint, CorruptedError
from tests.unit.checkpoint_files import CheckpointFiles, name_of
from tests.vectors.frame_cases import FAMILY, LISTS, identity_of, merge
from tests.vectors.frame_encoder import Change, encode_frame, key_hash

HOT, COLD = 5, (1, 2, 3, 4, 6, 7, 8, 9)
VALUES = 1_000
BLOCK = 64
VERSION = 3


def list_of(key: int, counts: Sequence[int]) -> list[Change]:
    """Returns the records of a list in a base: a put, then merges."""
    values = [merge(key, "x", count, 0.5) for count in counts]
    return [Change(values[0].key, values[0].value, LISTS["id"]), *values[1:]]


def records() -> list[Change]:
    lists = [list_of(HOT, range(VALUES)), *(list_of(key, [key, -key]) for key in COLD)]
    lists.sort(key=lambda values: key_hash(values[0].key))
    return [record for values in lists for record in values]


@pytest.fixture
def base(files: CheckpointFiles) -> Path:
    """Writes a base, before it a delta that it replaces, and after it one that appends to two
    lists.
    """
    rows = records()
    blocks = [rows[at : at + BLOCK] for at in range(0, len(rows), BLOCK)]
    hot = [block for block in blocks if any(record.key == hot_key() for record in block)]
    assert len(hot) > VALUES // BLOCK
    keys = 1 + len(COLD)
    identity = identity_of(VERSION, families=[FAMILY, LISTS]) | {"partition": 0}
    data = encode_frame("base", identity, blocks, keys, "zstd").joined()
    directory = files.directory(0, 0)
    directory.mkdir(parents=True)
    path = directory / name_of(VERSION, "base")
    path.write_bytes(data)
    appended = [merge(HOT, "x", VALUES, 0.5), merge(1, "x", 11, 0.5)]
    files.delta(VERSION + 1, appended, keys, families=[])
    return path


def hot_key() -> bytes:
    return merge(HOT, "x", 0, 0.5).key


def counts_of(table: list[dict[str, dict[str, int]]], key: int) -> list[int]:
    return [row["value"]["count"] for row in table if row["key"]["id"] == key]


def test_state_has_each_value_once_and_in_order(base: Path, files: CheckpointFiles) -> None:
    checkpoint = Checkpoint(files.location)
    for epoch, more in ((VERSION - 1, []), (VERSION, [VALUES])):
        table = checkpoint.state(0, family="lists", at=epoch).to_pylist()
        assert counts_of(table, HOT) == [*range(VALUES), *more]
        assert len(table) == VALUES + 2 * len(COLD) + 2 * len(more)
        assert all(counts_of(table, key)[:2] == [key, -key] for key in COLD)


def test_lookup_has_each_value_once_and_in_order(base: Path, files: CheckpointFiles) -> None:
    checkpoint = Checkpoint(files.location)
    rows = checkpoint.lookup(0, (HOT, "x"), family="lists").to_pylist()
    assert counts_of(rows, HOT) == list(range(VALUES + 1))
    for key in COLD:
        rows = checkpoint.lookup(0, (key, "x"), family="lists").to_pylist()
        assert counts_of(rows, key) == [key, -key, *([11] if key == 1 else [])]


def test_a_list_that_begins_in_a_changelog_keeps_its_order(files: CheckpointFiles) -> None:
    files.delta(1, list_of(1, [1, 2, 3]), 1, families=[FAMILY, LISTS])
    files.delta(2, [merge(1, "x", 4, 0.5), merge(1, "x", 5, 0.5)], 1, families=[])
    checkpoint = Checkpoint(files.location)
    for table in (
        checkpoint.state(0, family="lists"),
        checkpoint.lookup(0, (1, "x"), family="lists"),
    ):
        assert counts_of(table.to_pylist(), 1) == [1, 2, 3, 4, 5]


def test_a_merge_into_a_family_without_lists_is_corrupted(files: CheckpointFiles) -> None:
    files.delta(1, [replace(merge(1, "x", 1, 0.5), family=0)], 1)
    with pytest.raises(CorruptedError, match="which has no lists"):
        Checkpoint(files.location).state(0)


def test_verify_accepts_it(base: Path, files: CheckpointFiles) -> None:
    report = Checkpoint(files.location).verify()
    assert report.ok
    assert (report.frames, report.loadable) == (2, 2)


def test_a_list_without_a_block_in_the_middle_is_corrupted(
    base: Path, files: CheckpointFiles
) -> None:
    data = bytearray(base.read_bytes())
    data[len(data) // 2] ^= 1
    base.write_bytes(bytes(data))
    checkpoint = Checkpoint(files.location)
    with pytest.raises(CorruptedError) as raised:
        checkpoint.lookup(0, (HOT, "x"), family="lists")
    assert raised.value.error_id == "CLEANCUT_FRAME_CORRUPTED"
    with pytest.raises(CorruptedError):
        checkpoint.state(0, family="lists")
    (problem,) = checkpoint.verify().problems
    assert Path(problem.object).name == base.name
    assert problem.affects == (VERSION, VERSION + 1)


@pytest.mark.parametrize("appended", [0, 2])
def test_a_list_without_its_first_block_is_corrupted(appended: int, files: CheckpointFiles) -> None:
    """As written by a writer that loses the first block of a list."""
    identity = identity_of(1, families=[FAMILY, LISTS]) | {"partition": 0}
    rows = list_of(HOT, range(10))[5:]
    directory = files.directory(0, 0)
    directory.mkdir(parents=True)
    data = encode_frame("base", identity, [rows], 1, "zstd").joined()
    (directory / name_of(1, "base")).write_bytes(data)
    for version in range(2, 2 + appended):
        files.delta(version, [merge(HOT, "x", 100, 0.5)], 1, families=[])
    checkpoint = Checkpoint(files.location)
    with pytest.raises(CorruptedError):
        checkpoint.state(0, family="lists")
    with pytest.raises(CorruptedError):
        checkpoint.lookup(0, (HOT, "x"), family="lists")
    (problem,) = checkpoint.verify().problems
    assert problem.error_id == "CLEANCUT_FRAME_CORRUPTED"
    assert problem.affects == tuple(range(1, 2 + appended))
