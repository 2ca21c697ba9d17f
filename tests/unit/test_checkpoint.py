"""Reads a checkpoint without a JVM."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import cleancut
from cleancut import Checkpoint, CorruptedError, RequestError
from cleancut.types import StoreInfo
from tests.unit.checkpoint_files import CheckpointFiles, name_of
from tests.unit.rendered_html import RenderedHtml
from tests.vectors.frame_cases import FAMILY, LISTS, merge, put, version_id
from tests.vectors.frame_encoder import Change
from tests.vectors.row_encoder import encode_row, struct_type


def rows(table: pa.Table) -> list[tuple[int, str, int, float, int]]:
    """Returns the rows of a table as sorted tuples."""
    return sorted(
        (
            row["key"]["id"],
            row["key"]["name"],
            row["value"]["count"],
            row["value"]["sum"],
            row["partition"],
        )
        for row in table.to_pylist()
    )


def test_stores_are_listed_with_their_versions(two_partitions: CheckpointFiles) -> None:
    two_partitions.delta(1, [], 0, operator=2, store="left-keyToNumValues")
    stores = Checkpoint(two_partitions.location).stores()
    size = sum(path.stat().st_size for path in two_partitions.directory(0, 0).iterdir())
    assert stores[0] == StoreInfo(0, 0, "default", (1, 2, 3), 3, size)
    assert [(s.operator, s.partition, s.store, s.versions) for s in stores[1:]] == [
        (0, 1, "default", (1, 2)),
        (2, 0, "left-keyToNumValues", (1,)),
    ]


def test_state_is_read_at_the_last_version_that_all_partitions_have(
    two_partitions: CheckpointFiles,
) -> None:
    table = Checkpoint(two_partitions.location).state(0)
    assert rows(table) == [(1, "ada", 4, 2.5, 0), (4, "emmy", 2, 8.0, 1)]
    assert table.schema.metadata[b"cleancut.version"] == b"2"
    assert table.schema.names == ["key", "value", "partition"]
    assert table.schema.field("partition").type == pa.int32()
    assert table.schema.field("key").type == pa.struct([("id", pa.int64()), ("name", pa.string())])


def test_one_partition_is_read_at_the_common_version_too(two_partitions: CheckpointFiles) -> None:
    checkpoint = Checkpoint(two_partitions.location)
    assert rows(checkpoint.state(0, partition=0)) == [(1, "ada", 4, 2.5, 0)]
    assert rows(checkpoint.state(0, partition=1)) == [(4, "emmy", 2, 8.0, 1)]


def test_an_older_version_is_read_as_it_was(two_partitions: CheckpointFiles) -> None:
    table = Checkpoint(two_partitions.location).state(0, version=1)
    assert rows(table) == [(1, "ada", 3, 1.5, 0), (2, "grace", 1, 0.5, 0)]


def test_an_empty_state_keeps_its_types(files: CheckpointFiles) -> None:
    files.delta(1, [], 0)
    table = Checkpoint(files.location).state(0)
    assert table.num_rows == 0
    assert table.schema.field("value").type == pa.struct(
        [("count", pa.int64()), ("sum", pa.float64())]
    )


def test_many_rows_are_read_in_batches_of_limited_size(files: CheckpointFiles) -> None:
    files.delta(1, [put(i, "x", i, 0.5) for i in range(40_000)], 40_000)
    table = Checkpoint(files.location).state(0)
    assert table.num_rows == 40_000
    assert table.column("key").num_chunks == 3
    assert sorted(table.column("value").combine_chunks().field("count").to_pylist()) == list(
        range(40_000)
    )


def test_a_global_aggregation_has_an_empty_key(files: CheckpointFiles) -> None:
    empty, value = struct_type(), struct_type(count="long")
    family = FAMILY | {"keySchema": empty, "valueSchema": value}
    change = Change(encode_row(empty, {}), encode_row(value, {"count": 5}))
    files.delta(1, [change], 1, families=[family])
    table = Checkpoint(files.location).state(0)
    assert table.to_pylist() == [{"key": {}, "value": {"count": 5}, "partition": 0}]


def test_a_column_family_is_read_by_its_name(files: CheckpointFiles) -> None:
    value = struct_type(at="timestamp")
    timers = FAMILY | {"id": 3, "name": "timers", "valueSchema": value}
    ada = put(1, "ada", 3, 1.5)
    timer = Change(ada.key, encode_row(value, {"at": None}), family=3)
    files.delta(1, [ada, timer], 2, families=[FAMILY, timers])
    checkpoint = Checkpoint(files.location)
    assert rows(checkpoint.state(0)) == [(1, "ada", 3, 1.5, 0)]
    assert checkpoint.state(0, family="timers").column("value").to_pylist() == [{"at": None}]
    with pytest.raises(RequestError, match="families default, timers"):
        checkpoint.state(0, family="other")


def test_a_list_of_values_has_a_row_for_each(files: CheckpointFiles) -> None:
    values = [replace(put(1, "ada", 3, 1.5), family=1), merge(1, "ada", 4, 2.5)]
    files.delta(1, [put(2, "lin", 1, 0.5), *values], 2, families=[FAMILY, LISTS])
    files.delta(2, [merge(1, "ada", 4, 2.5)], 2, families=[])
    checkpoint = Checkpoint(files.location)
    lists = rows(checkpoint.state(0, family="lists"))
    assert lists == [(1, "ada", 3, 1.5, 0), (1, "ada", 4, 2.5, 0), (1, "ada", 4, 2.5, 0)]
    families = [(f.name, f.keys, f.is_multi_valued) for f in checkpoint.families(0)]
    assert families == [("default", 1, False), ("lists", 1, True)]
    assert checkpoint.verify().ok


def test_a_family_in_an_encoding_of_spark_is_refused(files: CheckpointFiles) -> None:
    avro = FAMILY | {"encoding": "avro"}
    files.delta(1, [put(1, "ada", 3, 1.5)], 1, families=[avro])
    checkpoint = Checkpoint(files.location)
    assert [family.encoding for family in checkpoint.families(0)] == ["avro"]
    with pytest.raises(RequestError, match=r"CLEANCUT_COLUMN_UNREADABLE.*avro"):
        checkpoint.state(0)


def test_a_table_can_be_written_to_parquet(two_partitions: CheckpointFiles, tmp_path: Path) -> None:
    table = Checkpoint(two_partitions.location).state(0)
    pyarrow.parquet.write_table(table, tmp_path / "state.parquet")
    assert rows(pyarrow.parquet.read_table(tmp_path / "state.parquet")) == rows(table)


def test_frames_are_described(two_partitions: CheckpointFiles) -> None:
    path = two_partitions.base(2, [put(1, "ada", 4, 2.5)])
    delta, base = sorted(
        Checkpoint(two_partitions.location).frames(0, 0, version=2), key=lambda frame: frame.kind
    )
    assert (delta.kind, delta.records, delta.blocks, delta.keys) == ("changelog", 2, 1, 1)
    assert (delta.parent_version, delta.parent_id) == (1, version_id(1))
    assert (base.kind, base.records, base.parent_version) == ("snapshot", 1, None)
    assert base.file_bytes == path.stat().st_size
    assert base.codec == "zstd"
    assert 0 < base.stored_bytes < base.file_bytes
    assert base.raw_bytes == 4 + len(put(1, "ada", 4, 2.5).key) + 24
    frames = Checkpoint(two_partitions.location).frames(0, 0)
    assert [frame.version for frame in frames] == [1, 2, 2, 3]


def test_a_growing_checkpoint_is_seen_as_it_is_now(two_partitions: CheckpointFiles) -> None:
    checkpoint = Checkpoint(two_partitions.location)
    assert checkpoint.versions(0, 1) == (1, 2)
    two_partitions.delta(3, [], 1, partition=1)
    assert checkpoint.versions(0, 1) == (1, 2, 3)
    assert checkpoint.state(0).num_rows == 3


@pytest.mark.parametrize(
    "form", [str, Path, lambda path: f"file:{path}", lambda path: f"file://{path}"]
)
def test_a_location_is_a_path_or_a_uri(two_partitions: CheckpointFiles, form: type) -> None:
    assert Checkpoint(form(two_partitions.location)).versions(0, 1) == (1, 2)


def test_a_relative_path_with_odd_characters_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = CheckpointFiles(tmp_path / "ab:c%20 d")
    files.delta(1, [], 0)
    monkeypatch.chdir(tmp_path)
    assert Checkpoint("ab:c%20 d").versions(0, 0) == (1,)


@pytest.mark.parametrize("location", ["missing", "", "file:///a b"])
def test_a_location_without_a_checkpoint_is_refused(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError) as raised:
        Checkpoint(location)
    assert raised.value.error_id == "CLEANCUT_CHECKPOINT_NOT_FOUND"
    assert raised.value.params["location"] == location


@pytest.mark.parametrize(
    "location",
    ["nonsense://x", "abfss://c@a.dfs.core.windows.net/x", "dbfs:/checkpoints/x", "wasbs://x@y/z"],
)
def test_an_unsupported_file_system_is_refused(location: str) -> None:
    """`abfss:` ended the process, and `dbfs:` was read as a directory of the local disk."""
    with pytest.raises(RequestError) as raised:
        Checkpoint(location)
    assert raised.value.error_id == "CLEANCUT_OBJECT_LOCATION_INVALID"
    scheme = location.partition(":")[0]
    assert f"and not {scheme}:" in raised.value.params["detail"]


@pytest.mark.parametrize("method", ["state", "versions", "frames", "families"])
def test_a_text_instead_of_a_number_is_refused(
    method: str, two_partitions: CheckpointFiles
) -> None:
    arguments = ("0", 0) if method in ("versions", "frames") else ("0",)
    with pytest.raises(TypeError, match="is a number, such as 0, and not '0'"):
        getattr(Checkpoint(two_partitions.location), method)(*arguments)


@pytest.mark.parametrize(
    ("note", "read_format"),
    [
        ('{"format": "cleancut", "version": 2}', "format cleancut, version 2"),
        ('{"format": "other", "version": 1}', "format other, version 1"),
        ('{"format": "cleancut", "formatVersion": 3}', "0 (written before release 0.1.0)"),
        ("[]", "no format"),
        ("{", "no format"),
    ],
)
def test_an_unknown_format_is_refused(files: CheckpointFiles, note: str, read_format: str) -> None:
    (files.root / "format.json").write_text(note, encoding="utf-8")
    with pytest.raises(RequestError) as raised:
        Checkpoint(files.location)
    assert raised.value.error_id == "CLEANCUT_FORMAT_UNKNOWN"
    assert raised.value.params["found"] == read_format


@pytest.mark.parametrize(
    ("request_", "wanted", "available"),
    [
        (lambda c: c.state(7), "operator=7 store=default", "operator=0 store=default"),
        (lambda c: c.state(0, store="x"), "operator=0 store=x", "operator=0 store=default"),
        (lambda c: c.state(0, partition=5), "partition 5", "partition 0-1"),
        (lambda c: c.state(0, version=3), "version 3", "version 1-2"),
        (lambda c: c.versions(0, 9), "partition=9", "partition=1 store=default"),
        (lambda c: c.frames(0, 1, version=3), "version 3", "version 1-2"),
    ],
)
def test_a_missing_store_is_reported_with_the_existing_ones(
    two_partitions: CheckpointFiles, request_: object, wanted: str, available: str
) -> None:
    assert callable(request_)
    with pytest.raises(RequestError) as raised:
        request_(Checkpoint(two_partitions.location))
    assert raised.value.error_id == "CLEANCUT_STATE_NOT_FOUND"
    assert wanted in raised.value.params["wanted"]
    assert available in raised.value.params["available"]


def test_partitions_without_a_common_version_are_reported(files: CheckpointFiles) -> None:
    files.delta(1, [], 0)
    files.base(2, [], partition=1)
    with pytest.raises(RequestError, match="no version that all partitions have") as raised:
        Checkpoint(files.location).state(0)
    assert "partition=1 store=default 2" in raised.value.params["available"]


def test_a_checkpoint_without_stores_has_no_state(files: CheckpointFiles) -> None:
    checkpoint = Checkpoint(files.location)
    assert checkpoint.stores() == []
    assert checkpoint.verify().ok
    with pytest.raises(RequestError, match="no state yet"):
        checkpoint.state(0)


def test_a_corrupted_frame_is_reported_with_object_and_version(
    two_partitions: CheckpointFiles,
) -> None:
    path = two_partitions.directory(0, 0) / name_of(2)
    path.write_bytes(path.read_bytes()[:-1])
    checkpoint = Checkpoint(two_partitions.location)
    with pytest.raises(CorruptedError) as raised:
        checkpoint.state(0)
    assert raised.value.error_id == "CLEANCUT_FRAME_CORRUPTED"
    assert raised.value.params["path"] == str(path)
    assert raised.value.params["version"] == "2"
    assert rows(checkpoint.state(0, version=1)) == [(1, "ada", 3, 1.5, 0), (2, "grace", 1, 0.5, 0)]


def test_a_frame_deleted_during_the_read_is_missing(
    two_partitions: CheckpointFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = Checkpoint(two_partitions.location)
    listings = checkpoint._root.listings()
    monkeypatch.setattr(type(checkpoint._root), "listings", lambda _: listings)
    (two_partitions.directory(0, 0) / name_of(1)).unlink()
    with pytest.raises(CorruptedError, match="was listed and is gone") as raised:
        checkpoint.state(0)
    assert raised.value.error_id == "CLEANCUT_FRAME_MISSING"


def test_rows_that_do_not_match_their_schema_are_reported(files: CheckpointFiles) -> None:
    files.delta(1, [Change(b"short", b"")], 1)
    with pytest.raises(CorruptedError, match="too short for 2 fields") as raised:
        Checkpoint(files.location).state(0)
    assert raised.value.error_id == "CLEANCUT_ROW_CORRUPTED"
    assert raised.value.params["directory"] == str(files.directory(0, 0))


def test_an_unknown_type_does_not_affect_other_families(files: CheckpointFiles) -> None:
    odd = FAMILY | {"id": 1, "name": "odd", "valueSchema": struct_type(v="variant")}
    files.delta(1, [put(1, "ada", 3, 1.5)], 1, families=[FAMILY, odd])
    checkpoint = Checkpoint(files.location)
    assert checkpoint.state(0).num_rows == 1
    with pytest.raises(RequestError) as raised:
        checkpoint.state(0, family="odd")
    assert raised.value.error_id == "CLEANCUT_COLUMN_UNREADABLE"


def test_a_big_endian_machine_is_refused(
    two_partitions: CheckpointFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "byteorder", "big")
    with pytest.raises(RequestError) as raised:
        Checkpoint(two_partitions.location).state(0)
    assert raised.value.error_id == "CLEANCUT_PLATFORM_UNSUPPORTED"


def test_a_checkpoint_shows_itself(two_partitions: CheckpointFiles) -> None:
    checkpoint = Checkpoint(two_partitions.location)
    assert repr(checkpoint) == f"Checkpoint('{two_partitions.location}')"
    shown = RenderedHtml(checkpoint.stores()._repr_html_())
    assert shown.names[0] == "operator"
    assert shown.column("versions")[0] == "1-3"
    assert json.dumps(checkpoint.stores().to_dicts())


def test_nothing_is_written(two_partitions: CheckpointFiles) -> None:
    def snapshot() -> dict[str, int]:
        paths = two_partitions.location.rglob("*")
        return {str(path): path.stat().st_mtime_ns for path in paths}

    before = snapshot()
    checkpoint = cleancut.Checkpoint(two_partitions.location)
    checkpoint.state(0)
    checkpoint.verify()
    assert snapshot() == before
