"""A lookup finds one key of a state and reads few objects."""

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleancut import Checkpoint, CorruptedError, RequestError
from cleancut._checkpoint.read.history import History
from cleancut._checkpoint.read.root import Root, open_root
from cleancut._checkpoint.tables.lookup import Operator, rows_of_key
from cleancut._cli import main as _cli
from cleancut._format.frame.key_hash import key_hash
from cleancut._storage.access import S3Access
from cleancut._storage.objects import Place, Stored
from cleancut._unsafe_rows.encoder import Texts, cells_of, encoded
from cleancut._unsafe_rows.schema import struct_of
from cleancut._unsafe_rows.spread import partition_of
from tests.support.draws import draws
from tests.unit.checkpoint_files import CheckpointFiles, name_of
from tests.unit.random_states import KEYS, RandomCheckpoint
from tests.unit.test_changes import values_of
from tests.unit.test_rows import SCALARS, values
from tests.vectors.frame_cases import FAMILY, identity_of, put
from tests.vectors.frame_encoder import Index, encode_frame, row_size
from tests.vectors.frame_encoder import key_hash as key_hash_of_vectors
from tests.vectors.row_encoder import encode_row, struct_type


@pytest.mark.parametrize("has_cuts", [True, False])
@pytest.mark.parametrize("seed", range(draws(8)))
def test_each_key_of_each_state_is_found(seed: int, has_cuts: bool, tmp_path: Path) -> None:
    drawn = RandomCheckpoint(tmp_path / "checkpoint", Random(seed), has_cuts=has_cuts)
    checkpoint = Checkpoint(drawn.location)
    for version, families in drawn.expected.items():
        # The generator decides which partitions lack a family, so only complete families are
        # compared.
        whole = [family for family in families if len(families[family]) == len(families["default"])]
        for family in whole:
            known = values_of(families[family])
            for key in range(KEYS + 2):
                table = checkpoint.lookup(0, (key, "x"), family=family, at=version - 1)
                rows: dict[int, list[int]] = {}
                for row in table.to_pylist():
                    assert row["key"] == {"id": key, "name": "x"}
                    rows.setdefault(row["partition"], []).append(row["value"]["count"])
                expected = {
                    partition: counts
                    for (partition, stored_key), counts in known.items()
                    if stored_key == key
                }
                assert rows == expected, (version, family, key)


class Counted:
    """Counts the requests to a checkpoint."""

    def __init__(self, objects: Place) -> None:
        self._objects = objects
        self.requests: list[tuple[str, int | None]] = []

    def above(self) -> Place:
        return self._objects.above()

    def path(self, name: str) -> str:
        return self._objects.path(name)

    def list(self, below: str) -> Mapping[str, int]:
        return self._objects.list(below)

    def details(self, below: str) -> Mapping[str, Stored]:
        raise AssertionError(below)

    def read(self, name: str) -> bytes:
        self.requests.append((name, None))
        return self._objects.read(name)

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        self.requests.append((name, length))
        return self._objects.read_range(name, offset, length)

    def create(self, name: str, data: bytes) -> bool:
        raise AssertionError(name)

    def create_in_parts(self, name: str, parts: Iterator[bytes]) -> bool:
        raise AssertionError(name)

    def delete(self, name: str) -> None:
        raise AssertionError(name)


def large_base(files: CheckpointFiles, keys: int, name: str = "x" * 100) -> bytes:
    rows = [put(key, name, key, 0.5) for key in range(keys)]
    rows.sort(key=lambda row: key_hash_of_vectors(row.key))
    size = min(400, keys // 3)
    every = [rows[at : at + size] for at in range(0, keys, size)]
    index = Index({0: (keys, sum(map(row_size, rows)))}, has_blocks=True)
    identity = identity_of(1, parent=None, families=[FAMILY]) | {"partition": 0}
    data = encode_frame("base", identity, every, keys, "none", index).joined()
    write_base(files, data)
    return data


def write_base(files: CheckpointFiles, data: bytes) -> None:
    directory = files.directory(0, 0)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name_of(1, "base")).write_bytes(data)


