"""State is read in batches on demand, and each batch is consistent with the complete state."""

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cleancut import Checkpoint, CorruptedError, RequestError
from cleancut._storage import directory
from tests.support.draws import draws
from tests.unit.checkpoint_files import CheckpointFiles
from tests.unit.cut_files import CutFiles
from tests.unit.random_states import RandomCheckpoint, Rows
from tests.vectors.cut_encoder import Placed
from tests.vectors.frame_cases import FAMILY, identity_of, put, version_id
from tests.vectors.frame_encoder import Change, encode_frame


def flat_rows(batches: pa.RecordBatchReader | pa.Table) -> list[tuple[int, int, int]]:
    """Returns the rows in order: partition, key and value."""
    table = batches.read_all() if isinstance(batches, pa.RecordBatchReader) else batches
    return [
        (row["partition"], row["key"]["id"], row["value"]["count"]) for row in table.to_pylist()
    ]


def expected(of_partitions: list[Rows]) -> list[tuple[int, int, int]]:
    return [(number, *row) for number, rows in enumerate(of_partitions) for row in rows]


def by_key(rows: list[tuple[int, int, int]]) -> dict[tuple[int, int], list[int]]:
    """Returns the values of each key in order."""
    values: dict[tuple[int, int], list[int]] = {}
    for partition, key, value in rows:
        values.setdefault((partition, key), []).append(value)
    return values


@pytest.mark.parametrize("has_cuts", [True, False])
@pytest.mark.parametrize("seed", range(draws(40)))
def test_each_selection_is_a_part_of_the_complete_state(
    seed: int, has_cuts: bool, tmp_path: Path
) -> None:
    draw = Random(seed)
    drawn = RandomCheckpoint(tmp_path / "checkpoint", draw, has_cuts=has_cuts)
    checkpoint = Checkpoint(drawn.location)
    assert checkpoint.verify().problems == ()
    for version, families in drawn.expected.items():
        for family, partitions in families.items():
            if len(partitions) == len(families["default"]):
                check(checkpoint, version, family, partitions, draw)


def check(
    checkpoint: Checkpoint, version: int, family: str, partitions: list[Rows], draw: Random
) -> None:
    def read(**options: object) -> list[tuple[int, int, int]]:
        given: dict[str, Any] = {"version": version, "family": family, **options}
        batches = checkpoint.state_batches(0, **given)
        return flat_rows(batches)

    whole = read()
    assert by_key(whole) == by_key(expected(partitions))
    parts = [row for number in range(len(partitions)) for row in read(partition=number)]
    assert parts == whole
    limit = draw.randrange(len(whole) + 2)
    assert read(limit=limit) == whole[:limit]
    least = draw.randrange(60)
    where = (pc.field("value", "count") >= least) & (pc.field("key", "id") != 3)
    filtered = [row for row in whole if row[2] >= least and row[1] != 3]
    assert read(where=where) == filtered
    assert read(where=where, limit=limit) == filtered[:limit]


