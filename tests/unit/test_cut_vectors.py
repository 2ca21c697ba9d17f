"""Cuts, segments and checkpoints against the test vectors that the Scala suite reads too."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest

from cleancut._checkpoint.read.cut_reader import CutReader
from cleancut._checkpoint.read.history import History
from cleancut._checkpoint.read.root import Root
from cleancut._checkpoint.verify.segments import check_segments
from cleancut._format.chains import PlacedFrame
from cleancut._format.cut.channels import ShuffleInputInfo
from cleancut._format.cut.costs import Usage
from cleancut._format.cut.cut import Cut, read_cut
from cleancut._format.cut.paged_chains import PagedChains
from cleancut._format.layout import (
    SegmentName,
    cut_name,
    parse_cut_name,
    parse_savepoint_name,
    parse_segment_name,
    savepoint_name,
    writer_of,
)
from cleancut._storage.directory import Directory
from cleancut.errors import CleancutError
from tests.unit.test_vectors import LAYOUT, VECTORS, load, rows_of

CUTS = sorted(VECTORS.glob("cuts/*.json"))
SEGMENTS = sorted(VECTORS.glob("segments/*.json"))
CHECKPOINTS = sorted(VECTORS.glob("checkpoints/*.json"))
NUMBERS = ("bytesSent", "bytesReceived", "frames", "frameBytes", "segments", "segmentBytes")


def data_of(path: Path) -> bytes:
    return bytes.fromhex(path.with_suffix(".hex").read_text(encoding="utf-8"))


def root_at(directory: Path, objects: dict[str, bytes]) -> Root:
    for name, data in objects.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(data)
    return Root(str(directory), Directory(pyarrow.fs.LocalFileSystem(), str(directory)))


def read(path: Path) -> Cut:
    epoch = parse_cut_name(load(path)["request"]["name"])
    assert epoch is not None
    return read_cut(data_of(path), "dir/object", epoch)


def test_there_are_vectors_of_every_kind() -> None:
    for vectors in (CUTS, SEGMENTS):
        assert {"content", "error"} <= {key for path in vectors for key in load(path)}
    assert {load(path).get("layer") for path in SEGMENTS} == {None, "segment", "frame"}
    assert len(CHECKPOINTS) > 10


@pytest.mark.parametrize("path", CUTS, ids=lambda path: path.stem)
def test_a_cut_decodes_to_the_content_of_its_vector(path: Path) -> None:
    vector = load(path)
    if "error" in vector:
        with pytest.raises(CleancutError) as raised:
            read(path)
        assert raised.value.error_id == vector["error"]
        assert raised.value.params["path"] == "dir/object"
        return
    cut, body = read(path), vector["content"]["body"]
    assert cut.store_count == len(body["inFlight"]) + body["storeCount"]
    assert described(cut).items() <= known(body).items()
    assert (cut.costs is None) == ("costs" not in body)
    if cut.costs is not None:
        costs = body["costs"]
        assert side(cut.costs.driver) == with_zeros(costs["driver"])
        assert side(cut.costs.executors) == with_zeros(costs["executors"])
        assert cut.costs.executor_count == costs["executors"].get("count", 0)
        assert [asdict(time) for time in cut.costs.slowest] == [
            {"executor": "", "host": ""} | time for time in costs["slowest"]
        ]
    assert [channel_fields(channel) for channel in cut.channels] == [
        {name: value for name, value in channel.items() if not name.startswith("sum")}
        for channel in body.get("channels", [])
    ]
    assert cut.sinks == {
        sink["name"]: tuple(map(tuple, sink["epochs"])) for sink in body.get("sinks", [])
    }
    assert len(data_of(path)) == vector["content"]["bytes"]


def known(body: dict[str, Any]) -> dict[str, Any]:
    """Returns the body without the fields of pages and window that a reader ignores."""

    def element(fields: dict[str, Any]) -> dict[str, Any]:
        return {
            name: value
            for name, value in fields.items()
            if name != "tides" and (name, value) != ("uncounted", [])
        }

    lists = {name: list(map(element, body.get(name, []))) for name in ("pages", "window")}
    return body | lists


def channel_fields(shuffle_input: ShuffleInputInfo) -> dict[str, Any]:
    """Returns a channel in the shape of the vectors, without the sums, which readers ignore."""
    fields = {
        "operator": shuffle_input.operator,
        "partition": shuffle_input.partition,
        "store": shuffle_input.store,
        "rows": shuffle_input.rows,
        "rowsInFlight": shuffle_input.in_flight_rows,
        "bytesInFlight": shuffle_input.in_flight_bytes,
        "rowsReplayed": shuffle_input.replayed_rows,
        "rowsBeyondBound": shuffle_input.over_limit_rows or None,
        "arrivedMs": shuffle_input.arrived_ms,
        "overtakenMs": shuffle_input.overtaken_ms,
        "captureMs": shuffle_input.capture_ms,
    }
    return {name: value for name, value in fields.items() if value is not None}


def described(cut: Cut) -> dict[str, Any]:
    """Returns a cut in the shape of the vectors."""
    stores = [
        {
            "operator": store.operator,
            "partition": store.partition,
            "store": store.store,
            "id": chain[-1].name.version_id,
            "frames": [
                [
                    cut.segments.index(frame.segment),
                    frame.name.kind,
                    frame.name.version,
                    frame.name.version_id,
                    *(frame.offset, frame.length, frame.crc),
                ]
                for frame in chain
            ],
        }
        for store, chain in cut.held.items()
    ]
    return paged_fields(cut.paged, stores) | {
        "epoch": cut.epoch,
        "queryId": cut.query_id,
        "runId": cut.run_id,
        "generation": cut.generation,
        "token": cut.token,
        "writtenMs": cut.written_ms,
        "mode": cut.mode,
        "commit": cut.commit,
        "offsets": cut.offsets,
        "segments": list(cut.segments),
        "timings": cut.timings,
    }


def paged_fields(paged: PagedChains, channels: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the pages and the window in the shape of the vectors, with the fields that readers
    use.
    """
    pages = [
        {
            "name": str(page.name),
            "length": page.length,
            "crc": page.crc,
            "stores": page.stores,
            "operator": page.first.operator,
            "partition": page.first.partition,
            "store": page.first.store,
        }
        for page in paged.pages
    ]
    window = []
    for part in paged.window:
        element: dict[str, Any] = {"segment": part.segment, "epoch": part.epoch}
        element |= {"length": part.table.length, "footer": part.table.size, "crc": part.table.crc}
        element |= {} if part.counted is None else {"counted": sorted(part.counted)}
        # An empty list and an absent one mean the same.
        element |= {"uncounted": sorted(part.uncounted)} if part.uncounted else {}
        window.append(element)
    parts = {"storeCount": paged.store_count, "pages": pages, "window": window}
    return parts | {"inFlight": channels}