@pytest.mark.parametrize("keys", [2_000, 20_000])
def test_the_bytes_read_for_a_key_do_not_grow_with_the_base(
    keys: int, files: CheckpointFiles
) -> None:
    size = len(large_base(files, keys))
    root = open_root(files.location, S3Access())
    counted = Counted(root.objects)
    history = History(Root(root.location, counted))
    stored = history.named(0).of(0, "default")
    rows = rows_of_key(history, root.checkpoint, stored, 0, "default", (keys // 2, "x" * 100))
    assert rows.column("value").to_pylist() == [{"count": keys // 2, "sum": 0.5}]
    read = [length for _, length in counted.requests if length is not None]
    assert len(read) <= 4
    assert sum(read) < 450_000
    assert size > 150 * keys


def test_a_corrupted_byte_of_a_base_is_never_a_wrong_answer(files: CheckpointFiles) -> None:
    data = large_base(files, 6, "x")
    key = (5, "x")
    detected = 0
    changed = Random(5).sample(range(len(data)), draws(len(data)))
    for at in changed:
        write_base(files, data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :])
        try:
            rows = Checkpoint(files.location).lookup(0, key).to_pylist()
            assert [row["value"]["count"] for row in rows] == [5]
        except (CorruptedError, RequestError):
            detected += 1
    # A block without the key is not read.
    assert len(changed) // 2 < detected < len(changed)


keys_of_spark = sorted(set(SCALARS) - {"void", "interval", "time(6)"})


@st.composite
def keys(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    kinds = draw(st.lists(st.sampled_from(keys_of_spark), min_size=1, max_size=4))
    inner = draw(st.lists(st.sampled_from(keys_of_spark), max_size=3))
    types: dict[str, Any] = {f"f{at}": kind for at, kind in enumerate(kinds)}
    if inner:
        types["inner"] = struct_type(**{f"g{at}": kind for at, kind in enumerate(inner)})
    schema = struct_type(**types)
    row = {field["name"]: draw(values(field["type"])) for field in schema["fields"]}
    return schema, row


@given(keys())
def test_a_key_is_encoded_as_the_format_specifies(case: tuple[dict[str, Any], Any]) -> None:
    schema, row = case
    cells = encoded(cells_of(struct_of(schema, "key"), positive(row), "key"))
    assert cells == encode_row(schema, positive(row))


def positive(value: Any) -> Any:
    """Replaces negative zeros: Spark has one zero in keys."""
    if isinstance(value, dict):
        return {name: positive(field) for name, field in value.items()}
    return 0.0 if isinstance(value, float) and value == 0 else value


def test_equal_numbers_in_keys_have_equal_bytes() -> None:
    row = struct_of(struct_type(a="double", b="float"), "key")
    assert encoded(cells_of(row, (-0.0, -0.0), "key")) == bytes(24)
    other = -math.nan
    assert encoded(cells_of(row, (other, other), "key")) == encoded(
        cells_of(row, (math.nan, math.nan), "key")
    )


def test_numbers_of_numpy_are_normalized_too() -> None:
    row = struct_of(struct_type(a="float"), "key")
    assert encoded(cells_of(row, np.float32(-0.0), "key")) == bytes(16)


def test_keys_that_spark_does_not_normalize_keep_their_bits() -> None:
    row = struct_of(struct_type(a="double", b=struct_type(c="float")), "key")
    cells = cells_of(row, (-0.0, (-0.0,)), "key", normalized=False)
    assert encoded(cells) == encode_row(
        struct_type(a="double", b=struct_type(c="float")), {"a": -0.0, "b": {"c": -0.0}}
    )
    assert Operator("stateStoreSave").normalizes_keys
    assert not Operator("flatMapGroupsWithState").normalizes_keys


@given(st.binary(max_size=40))
def test_keys_have_the_hashes_of_the_vectors(key: bytes) -> None:
    assert key_hash(key) == key_hash_of_vectors(key)


# SELECT pmod(hash(...), 1000) of Spark 4.3.0.
@pytest.mark.parametrize(
    ("kind", "value", "partition"),
    [
        ("integer", 42, 773),
        ("long", -7, 16),
        ("short", -3, 586),
        ("boolean", True, 43),
        ("string", "", 372),
        ("string", "flüge", 793),
        ("string", "ninechars", 715),
        ("binary", b"\xff\x00\x80", 262),
        ("double", 2.5, 256),
        ("double", -0.0, 805),
        ("float", 1.25, 154),
        ("date", datetime(2026, 11, 25, tzinfo=UTC).date(), 999),
        ("timestamp", datetime(2026, 11, 25, 1, 2, 3, tzinfo=UTC), 484),
        ("decimal(10,2)", Decimal("12.34"), 331),
        ("decimal(30,4)", Decimal("-123456789012345678901234.5678"), 813),
        ("integer", None, 42),
        (struct_type(a="long", b="string"), (1, "x"), 360),
    ],
)
def test_a_key_is_in_the_partition_where_spark_sends_it(
    kind: Any, value: object, partition: int
) -> None:
    cells = cells_of(struct_of(struct_type(f=kind), "key"), [value], "key")
    assert partition_of(cells, 1000) == partition


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (1, "key has the fields id, name, and is given as 1"),
        ((1,), "key has 2 fields, id, name, not (1,)"),
        ({"id": 1}, "key has the fields id, name, and not id"),
        (("1", "x"), "key.id is of type int64, and '1' is none"),
        ((1.5, "x"), "key.id is of type int64, and 1.5 is none"),
        ((True, "x"), "key.id is of type int64, and True is none"),
        ((1, 2), "key.name is of type string, and 2 is none"),
        ((1 << 63, "x"), "key.id is of type int64, and 9223372036854775808 is none"),
    ],
)
def test_a_key_of_another_type_is_refused(
    key: object, problem: str, files: CheckpointFiles
) -> None:
    files.delta(1, [put(1, "x", 1, 0.5)], 1)
    with pytest.raises(TypeError) as raised:
        Checkpoint(files.location).lookup(0, key)
    assert str(raised.value) == problem


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_the_command_accepts_a_key_as_text(
    form: list[str], files: CheckpointFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    files.delta(1, [put(7, "x y", 3, 0.5)], 1)
    command = ["lookup", str(files.location), "--operator", "0", *form, "--key"]
    assert _cli.main([*command, "7", "x y"]) == 0
    assert "x y" in capsys.readouterr().out
    assert _cli.main([*command, "8", "x y"]) == 0
    assert "x y" not in capsys.readouterr().out
    assert _cli.main([*command, "seven", "x y"]) == 2
    said = "key.id is of type int64, and cannot be read from 'seven'"
    assert said in capsys.readouterr().err.splitlines()[0]
    assert _cli.main([*command, "7"]) == 2
    assert "key has 2 fields, id, name, not ('7',)" in capsys.readouterr().err.splitlines()[0]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("decimal(10,2)", "12.30", Decimal("12.3")),
        ("timestamp", "2026-11-25T01:02:03Z", datetime(2026, 11, 25, 1, 2, 3, tzinfo=UTC)),
        ("timestamp_ntz", "2026-11-25 01:02:03", datetime(2026, 11, 25, 1, 2, 3)),
        ("date", "2026-11-25", datetime(2026, 11, 25).date()),
        ("boolean", "true", True),
        ("double", "2.5", 2.5),
        ("binary", "ff00", b"\xff\x00"),
        (struct_type(a="long", b="string"), '{"a": 1, "b": "x"}', (1, "x")),
    ],
)
def test_texts_are_read_as_their_types(kind: Any, text: str, value: object) -> None:
    row = struct_of(struct_type(f=kind), "key")
    assert cells_of(row, Texts([text]), "key") == cells_of(row, [value], "key")


def test_a_missing_state_is_reported_with_the_existing_ones(files: CheckpointFiles) -> None:
    files.delta(1, [put(1, "x", 1, 0.5)], 1)
    checkpoint = Checkpoint(files.location)
    assert checkpoint.lookup(0, (1, "x")).num_rows == 1
    assert checkpoint.lookup(0, (2, "x")).num_rows == 0
    with pytest.raises(RequestError, match="column family other"):
        checkpoint.lookup(0, (1, "x"), family="other")
    with pytest.raises(RequestError, match="operator=3"):
        checkpoint.lookup(3, (1, "x"))
    with pytest.raises(TypeError, match="at is an epoch or the name of a savepoint"):
        checkpoint.lookup(0, (1, "x"), at=1.5)  # type: ignore[arg-type]
