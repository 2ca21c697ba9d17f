"""The reader against the test vectors that the Scala suite reads too."""

import json
from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest

from cleancut._checkpoint.read.listing import Listing
from cleancut._checkpoint.read.state import State
from cleancut._checkpoint.read.store_reader import StoreReader
from cleancut._format.frame.frame import Block, Frame, FrameRequest, IndexedBase, read_frame
from cleancut._format.layout import FrameName, StoreId, parse_frame_name, parse_store_directory
from cleancut._storage.directory import Directory
from cleancut.errors import CleancutError
from tests.vectors import generate

VECTORS = Path(generate.__file__).parent
FRAMES = sorted(VECTORS.glob("frames/*.json"))
STORES = sorted(VECTORS.glob("stores/*.json"))
LAYOUT = json.loads((VECTORS / "layout.json").read_text(encoding="utf-8"))


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def request_of(vector: dict[str, Any]) -> FrameRequest:
    fields = vector["request"]
    store = StoreId(fields["operator"], fields["partition"], fields["store"])
    return FrameRequest(
        "dir/object", store, FrameName(fields["version"], fields["id"], fields["kind"])
    )


def data_of(path: Path) -> bytes:
    return bytes.fromhex(path.with_suffix(".hex").read_text(encoding="utf-8"))


def read(path: Path) -> Frame:
    return read_frame(data_of(path), request_of(load(path)))


def read_by_index(path: Path, size: int | None = None) -> list[Block]:
    """Reads each block of a snapshot by its index."""
    data = data_of(path)
    base = IndexedBase(data, data, request_of(load(path)), len(data) if size is None else size)
    places = [base.place(ordinal) for ordinal in range(len(base.index.blocks))]
    return [base.block(n, data[at : at + length]) for n, (at, length) in enumerate(places)]


def described(frame: Frame) -> dict[str, Any]:
    """Returns a frame in the shape of the vectors."""
    blocks = [
        [
            {
                "operation": (
                    "remove" if record.value is None else "merge" if record.is_merge else "put"
                ),
                "family": record.family_id,
                "key": record.key.hex(),
                **({} if record.value is None else {"value": record.value.hex()}),
            }
            for record in block.records
        ]
        for block in frame.blocks
    ]
    return {"codec": frame.codec, "keys": frame.keys, "bytes": frame.size_bytes, "blocks": blocks}


def rows_of(state: State) -> dict[str, dict[str, list[str]]]:
    """Returns the rows of a state in the shape of the vectors."""
    return {
        str(family): {key.hex(): [value.hex() for value in values] for key, values in rows.items()}
        for family, rows in state.rows.items()
        if rows
    }


def test_vectors_of_every_kind_exist() -> None:
    vectors = [load(path) for path in FRAMES]
    assert {vector["frame"]["codec"] for vector in vectors if "frame" in vector} == {"none", "zstd"}
    assert {vector["layer"] for vector in vectors if "error" in vector} == {
        "frame",
        "records",
        "state",
    }
    assert len(STORES) > 5


@pytest.mark.parametrize("path", FRAMES, ids=lambda path: path.stem)
def test_a_frame_decodes_to_the_content_of_its_vector(path: Path) -> None:
    vector = load(path)
    if "error" in vector:
        with pytest.raises(CleancutError) as raised:
            State().apply(read(path))
        assert raised.value.error_id == vector["error"]
        assert raised.value.params["path"] == "dir/object"
        return
    expected, frame = vector["frame"], read(path)
    assert described(frame).items() <= expected.items()
    assert frame.identity.parent_version == expected.get("parentVersion")
    assert frame.identity.parent_id == expected.get("parentId")
    schemas = [
        {
            "id": f.family_id,
            "name": f.name,
            "keySchema": f.key_schema,
            "valueSchema": f.value_schema,
            **({"multiValued": True} if f.is_multi_valued else {}),
        }
        for f in frame.identity.families
    ]
    families = expected.get("families", [])
    unread = {"encoder", "keys"}
    assert schemas == [{k: v for k, v in f.items() if k not in unread} for f in families]