def side(usage: Usage) -> dict[str, Any]:
    """Returns the costs of one side in the shape of the vectors."""
    requests = {kind: asdict(counts) for kind, counts in usage.requests.items()}
    numbers = (usage.bytes_sent, usage.bytes_received, usage.frames, usage.frame_bytes)
    segments = (usage.segments, usage.segment_bytes)
    return {"requests": requests} | dict(zip(NUMBERS, (*numbers, *segments), strict=True))


def with_zeros(fields: dict[str, Any]) -> dict[str, Any]:
    """Replaces absent numbers by 0."""
    return {name: fields.get(name, 0) for name in ("requests", *NUMBERS)}


@pytest.mark.parametrize("path", SEGMENTS, ids=lambda path: path.stem)
def test_a_segment_decodes_to_the_content_of_its_vector(path: Path, tmp_path: Path) -> None:
    vector = load(path)
    name = vector["request"]["name"]
    root = root_at(tmp_path, {name: data_of(path)})
    ((found_name, checked),) = check_segments(root.objects, root.segments())
    assert found_name == name
    if vector.get("layer") == "segment":
        assert not isinstance(checked, list)
        assert checked.error.error_id == vector["error"]
        assert name in str(checked.error)
        return
    assert isinstance(checked, list)
    reader = CutReader(root.objects)
    parts = reader.read(checked)
    if "error" in vector:
        with pytest.raises(CleancutError) as raised:
            [reader.frame(placed, parts, None) for placed in checked]
        assert raised.value.error_id == vector["error"]
        assert raised.value.params["offset"] in {str(placed.offset) for placed in checked}
        return
    expected = [{k: v for k, v in e.items() if k != "attempt"} for e in vector["content"]["table"]]
    assert [element(placed) for placed in checked] == expected
    assert [reader.frame(placed, parts, None).size_bytes for placed in checked] == [
        element["length"] for element in expected
    ]


