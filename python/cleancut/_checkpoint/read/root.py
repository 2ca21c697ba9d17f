"""Opens and lists the objects of one checkpoint."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.fs

from cleancut._checkpoint.read.listing import Listing
from cleancut._format.layout import (
    CUTS,
    FORMAT_OBJECT,
    PAGES,
    PROOFS,
    ROOT,
    SAVEPOINTS,
    SEGMENTS,
    STORES,
    FrameName,
    PageName,
    StoreId,
    parse_cut_name,
    parse_frame_name,
    parse_page_name,
    parse_proof_name,
    parse_savepoint_name,
    parse_segment_name,
    parse_store_directory,
)
from cleancut._format.magic import UNRELEASED, VERSION
from cleancut._storage.access import S3Access
from cleancut._storage.directory import Directory
from cleancut._storage.objects import Place
from cleancut._storage.s3 import SCHEMES, open_s3
from cleancut.errors import CleancutError, error_of

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
# Arrow's client for Azure is left out: where it finds no credentials, it ends the process.
_SCHEMES_OF_ARROW = ("file", "hdfs", "viewfs", "gs", "gcs")
_SUPPORTED = f"format cleancut, version {VERSION}"


@dataclass(frozen=True)
class Root:
    """The directory in which Cleancut keeps the state of one query.

    Attributes:
        location: the checkpoint location as it was given.
        objects: the objects in that directory.
    """

    location: str
    objects: Place

    @property
    def checkpoint(self) -> Place:
        """The objects at the checkpoint location, where Spark's own files are."""
        return self.objects.above()

    def epochs(self) -> list[int]:
        """The epochs that have a cut, ascending; one listing."""
        epochs = (parse_cut_name(name) for name in self.objects.list(CUTS))
        return sorted(epoch for epoch in epochs if epoch is not None)

    def savepoints(self) -> list[str]:
        """The names of the savepoints, in order; one listing."""
        names = (parse_savepoint_name(name) for name in self.objects.list(SAVEPOINTS))
        return sorted(savepoint for savepoint in names if savepoint is not None)

    def proofs(self) -> list[str]:
        """The names of the restore test records, ordered by epoch; one listing."""
        return sorted(filter(parse_proof_name, self.objects.list(PROOFS)))

    def segments(self) -> Mapping[str, int]:
        """The size of every segment in bytes, by its name below the root; one listing."""
        listed = self.objects.list(SEGMENTS).items()
        return {name: size for name, size in listed if parse_segment_name(name) is not None}

    def pages(self) -> Sequence[PageName]:
        """All pages, in the order of their names; one listing."""
        names = (parse_page_name(name) for name in self.objects.list(PAGES))
        return sorted(page for page in names if page is not None)

    def stored_bytes(self) -> int:
        """The size of all cuts, pages, savepoints, segments and files of level 0; five listings."""
        kinds = (CUTS, PAGES, SAVEPOINTS, SEGMENTS, STORES)
        return sum(sum(self.objects.list(kind).values()) for kind in kinds)

    def listings(self) -> dict[StoreId, Listing]:
        """All stores of level 0 in order, each with its frames; one recursive listing."""
        sizes: dict[StoreId, dict[FrameName, int]] = {}
        for path, size in self.objects.list(STORES).items():
            directory, _, base_name = path.rpartition("/")
            store = parse_store_directory(directory)
            name = parse_frame_name(base_name)
            if store is not None and name is not None:
                sizes.setdefault(store, {})[name] = size
        return {store: Listing(store, frames) for store, frames in sorted(sizes.items())}


def open_root(
    location: str | os.PathLike[str],
    access: S3Access = S3Access(),  # noqa: B008  # frozen
    client: Any = None,
) -> Root:
    """Finds the root of a checkpoint and checks that this release can read it.

    Args:
        location: the checkpoint location.
        access: how to reach the object store.
        client: as for `open_s3`.

    Raises:
        RequestError: CLEANCUT_CHECKPOINT_NOT_FOUND, CLEANCUT_FORMAT_UNKNOWN,
            CLEANCUT_FILE_SYSTEM_UNAVAILABLE, or the object store refuses.
    """
    text = os.fspath(location)
    try:
        objects = objects_at(text, ROOT, access, client)
    except pa.ArrowInvalid as error:
        raise _not_found(text, str(error)) from error
    note = objects.path(FORMAT_OBJECT)
    try:
        _check_format(objects.read(FORMAT_OBJECT), note)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _not_found(text, f"{note} does not exist") from error
    return Root(text, objects)


def objects_at(location: str, below: str, access: S3Access, client: Any = None) -> Place:
    """The objects in a directory below a location, or at the location itself."""
    if location.startswith(SCHEMES):
        return open_s3(location, below, access, client)
    if not access.is_default:
        detail = "an endpoint, a region and other options of a bucket require an s3:// location"
        raise error_of("CLEANCUT_OBJECT_LOCATION_INVALID", location=location, detail=detail)
    # Hadoop writes some URIs with one slash, and a colon alone may be part of a path.
    scheme = _SCHEME.match(location)
    if scheme is not None:
        if scheme[1] not in _SCHEMES_OF_ARROW:
            raise _unreadable(location, scheme[1])
        filesystem, path = _of_uri(location)
    else:
        filesystem = pyarrow.fs.LocalFileSystem()
        path = os.path.abspath(location)  # noqa: PTH100  # keep links
    return Directory(filesystem, f"{path.rstrip('/')}/{below}".rstrip("/"))


def _of_uri(location: str) -> tuple[pyarrow.fs.FileSystem, str]:
    try:
        file_system, path = pyarrow.fs.FileSystem.from_uri(location)
    except pa.ArrowInvalid:
        # Hadoop writes a file path without escapes.
        if not location.startswith("file:/"):
            raise
        return pyarrow.fs.LocalFileSystem(), location.removeprefix("file:").removeprefix("//")
    except (OSError, NotImplementedError) as error:
        # Arrow lists each path at which it searched for a library, one per line.
        detail = str(error).partition("\n")[0].rstrip(". ")
        raise error_of(
            "CLEANCUT_FILE_SYSTEM_UNAVAILABLE", location=location, detail=detail
        ) from error
    return file_system, path


def _check_format(raw: bytes, path: str) -> None:
    try:
        note = json.loads(raw)
        # Builds before release 0.1.0 called the version formatVersion.
        is_unreleased = "formatVersion" in note and "version" not in note
        described = (
            UNRELEASED if is_unreleased else f"format {note['format']}, version {note['version']}"
        )
    except (ValueError, KeyError, TypeError):
        described = "no format"
    if described != _SUPPORTED:
        raise error_of("CLEANCUT_FORMAT_UNKNOWN", path=path, found=described, supported=_SUPPORTED)


def _unreadable(location: str, scheme: str) -> CleancutError:
    detail = (
        f"this package reads local paths, s3:, hdfs: and gs:, and not {scheme}: (give the path "
    )
    detail += "under which it is mounted, such as /dbfs/…, or copy the checkpoint to one of these)"
    return error_of("CLEANCUT_OBJECT_LOCATION_INVALID", location=location, detail=detail)


def _not_found(location: str, detail: str) -> CleancutError:
    return error_of("CLEANCUT_CHECKPOINT_NOT_FOUND", location=location, detail=detail)
