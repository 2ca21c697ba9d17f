"""Pages and the chains of cuts against the test vectors that the Scala suite reads too."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from cleancut._checkpoint.read.cut_reader import CutReader
from cleancut._checkpoint.read.root import Root
from cleancut._checkpoint.read.stored_cut import StoredCut
from cleancut._format.chains import Chain, PlacedFrame
from cleancut._format.cut.cut import Cut, read_cut
from cleancut._format.cut.page import read_page
from cleancut._format.layout import PageName, StoreId, parse_page_name
from cleancut.errors import CleancutError
from tests.support.sealed import sealed_frames
from tests.unit.test_cut_vectors import data_of, root_at
from tests.unit.test_vectors import LAYOUT, VECTORS, load

PAGES = sorted(VECTORS.glob("pages/*.json"))
CHAINS = sorted(VECTORS.glob("chains/*.json"))


def frame_fields(frame: PlacedFrame) -> list[Any]:
    name, place = frame.name, [frame.offset, frame.length, frame.crc]
    return [name.kind, name.version, name.version_id, frame.segment, *place]


def fields_of(chains: Iterable[Chain]) -> list[dict[str, Any]]:
    """Returns chains in the shape of the vectors."""
    return [
        {
            "operator": chain[0].store.operator,
            "partition": chain[0].store.partition,
            "store": chain[0].store.store,
            "frames": [frame_fields(frame) for frame in chain],
        }
        for chain in chains
    ]


def test_there_are_vectors_of_every_kind() -> None:
    for vectors in (PAGES, CHAINS):
        keys = {key for path in vectors for key in load(path)}
        assert {"doc", "error"} < keys
        assert keys & {"content", "chains"}
    assert {load(path)["cut"].split("/")[0] for path in CHAINS} == {"cuts", "savepoints"}
    assert any(load(path)["cut"].endswith(".sealed") for path in CHAINS)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_decodes_to_the_content_of_its_vector(path: Path) -> None:
    vector = load(path)
    name = parse_page_name(vector["request"]["name"])
    assert name is not None
    if "error" in vector:
        with pytest.raises(CleancutError) as raised:
            read_page(data_of(path), "dir/object", name)
        assert raised.value.error_id == vector["error"]
        assert raised.value.params["path"] == "dir/object"
        return
    content = vector["content"]
    chains = read_page(data_of(path), "dir/object", name)
    decoded = fields_of(chains.values())
    for store in content["stores"]:
        store["frames"] = [
            [*frame[1:4], content["segments"][frame[0]], *frame[4:]] for frame in store["frames"]
        ]
    assert decoded == content["stores"]
    assert [chain[0].store for chain in chains.values()] == list(chains)
    assert len(data_of(path)) == content["bytes"]


def stored(root: Root, name: str, epoch: int) -> StoredCut:
    """Reads a cut, a savepoint or a seal."""
    cut: Cut = read_cut(root.objects.read(name), root.objects.path(name), epoch)
    return StoredCut(**vars(cut), parts=CutReader(root.objects).parts)


def chains_of(root: Root, name: str, epoch: int) -> dict[StoreId, Chain]:
    """Reads all chains completely."""
    cut = stored(root, name, epoch)
    return chains_of_seal(root, cut) if name.endswith(".sealed") else dict(cut.chains)


def chains_of_seal(root: Root, seal: StoredCut) -> dict[StoreId, Chain]:
    """Returns the frames of a seal, each after the chain of the previous cut if it builds on that
    chain.
    """
    frames = sorted(sealed_frames(root.objects, seal), key=lambda frame: frame.store)
    chains: dict[StoreId, Chain] = {}
    for store, (frame,) in (
        (store_id, tuple(group)) for store_id, group in groupby(frames, lambda f: f.store)
    ):
        alone = frame.name.kind == "base" or frame.name.version == 1
        before = None if alone else CutReader(root.objects).cut(seal.epoch - 1).chain(store)
        assert alone or before is not None
        chains[store] = (*(before or ()), frame)
    assert len(chains) == seal.store_count
    return chains


@pytest.mark.parametrize("path", CHAINS, ids=lambda path: path.stem)
def test_a_cut_leads_to_the_chains_of_its_vector(path: Path, tmp_path: Path) -> None:
    vector = load(path)
    objects = {name: bytes.fromhex(data) for name, data in vector["objects"].items()}
    root, name, epoch = root_at(tmp_path, objects), vector["cut"], vector["epoch"]
    if "error" not in vector:
        chains = chains_of(root, name, epoch)
        assert fields_of(chains.values()) == vector["chains"]
        assert list(chains) == sorted(chains)
    else:
        with pytest.raises(CleancutError) as raised:
            chains_of(root, name, epoch)
        assert raised.value.error_id == vector["error"]
        assert str(tmp_path) in raised.value.params["path"]
    if not name.endswith(".sealed"):
        for one in vector.get("chains", vector.get("readable", [])):
            store = StoreId(one["operator"], one["partition"], one["store"])
            # Each chain is read by a new reader without cached objects.
            chain = stored(root, name, epoch).chain(store)
            assert chain is not None
            assert fields_of([chain]) == [one]


@pytest.mark.parametrize("path", CHAINS, ids=lambda path: path.stem)
def test_chains_are_filtered_by_operator(path: Path, tmp_path: Path) -> None:
    vector = load(path)
    if "error" in vector or vector["cut"].endswith(".sealed"):
        return
    objects = {name: bytes.fromhex(data) for name, data in vector["objects"].items()}
    cut = stored(root_at(tmp_path, objects), vector["cut"], vector["epoch"])
    for operator, store in {(store_key.operator, store_key.store) for store_key in cut.chains}:
        again = replace(cut)
        assert again.chains_of(operator, store) == {
            store_key.partition: chain
            for store_key, chain in cut.chains.items()
            if (store_key.operator, store_key.store) == (operator, store)
        }
        assert "chains" not in vars(again)
    assert cut.chains_of(99, "default") == {}
    assert cut.chain(StoreId(99, 0, "default")) is None


@pytest.mark.parametrize("vector", LAYOUT["pages"], ids=lambda vector: vector["name"])
def test_the_name_of_a_page_is_built_and_parsed(vector: dict[str, Any]) -> None:
    name = PageName(vector["epoch"], vector["id"])
    assert str(name) == vector["name"]
    assert parse_page_name(vector["name"]) == name


@pytest.mark.parametrize("name", LAYOUT["foreignObjects"])
def test_a_foreign_object_is_ignored(name: str) -> None:
    assert parse_page_name(name) is None