def element(placed: PlacedFrame) -> dict[str, Any]:
    """Returns a frame in the shape of a segment's table."""
    return {
        "operator": placed.store.operator,
        "partition": placed.store.partition,
        "store": placed.store.store,
        "version": placed.name.version,
        "id": placed.name.version_id,
        "kind": placed.name.kind,
        "offset": placed.offset,
        "length": placed.length,
        "crc": placed.crc,
    }


@pytest.mark.parametrize("path", CHECKPOINTS, ids=lambda path: path.stem)
def test_a_checkpoint_reads_as_its_vector(path: Path, tmp_path: Path) -> None:
    vector = load(path)
    objects = {name: bytes.fromhex(data) for name, data in vector["objects"].items()}
    root = root_at(tmp_path, objects)
    store = vector["store"]
    for read in vector["reads"]:

        def loaded(version: int) -> Any:
            stored = History(root).at(store["operator"], store["store"], version)
            return next(stored.load([store["partition"]])).state

        if "error" in read:
            with pytest.raises(CleancutError) as raised:
                loaded(read["version"])
            assert raised.value.error_id == read["error"]
            assert str(tmp_path / read.get("names", "")) in str(raised.value)
        else:
            assert rows_of(loaded(read["version"])) == read["rows"]


# Results of the reader that begins with the newest frame, if they differ from those of the vector.
# It does not keep the keys of a source, so it cannot find a duplicate (FORMAT.md: SHOULD).
NEWEST_FIRST = {
    "segments-exchanged": "CLEANCUT_FRAME_MISPLACED",
    "refers-to-a-key-twice": None,
}


@pytest.mark.parametrize("path", CHECKPOINTS, ids=lambda path: path.stem)
def test_a_checkpoint_is_read_from_its_newest_frame_as_its_vector(
    path: Path, tmp_path: Path
) -> None:
    vector = load(path)
    objects = {name: bytes.fromhex(data) for name, data in vector["objects"].items()}
    root, store = root_at(tmp_path, objects), vector["store"]

    def rows(version: int) -> Any:
        states = History(root).at(store["operator"], store["store"], version)
        by_family: dict[str, dict[str, list[str]]] = {}
        for family, key, value in next(states.live([store["partition"]])).all_rows():
            by_family.setdefault(str(family), {}).setdefault(key.hex(), []).append(value.hex())
        return by_family

    for read in vector["reads"]:
        error = read.get("error") and NEWEST_FIRST.get(path.stem, read["error"])
        if error is not None:
            with pytest.raises(CleancutError) as raised:
                rows(read["version"])
            assert raised.value.error_id == error
            assert str(tmp_path / read.get("names", "")) in str(raised.value)
        elif "rows" in read:
            assert rows(read["version"]) == read["rows"]


@pytest.mark.parametrize("vector", LAYOUT["cuts"], ids=lambda vector: vector["name"])
def test_the_name_of_a_cut_is_built_and_parsed(vector: dict[str, Any]) -> None:
    assert cut_name(vector["epoch"]) == vector["name"]
    assert parse_cut_name(vector["name"]) == vector["epoch"]


@pytest.mark.parametrize("vector", LAYOUT["segments"], ids=lambda vector: vector["name"])
def test_the_name_of_a_segment_is_built_and_parsed(vector: dict[str, Any]) -> None:
    name = SegmentName(vector["epoch"], vector["writer"], vector["id"])
    assert str(name) == vector["name"]
    assert parse_segment_name(vector["name"]) == name


@pytest.mark.parametrize("vector", LAYOUT["savepoints"], ids=lambda vector: vector["name"])
def test_the_name_of_a_savepoint_is_built_and_parsed(vector: dict[str, Any]) -> None:
    assert savepoint_name(vector["savepoint"]) == vector["name"]
    assert parse_savepoint_name(vector["name"]) == vector["savepoint"]


@pytest.mark.parametrize("vector", LAYOUT["writers"], ids=lambda vector: vector["writer"])
def test_the_name_of_a_writer_is_escaped(vector: dict[str, Any]) -> None:
    assert writer_of(vector["executor"]) == vector["writer"]


@pytest.mark.parametrize("name", LAYOUT["foreignObjects"])
def test_a_foreign_object_is_ignored(name: str) -> None:
    assert parse_cut_name(name) is None
    assert parse_segment_name(name) is None
    assert parse_savepoint_name(name) is None
