"""Reads of the pages and the window of cuts: as few as possible, and corruption by object."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cleancut import Checkpoint, CorruptedError, RequestError
from cleancut._checkpoint.read import chain_parts
from cleancut._checkpoint.read.root import open_root
from cleancut._storage.directory import Directory
from tests.unit.cut_files import CHANNEL, CutFiles
from tests.unit.test_checkpoint import rows
from tests.unit.test_cuts import LAST
from tests.vectors.cut_writer import cut_name, segment_name
from tests.vectors.frame_cases import put
from tests.vectors.segment_cases import flipped


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records the names of objects that are read, completely or in part."""
    names: list[str] = []
    read, read_range = Directory.read, Directory.read_range

    def spied_read(self: Directory, name: str) -> bytes:
        names.append(name)
        return read(self, name)

    def spied_range(self: Directory, name: str, offset: int, length: int) -> bytes:
        names.append(name)
        return read_range(self, name, offset, length)

    monkeypatch.setattr(Directory, "read", spied_read)
    monkeypatch.setattr(Directory, "read_range", spied_range)
    return names


def by_kind(names: list[str], kind: str) -> list[str]:
    return [name for name in names if name.startswith(f"{kind}/")]


def test_one_store_requires_its_page_and_newer_tables_only(
    four_cuts: CutFiles, requests: list[str]
) -> None:
    checkpoint = Checkpoint(four_cuts.location)
    assert rows(checkpoint.state(0, partition=0)) == LAST[:3]
    page = four_cuts.page_path(2, 0).relative_to(four_cuts.root).as_posix()
    assert by_kind(requests, "cuts") == [cut_name(3)]
    assert by_kind(requests, "pages") == [page]
    # Tables of the last epoch, which adopts a base of the previous one, and then the frames.
    tables = {segment_name(3), segment_name(2, "7", 2)}
    assert set(by_kind(requests, "segments")) == tables
    requests.clear()
    checkpoint.state(0, partition=1)
    assert by_kind(requests, "pages") != [page]
    assert len(by_kind(requests, "pages")) == 1


def test_a_listing_of_cuts_reads_neither_pages_nor_tables(
    four_cuts: CutFiles, requests: list[str]
) -> None:
    checkpoint = Checkpoint(four_cuts.location)
    four_cuts.savepoint("before", 2)
    assert [epoch.stores for epoch in checkpoint.history()] == [2, 2, 2, 2]
    assert [savepoint.stores for savepoint in checkpoint.savepoints()] == [2]
    assert by_kind(requests, "pages") == by_kind(requests, "segments") == []


def test_consecutive_cuts_share_pages_and_tables(four_cuts: CutFiles, requests: list[str]) -> None:
    assert len(Checkpoint(four_cuts.location).cuts()) == 4
    assert len(by_kind(requests, "pages")) == len(set(by_kind(requests, "pages"))) == 3
    assert len(by_kind(requests, "segments")) == len(set(by_kind(requests, "segments"))) == 5


def test_the_cache_of_pages_and_tables_is_limited(
    four_cuts: CutFiles, requests: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = Checkpoint(four_cuts.location).cuts()
    monkeypatch.setattr(chain_parts, "_KEPT_FRAMES", 1)
    requests.clear()
    assert Checkpoint(four_cuts.location).cuts() == expected
    assert len(by_kind(requests, "segments")) > 5


def test_a_store_with_an_intact_page_is_read_despite_a_corrupted_one(four_cuts: CutFiles) -> None:
    path = four_cuts.page_path(2, 0)
    four_cuts.change(path, lambda data: flipped(data, 50))
    checkpoint = Checkpoint(four_cuts.location)
    assert rows(checkpoint.state(0, partition=1)) == LAST[3:]
    reads: list[Callable[[], object]] = [
        lambda: checkpoint.state(0),
        lambda: checkpoint.state(0, partition=0),
        lambda: checkpoint.versions(0, 0),
        checkpoint.stores,
        checkpoint.cuts,
        checkpoint.cut,
    ]
    for read in reads:
        with pytest.raises(CorruptedError) as raised:
            read()
        assert raised.value.error_id == "CLEANCUT_CUT_CORRUPTED"
        assert raised.value.params["path"] == str(path)
    assert rows(checkpoint.state(0, at=1))


@pytest.mark.parametrize("is_page", [True, False])
def test_a_missing_object_of_a_cut_is_named(four_cuts: CutFiles, is_page: bool) -> None:
    path = four_cuts.page_path(0, 1) if is_page else four_cuts.root / segment_name(3)
    path.unlink()
    with pytest.raises(CorruptedError, match="it is missing") as raised:
        Checkpoint(four_cuts.location).state(0)
    assert raised.value.error_id == "CLEANCUT_CUT_CORRUPTED"
    assert raised.value.params["path"] == str(path)


def test_a_missing_frame_of_a_page_is_reported_with_its_cut(four_cuts: CutFiles) -> None:
    (four_cuts.root / segment_name(0)).unlink()
    with pytest.raises(CorruptedError) as raised:
        Checkpoint(four_cuts.location).state(0, at=2)
    assert raised.value.error_id == "CLEANCUT_FRAME_MISSING"
    assert raised.value.params["directory"] == str(four_cuts.cut_path(2))
    assert rows(Checkpoint(four_cuts.location).state(0, partition=0)) == LAST[:3]


def test_in_flight_rows_are_read_without_pages(four_cuts: CutFiles, requests: list[str]) -> None:
    four_cuts.in_flight(1, {0: put(7, "waiting", 1, 1.0)})
    checkpoint = Checkpoint(four_cuts.location)
    requests.clear()
    rows = checkpoint.state(0, store=CHANNEL)
    assert rows.column("partition").to_pylist() == [1]
    assert by_kind(requests, "pages") == []
    assert len(by_kind(requests, "cuts")) == 1
    cut = checkpoint.cut()
    assert [(store.partition, store.store) for store in cut.stores] == [
        (0, "default"),
        (1, CHANNEL),
        (1, "default"),
    ]
    assert cut.info.stores == checkpoint.history()[-1].stores == 3
    with pytest.raises(RequestError, match="partition 1"):
        checkpoint.state(0, store=CHANNEL, partition=0)
    assert checkpoint.verify().ok


def test_pages_count_as_stored(four_cuts: CutFiles) -> None:
    root = open_root(four_cuts.location)
    kinds = ("cuts", "pages", "segments")
    sizes = [path.stat().st_size for kind in kinds for path in (four_cuts.root / kind).rglob("*.*")]
    assert len(sizes) == 12
    assert root.stored_bytes() == sum(sizes)


def test_chains_of_a_cut_are_found_once(four_cuts: CutFiles, requests: list[str]) -> None:
    cut = Checkpoint(four_cuts.location).cut()
    assert (cut.info.frames, cut.info.segments) == (6, len(cut.segments)) == (6, 5)
    assert len(by_kind(requests, "pages")) == 2


def test_a_cut_with_a_wrong_store_count_is_corrupted(four_cuts: CutFiles) -> None:
    four_cuts.at.pop(3)
    four_cuts.cut(3, storeCount=3)
    checkpoint = Checkpoint(four_cuts.location)
    with pytest.raises(CorruptedError, match="leads to 2 stores, and says 3"):
        checkpoint.cut(3)
    assert rows(checkpoint.state(0, partition=0)) == LAST[:3]


def test_pages_are_stored_under_their_names(four_cuts: CutFiles) -> None:
    pages = open_root(four_cuts.location).pages()
    assert [page.epoch for page in pages] == [0, 1, 2]
    assert all(Path(four_cuts.root, str(page)).exists() for page in pages)