@pytest.fixture
def read_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Records the lengths of all byte ranges that are read."""
    lengths: list[int] = []
    read_range = directory.Directory.read_range

    def counted(self: directory.Directory, name: str, offset: int, length: int) -> bytes:
        data = read_range(self, name, offset, length)
        lengths.append(len(data))
        return data

    monkeypatch.setattr(directory.Directory, "read_range", counted)
    return lengths


def large(cuts: CutFiles, *, partitions: int = 2) -> int:
    """Writes partitions of a few MB, each a base of many blocks and a small delta; returns the
    size.
    """
    rows = [put(number, f"customer {number}", number, 0.5) for number in range(20_000)]
    for partition in range(partitions):
        base = encoded(
            "base", 1, [rows[at : at + 500] for at in range(0, len(rows), 500)], partition
        )
        delta = encoded("delta", 2, [rows[:10]], partition)
        stored = cuts.segment(1, [base, delta], number=partition + 1)
        cuts.chains[partition] = stored
    cuts.cut(1)
    return sum(path.stat().st_size for path in cuts.root.glob("segments/*/*"))


def encoded(kind: str, version: int, blocks: list[list[Change]], partition: int) -> Placed:
    parent = None if kind == "base" else (version - 1, version_id(version - 1))
    families = [FAMILY] if kind == "base" else []
    identity = identity_of(version, parent=parent, families=families) | {"partition": partition}
    return Placed(identity, kind, encode_frame(kind, identity, blocks, 20_000).joined(), attempt=1)


@pytest.fixture
def cuts(files: CheckpointFiles) -> CutFiles:
    return CutFiles(files)


def test_a_few_rows_cost_a_small_part_of_the_state(cuts: CutFiles, read_bytes: list[int]) -> None:
    """Three rows of 800,000 took as long as all of them."""
    size = large(cuts)
    checkpoint = Checkpoint(cuts.location)
    assert checkpoint.state(0, limit=3).num_rows == 3
    assert sum(read_bytes) < size / 20
    read_bytes.clear()
    assert checkpoint.state(0, limit=100).num_rows == 100
    assert sum(read_bytes) < size / 10
    read_bytes.clear()
    assert checkpoint.state(0).num_rows == 40_000
    assert sum(read_bytes) >= size * 0.9


def test_an_abandoned_reader_has_read_little(cuts: CutFiles, read_bytes: list[int]) -> None:
    size = large(cuts)
    reader = Checkpoint(cuts.location).state_batches(0)
    batch = reader.read_next_batch()
    assert 0 < batch.num_rows <= 16_384
    assert sum(read_bytes) < size * 0.6


def test_columns_are_chosen_by_name(two_partitions: CheckpointFiles) -> None:
    checkpoint = Checkpoint(two_partitions.location)
    reader = checkpoint.state_batches(0, columns=["value.sum", "key.name", "partition"])
    assert reader.schema.names == ["value.sum", "key.name", "partition"]
    assert reader.schema.metadata[b"cleancut.version"] == b"2"
    assert sorted(reader.read_all().to_pylist(), key=lambda row: row["partition"]) == [
        {"value.sum": 2.5, "key.name": "ada", "partition": 0},
        {"value.sum": 8.0, "key.name": "emmy", "partition": 1},
    ]
    few = checkpoint.state(0, columns=["key.name"], where=pc.field("value", "sum") > 5)
    assert few.to_pylist() == [{"key.name": "emmy"}]
    with pytest.raises(RequestError, match=r"no column value\.x.* value\.count, value\.sum"):
        checkpoint.state_batches(0, columns=["value.x"])
    with pytest.raises(ValueError, match="columns names none"):
        checkpoint.state_batches(0, columns=[])


def test_invalid_selections_are_refused_before_any_read(
    two_partitions: CheckpointFiles,
) -> None:
    checkpoint = Checkpoint(two_partitions.location)
    with pytest.raises(ValueError, match="limit is -3, and cannot be negative"):
        checkpoint.state(0, limit=-3)
    with pytest.raises(pa.ArrowInvalid, match="nope"):
        checkpoint.state_batches(0, where=pc.field("nope") > 1)
    with pytest.raises(TypeError, match="operator is a number, such as 0, and not '0'"):
        checkpoint.state("0")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="partition is a number"):
        checkpoint.state(0, partition="1")  # type: ignore[arg-type]


def test_corruption_after_the_first_batch_is_reported_when_reached(cuts: CutFiles) -> None:
    large(cuts, partitions=1)
    (segment,) = cuts.root.glob("segments/*/*")
    cuts.change(segment, lambda data: data[:1_000_000] + b"\xff" * 8 + data[1_000_008:])
    checkpoint = Checkpoint(cuts.location)
    assert checkpoint.state(0, limit=10).num_rows == 10
    with pytest.raises(CorruptedError) as raised:
        checkpoint.state_batches(0).read_all()
    assert raised.value.error_id == "CLEANCUT_FRAME_CORRUPTED"
    assert raised.value.params["path"] == str(segment)


def test_a_wrong_key_count_is_corruption(files: CheckpointFiles) -> None:
    files.delta(1, [put(1, "ada", 3, 1.5)], 1)
    files.delta(2, [put(2, "lin", 1, 0.5)], 3)
    with pytest.raises(CorruptedError, match="has 2 live keys after it, and its trailer says 3"):
        Checkpoint(files.location).state(0)


def test_a_frame_of_another_predecessor_is_corruption(cuts: CutFiles) -> None:
    identity = identity_of(2, parent=(0, None), families=[FAMILY]) | {"partition": 0}
    other = encode_frame("delta", identity, [[put(2, "lin", 1, 0.5)]], 1).joined()
    cuts.chains[0] = [
        cuts.segment(0, [encoded("base", 1, [[put(1, "ada", 1, 0.5)]], 0)], number=1)[0],
        cuts.segment(1, [Placed(identity, "delta", other)], number=2)[0],
    ]
    cuts.cut(1)
    with pytest.raises(CorruptedError, match="applies to version 0, and the chain has version 1-"):
        Checkpoint(cuts.location).state(0)
