"""Objects that a build before release 0.1.0 wrote are refused, and never parsed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cleancut import Checkpoint, RequestError
from cleancut._checkpoint.read.root import open_root
from cleancut._format.cut.cut import read_cut
from cleancut._format.cut.page import read_page
from cleancut._format.cut.segment import extents
from cleancut._format.frame.frame import FrameRequest, read_frame
from cleancut._format.layout import (
    FrameName,
    StoreId,
    parse_frame_name,
    parse_page_name,
    parse_segment_name,
)

LOCATION = Path(__file__).parents[1] / "checkpoints" / "unreleased"
ROOT = LOCATION / "cleancut"


def one(pattern: str) -> Path:
    (path,) = ROOT.glob(pattern)
    return path


def read_as_cut(path: Path, data: bytes) -> object:
    return read_cut(data, str(path), int(path.stem))


def read_as_page(path: Path, data: bytes) -> object:
    name = parse_page_name(path.relative_to(ROOT).as_posix())
    assert name is not None
    return read_page(data, str(path), name)


def read_as_segment(path: Path, data: bytes) -> object:
    assert parse_segment_name(path.relative_to(ROOT).as_posix()) is not None
    return extents(data, data, str(path), len(data))


def read_as_frame(path: Path, data: bytes) -> object:
    name: FrameName | None = parse_frame_name(path.name)
    assert name is not None
    return read_frame(data, FrameRequest(str(path), StoreId(0, 0, "default"), name))


READERS: dict[str, tuple[str, Callable[[Path, bytes], object]]] = {
    "cut": ("cuts/*.cut", read_as_cut),
    "page": ("pages/*/*.page", read_as_page),
    "segment": ("segments/*/*.seg", read_as_segment),
    "frame": ("stores/0/0/default/*.delta", read_as_frame),
}


@pytest.mark.parametrize("kind", READERS)
def test_an_object_is_refused_by_its_first_bytes(kind: str) -> None:
    pattern, read = READERS[kind]
    path = one(pattern)
    data = path.read_bytes()
    # The second object has only zeros after the magic.
    for content in (data, data[:4] + bytes(60)):
        with pytest.raises(RequestError) as raised:
            read(path, content)
        assert raised.value.error_id == "CLEANCUT_FORMAT_UNKNOWN"
        assert raised.value.params["path"] == str(path)
        assert "written before release 0.1.0" in str(raised.value)


def test_a_checkpoint_is_refused_with_the_command_that_keeps_its_state() -> None:
    reads: list[Callable[[], object]] = [
        lambda: open_root(LOCATION),
        lambda: Checkpoint(LOCATION).state(0),
        lambda: Checkpoint(LOCATION).verify(),
    ]
    for read in reads:
        with pytest.raises(RequestError) as raised:
            read()
        assert raised.value.error_id == "CLEANCUT_FORMAT_UNKNOWN"
        assert str(ROOT / "format.json") in str(raised.value)
        assert "Data lost: No." in str(raised.value)
        assert "cleancut clone OLD NEW --same-query --provider rocksdb" in str(raised.value)