@pytest.mark.parametrize("path", FRAMES, ids=lambda path: path.stem)
def test_corruption_is_found_no_later_than_in_its_layer(path: Path) -> None:
    vector = load(path)
    if vector.get("layer") == "state":
        read(path)
    elif "error" in vector:
        with pytest.raises(CleancutError):
            read(path)


def test_blocks_that_are_read_by_the_index_are_those_of_the_frame() -> None:
    sound = [path for path in FRAMES if load(path).get("frame") and read(path).blocks]
    indexed = [path for path in sound if read_by_index(path)]
    assert len(indexed) > 1
    for path in indexed:
        assert tuple(read_by_index(path)) == read(path).blocks
        with pytest.raises(CleancutError, match="does not fit"):
            read_by_index(path, len(data_of(path)) + 1)


@pytest.mark.parametrize(
    "name", ["other-block", "cut", "longer", "flipped-block", "without-a-family"]
)
def test_a_corrupted_index_is_found_when_a_block_is_read_by_it(name: str) -> None:
    with pytest.raises(CleancutError) as raised:
        read_by_index(VECTORS / f"frames/index-{name}.json")
    assert raised.value.error_id == "CLEANCUT_FRAME_CORRUPTED"


@pytest.mark.parametrize("path", STORES, ids=lambda path: path.stem)
def test_a_directory_reads_as_its_vector(path: Path, tmp_path: Path) -> None:
    vector = load(path)
    store = StoreId(**vector["store"])
    directory = tmp_path / store.directory
    directory.mkdir(parents=True)
    for name, data in vector["files"].items():
        (directory / name).write_bytes(bytes.fromhex(data))
    names = [name for file in vector["files"] if (name := parse_frame_name(file)) is not None]
    objects = Directory(pyarrow.fs.LocalFileSystem(), str(tmp_path))
    reader = StoreReader(objects, Listing(store, dict.fromkeys(names, 0)))
    for read in vector["reads"]:
        if "error" in read:
            with pytest.raises(CleancutError) as raised:
                reader.load(read["version"], read.get("id"))
            assert raised.value.error_id == read["error"]
            assert str(tmp_path) in str(raised.value)
        else:
            assert rows_of(reader.load(read["version"], read.get("id"))) == read["rows"]


@pytest.mark.parametrize("vector", LAYOUT["frames"], ids=lambda vector: vector["name"])
def test_a_frame_name_is_built_and_parsed(vector: dict[str, Any]) -> None:
    name = FrameName(vector["version"], vector["id"], vector["kind"])
    assert str(name) == vector["name"]
    assert parse_frame_name(vector["name"]) == name


@pytest.mark.parametrize("name", LAYOUT["foreignFiles"])
def test_a_foreign_file_is_ignored(name: str) -> None:
    assert parse_frame_name(name) is None


@pytest.mark.parametrize("vector", LAYOUT["stores"], ids=lambda vector: vector["directory"])
def test_a_store_directory_is_built_and_parsed(vector: dict[str, Any]) -> None:
    store = StoreId(vector["operator"], vector["partition"], vector["store"])
    assert store.directory == vector["directory"]
    assert parse_store_directory(vector["directory"]) == store


@pytest.mark.parametrize("directory", LAYOUT["foreignDirectories"])
def test_a_foreign_directory_is_ignored(directory: str) -> None:
    assert parse_store_directory(directory) is None


def test_the_encoder_still_writes_these_vectors() -> None:
    """Except compressed bytes, which differ between releases of zstd."""
    made = generate.contents()
    kept = {
        path.relative_to(VECTORS).as_posix(): path.read_text(encoding="utf-8")
        for pattern in ("*.json", "*/*.json", "*/*.hex")
        for path in VECTORS.glob(pattern)
    }
    assert made.keys() == kept.keys()
    compressed = {name for name in kept if is_compressed(load(VECTORS / json_of(name)))}
    assert compressed
    plain = made.keys() - compressed - {"frames/block-longer-than-it-says.hex"}
    assert {name: made[name] for name in plain} == {name: kept[name] for name in plain}


def json_of(name: str) -> str:
    return name.replace(".hex", ".json")


def is_compressed(vector: dict[str, Any]) -> bool:
    is_zstd = vector.get("frame", {}).get("codec") == "zstd"
    return is_zstd or bool(vector.get("content", {}).get("compressed"))
