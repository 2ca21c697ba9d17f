"""Finds and lists the objects of one checkpoint, on any file system that pyarrow knows."""

import json
import os
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.fs

from cleancut._layout import (
    FORMAT_OBJECT,
    ROOT,
    STORES,
    FrameName,
    StoreId,
    parse_frame_name,
    parse_store_directory,
)
from cleancut._listing import Listing
from cleancut.errors import CleancutError, error_of

_SUPPORTED = "format cleancut, formatVersion 1"


@dataclass(frozen=True)
class Root:
    """The directory in which Cleancut keeps the state of one query.

    Attributes:
        location: the checkpoint location as it was given.
        filesystem: where it lies.
        path: path of the directory on that file system.
    """

    location: str
    filesystem: pyarrow.fs.FileSystem
    path: str

    def listings(self) -> dict[StoreId, Listing]:
        """All stores in their order, each with its frames; one recursive listing."""
        selector = pyarrow.fs.FileSelector(
            f"{self.path}/{STORES}", recursive=True, allow_not_found=True
        )
        sizes: dict[StoreId, dict[FrameName, int]] = {}
        for info in self.filesystem.get_file_info(selector):
            directory, _, base_name = info.path.rpartition("/")
            store = parse_store_directory(directory.removeprefix(f"{self.path}/"))
            name = parse_frame_name(base_name)
            if store is not None and name is not None and info.is_file:
                sizes.setdefault(store, {})[name] = info.size
        return {
            store: Listing(store, f"{self.path}/{store.directory}", found)
            for store, found in sorted(sizes.items())
        }


def open_root(location: str | os.PathLike[str]) -> Root:
    """Finds the root of a checkpoint and checks that this release can read it.

    Raises:
        RequestError: CLEANCUT_CHECKPOINT_NOT_FOUND or CLEANCUT_FORMAT_UNKNOWN.
    """
    text = os.fspath(location)
    try:
        filesystem, path = _resolve(text)
    except pa.ArrowInvalid as error:
        raise _not_found(text, str(error)) from error
    root = Root(text, filesystem, f"{path.rstrip('/')}/{ROOT}")
    note = f"{root.path}/{FORMAT_OBJECT}"
    try:
        with filesystem.open_input_file(note) as file:
            _check_format(file.readall(), note)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _not_found(text, f"{note} does not exist") from error
    return root


def _resolve(location: str) -> tuple[pyarrow.fs.FileSystem, str]:
    # Hadoop writes local URIs with one slash, and a colon alone may be part of a path.
    if "://" in location or location.startswith("file:/"):
        filesystem, path = pyarrow.fs.FileSystem.from_uri(location)
        return filesystem, path
    return pyarrow.fs.LocalFileSystem(), os.path.abspath(location)  # noqa: PTH100  # keep links


def _check_format(raw: bytes, path: str) -> None:
    try:
        note = json.loads(raw)
        found = f"format {note['format']}, formatVersion {note['formatVersion']}"
    except (ValueError, KeyError, TypeError):
        found = "no format"
    if found != _SUPPORTED:
        raise error_of("CLEANCUT_FORMAT_UNKNOWN", path=path, found=found, supported=_SUPPORTED)


def _not_found(location: str, detail: str) -> CleancutError:
    return error_of("CLEANCUT_CHECKPOINT_NOT_FOUND", location=location, detail=detail)
