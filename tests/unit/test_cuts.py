"""Reads a checkpoint that has cuts, without a JVM."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import zstandard

from cleancut import Checkpoint, CorruptedError, RequestError
from cleancut.types import CutInfo, InfoList
from tests.unit.checkpoint_files import CheckpointFiles
from tests.unit.cut_files import CutFiles
from tests.unit.test_checkpoint import rows
from tests.vectors.cut_encoder import encode_cut
from tests.vectors.cut_writer import QUERY_ID, RUN_ID, WATERMARK_MS, WRITTEN_MS, segment_name
from tests.vectors.frame_cases import put, version_id

LAST = [
    (1, "ada", 4, 2.5, 0),
    (2, "grace", 1, 0.5, 0),
    (3, "lin", 1, 0.25, 0),
    (4, "emmy", 2, 8.0, 1),
]


def test_cuts_are_listed_by_epoch(four_cuts: CutFiles) -> None:
    cuts = Checkpoint(four_cuts.location).cuts()
    assert [(cut.epoch, cut.version, cut.frames, cut.segments) for cut in cuts] == [
        (0, 1, 2, 1),
        (1, 2, 4, 2),
        (2, 3, 6, 3),
        (3, 4, 6, 5),
    ]
    chain_bytes = sum(frame.entry["length"] for c in four_cuts.chains.values() for frame in c)
    written = datetime.fromtimestamp(WRITTEN_MS / 1000 + 3, UTC)
    assert cuts[-1] == CutInfo(3, 4, 1, RUN_ID, written, "aligned", 2, 6, 5, chain_bytes)


def test_a_cut_has_the_details_of_its_objects(four_cuts: CutFiles) -> None:
    cut = Checkpoint(four_cuts.location).cut(3)
    assert cut == Checkpoint(four_cuts.location).cut()
    assert cut.path == str(four_cuts.cut_path(3))
    assert (cut.query_id, cut.info.run_id) == (QUERY_ID, RUN_ID)
    assert cut.watermark_ms == WATERMARK_MS + 3 * 60_000
    assert cut.next_watermark_ms == WATERMARK_MS + 4 * 60_000
    assert cut.offsets == {"0": '{"logOffset":3}', "1": None}
    assert cut.offsets_entry.startswith("v1\n")
    assert cut.commit_entry.startswith("v1\n")
    assert cut.timings == {"gateMs": 12, "cutMs": 3}
    first, second = cut.stores
    assert (first.partition, first.id, str(first.chain)) == (
        0,
        version_id(4),
        "snapshot 3, changelogs 4",
    )
    assert (second.partition, str(second.chain)) == (1, "changelogs 1-4")
    assert first.chain[0].segment == segment_name(2, "7", 2)
    assert first.bytes == sum(frame.length for frame in first.chain)


def test_offsets_of_named_sources_are_returned_by_name(files: CheckpointFiles) -> None:
    cuts = CutFiles(files)
    entry = 'v2\n{"batchWatermarkMs":0}\nflights:{"a":{"0":7}}\nweather:-'
    cuts.commit(([], 0), offsets=entry, commit="v1\n{}")
    cut = Checkpoint(files.location).cut(0)
    assert cut.offsets == {"flights": '{"a":{"0":7}}', "weather": None}
    assert (cut.watermark_ms, cut.next_watermark_ms) == (None, None)


def test_stores_and_versions_come_from_the_cuts(four_cuts: CutFiles) -> None:
    checkpoint = Checkpoint(four_cuts.location)
    assert [(s.partition, s.versions, s.latest_version) for s in checkpoint.stores()] == [
        (0, (1, 2, 3, 4), 4),
        (1, (1, 2, 3, 4), 4),
    ]
    frames = {
        (name, frame.segment, frame.entry["offset"]): frame.entry["length"]
        for name, chain in four_cuts.chains.items()
        for frame in chain
    }
    size = sum(length for (name, _, _), length in frames.items() if name == 1)
    assert checkpoint.stores()[1].bytes == size
    assert checkpoint.versions(0, 1) == (1, 2, 3, 4)


def test_state_is_that_of_the_last_cut(four_cuts: CutFiles) -> None:
    table = Checkpoint(four_cuts.location).state(0)
    assert rows(table) == LAST
    assert table.schema.metadata[b"cleancut.version"] == b"4"
    assert rows(Checkpoint(four_cuts.location).state(0, partition=1)) == LAST[3:]


def test_state_is_read_by_epoch_or_by_version(four_cuts: CutFiles) -> None:
    checkpoint = Checkpoint(four_cuts.location)
    expected = [(1, "ada", 3, 1.5, 0), (2, "grace", 1, 0.5, 0)]
    assert rows(checkpoint.state(0, at=0)) == expected
    assert rows(checkpoint.state(0, version=1)) == expected
    with pytest.raises(TypeError, match="at and version"):
        checkpoint.state(0, version=1, at=0)


def test_a_savepoint_outlives_its_cut(four_cuts: CutFiles) -> None:
    four_cuts.savepoint("before", 1)
    four_cuts.cut_path(1).unlink()
    checkpoint = Checkpoint(four_cuts.location)
    assert [(s.name, s.epoch, s.version, s.stores) for s in checkpoint.savepoints()] == [
        ("before", 1, 2, 2)
    ]
    expected = [(1, "ada", 4, 2.5, 0), (4, "emmy", 2, 8.0, 1)]
    assert rows(checkpoint.state(0, at="before")) == expected
    cut = checkpoint.cut(at="before")
    assert (cut.info.epoch, cut.path) == (1, str(four_cuts.root / "savepoints/before.cut"))


def test_an_unknown_savepoint_is_reported_with_the_existing_ones(four_cuts: CutFiles) -> None:
    checkpoint = Checkpoint(four_cuts.location)
    with pytest.raises(RequestError, match="no savepoint x; it has no savepoints"):
        checkpoint.cut(at="x")
    four_cuts.savepoint("before", 1)
    with pytest.raises(RequestError, match="no savepoint x; it has the savepoints before"):
        checkpoint.state(0, at="x")


def test_frames_are_those_that_cuts_reference(four_cuts: CutFiles) -> None:
    checkpoint = Checkpoint(four_cuts.location)
    frames = checkpoint.frames(0, 0)
    assert [(f.version, f.kind) for f in frames] == [
        (1, "changelog"),
        (2, "changelog"),
        (3, "snapshot"),
        (3, "changelog"),
        (4, "changelog"),
    ]
    assert [f.kind for f in checkpoint.frames(0, 0, version=3)] == ["snapshot", "changelog"]
    assert frames[2].file_bytes == four_cuts.chains[0][0].entry["length"]
    assert checkpoint.families(0)[0].keys == 4


def test_state_needs_no_listing_of_segments(
    four_cuts: CutFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = Checkpoint(four_cuts.location)
    listed: list[str] = []
    objects = type(checkpoint._root.objects)
    listing = objects.list

    def spied(self: object, below: str) -> object:
        listed.append(below)
        return listing(self, below)  # type: ignore[arg-type]

    monkeypatch.setattr(objects, "list", spied)
    assert checkpoint.state(0).num_rows == 4
    assert listed == ["cuts"]


def after_level_0(files: CheckpointFiles) -> CutFiles:
    """Versions 1 and 2 are at level 0, version 3 was never committed there, and cuts follow."""
    for partition in (0, 1):
        files.delta(1, [put(1, "ada", 1, 1.0)], 1, partition=partition)
        files.delta(2, [put(1, "ada", 2, 2.0)], 1, partition=partition)
        files.delta(3, [put(1, "ada", -3, -3.0)], 1, partition=partition)
    cuts = CutFiles(files)
    cuts.epoch = 3
    for partition in (0, 1):
        cuts.base(partition, [put(1, "ada", 3, 3.0)], number=2 + partition)
    cuts.cut(2)
    cuts.commit(([put(2, "lin", 4, 4.0)], 2), ([], 1))
    return cuts


def test_a_checkpoint_from_level_0_has_all_its_versions(files: CheckpointFiles) -> None:
    after_level_0(files)
    checkpoint = Checkpoint(files.location)
    assert checkpoint.versions(0, 0) == (1, 2, 3, 4)
    rows_by_version = {
        version: [row[2:4] for row in rows(checkpoint.state(0, version=version, partition=0))]
        for version in checkpoint.versions(0, 0)
    }
    assert rows_by_version == {1: [(1, 1.0)], 2: [(2, 2.0)], 3: [(3, 3.0)], 4: [(3, 3.0), (4, 4.0)]}
    assert [(f.version, f.kind) for f in checkpoint.frames(0, 0)] == [
        (1, "changelog"),
        (2, "changelog"),
        (3, "snapshot"),
        (4, "changelog"),
    ]


@pytest.mark.parametrize("version", [5, 9])
def test_a_version_without_a_cut_is_reported_with_the_existing_ones(
    files: CheckpointFiles, version: int
) -> None:
    after_level_0(files)
    with pytest.raises(RequestError) as raised:
        Checkpoint(files.location).state(0, version=version)
    assert raised.value.error_id == "CLEANCUT_STATE_NOT_FOUND"
    assert f"version {version}" in raised.value.params["wanted"]
    assert raised.value.params["available"] == "version 1-4"


def test_a_version_without_its_cut_is_not_read_from_level_0(files: CheckpointFiles) -> None:
    cuts = after_level_0(files)
    cuts.cut_path(3).rename(files.root / "cuts" / "elsewhere")
    cuts.epoch = 4
    cuts.commit(([], 2), ([], 1))
    assert Checkpoint(files.location).versions(0, 0) == (1, 2, 3, 5)
    with pytest.raises(RequestError, match="version 1-3, 5"):
        Checkpoint(files.location).state(0, version=4)


@pytest.mark.parametrize(
    ("request_", "wanted", "available"),
    [
        (lambda c: c.cut(9), "cut of epoch 9", "cuts of epochs 0-3"),
        (lambda c: c.state(7), "operator=7 store=default", "operator=0 store=default"),
        (lambda c: c.state(0, at=9), "epoch 9", "epoch 0-3"),
        (lambda c: c.state(0, version=10), "version 10", "version 1-4"),
        (lambda c: c.state(0, columns=["key.x"]), "column key.x", "key.id, key.name"),
        (lambda c: c.state(0, partition=5), "partition 5", "partition 0-1"),
        (lambda c: c.state(0, family="x"), "column family x", "families default"),
        (lambda c: c.versions(0, 9), "partition=9", "partition=1 store=default"),
        (lambda c: c.frames(0, 1, version=9), "version 9", "version 1-4"),
    ],
)
def test_a_missing_store_is_reported_with_the_existing_ones(
    four_cuts: CutFiles, request_: object, wanted: str, available: str
) -> None:
    assert callable(request_)
    with pytest.raises(RequestError) as raised:
        request_(Checkpoint(four_cuts.location))
    assert raised.value.error_id == "CLEANCUT_STATE_NOT_FOUND"
    assert wanted in raised.value.params["wanted"]
    assert available in raised.value.params["available"]


def test_a_checkpoint_of_level_0_has_no_cut(two_partitions: CheckpointFiles) -> None:
    checkpoint = Checkpoint(two_partitions.location)
    assert checkpoint.cuts() == []
    with pytest.raises(RequestError, match="it has no cuts"):
        checkpoint.cut()


def test_a_corrupted_cut_does_not_affect_other_cuts(four_cuts: CutFiles) -> None:
    path = four_cuts.cut_path(2)
    four_cuts.change(path, lambda data: data[:-1])
    checkpoint = Checkpoint(four_cuts.location)
    for read in (checkpoint.cuts, checkpoint.stores, lambda: checkpoint.state(0, at=2)):
        with pytest.raises(CorruptedError) as raised:
            read()
        assert raised.value.error_id == "CLEANCUT_CUT_CORRUPTED"
        assert raised.value.params["path"] == str(path)
    assert rows(checkpoint.state(0)) == LAST


def test_a_cut_with_an_impossible_length_is_corrupted(four_cuts: CutFiles) -> None:
    body = zstandard.ZstdCompressor(write_content_size=False).compress(b"{}")
    four_cuts.cut_path(3).write_bytes(encode_cut({}, raw_size=2**30 + 1, stored=body))
    with pytest.raises(CorruptedError, match="exceeds the limit of 1073741824"):
        Checkpoint(four_cuts.location).cut(3)


def test_a_cut_deleted_during_the_listing_is_ignored(
    four_cuts: CutFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = Checkpoint(four_cuts.location)
    epochs = checkpoint._root.epochs()
    monkeypatch.setattr(type(checkpoint._root), "epochs", lambda _: epochs)
    four_cuts.cut_path(0).unlink()
    assert [cut.epoch for cut in checkpoint.cuts()] == [1, 2, 3]
    with pytest.raises(RequestError, match="cut of epoch 0"):
        checkpoint.cut(0)


def test_cuts_show_themselves(four_cuts: CutFiles) -> None:
    checkpoint = Checkpoint(four_cuts.location)
    assert "<td>aligned</td>" in checkpoint.cuts()._repr_html_()
    cut = checkpoint.cut()
    text = str(cut)
    assert text.split("\n", maxsplit=1)[0].split() == ["cut", cut.path]
    assert "snapshot 3, changelogs 4" in text
    assert '{"logOffset":3}' in text
    assert "<td>snapshot 3, changelogs 4</td>" in cut._repr_html_()
    assert json.loads(json.dumps(cut.to_dict(), default=str))["stores"][0]["chain"][0] == {
        "kind": "snapshot",
        "version": 3,
        "id": version_id(3),
        "segment": segment_name(2, "7", 2),
        "offset": cut.stores[0].chain[0].offset,
        "length": cut.stores[0].chain[0].length,
        "crc": cut.stores[0].chain[0].crc,
    }


def test_nothing_is_written(four_cuts: CutFiles) -> None:
    def snapshot() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in four_cuts.location.rglob("*")}

    before = snapshot()
    checkpoint = Checkpoint(four_cuts.location)
    checkpoint.state(0)
    checkpoint.cuts()
    assert checkpoint.verify().ok
    assert snapshot() == before


def test_each_list_converts_to_arrow_and_pandas(four_cuts: CutFiles) -> None:
    checkpoint = Checkpoint(four_cuts.location)
    checkpoint.create_savepoint("kept")
    checkpoint.test_restore()
    lists: list[InfoList[Any]] = [
        checkpoint.cuts(),
        checkpoint.history(),
        checkpoint.savepoints(),
        checkpoint.stores(),
        checkpoint.frames(0, 0),
        checkpoint.families(0),
        checkpoint.diff(1),
        checkpoint.skew(),
        checkpoint.restore_tests(),
        checkpoint.cut().stores,
        checkpoint.cost_per_day(),
    ]
    for infos in lists:
        assert infos
        assert infos.to_arrow().num_rows == len(infos)
        names = list(infos.to_dicts()[0])
        assert list(infos.to_pandas().columns) == infos.to_arrow().column_names == names
    assert checkpoint.cuts().to_pandas()["epoch"].tolist() == [0, 1, 2, 3]
