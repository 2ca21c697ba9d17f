"""Finds and lists the objects of one checkpoint, wherever it lies."""

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
        objects: what lies in the directory.
    """

    location: str
    objects: Place

    @property
    def checkpoint(self) -> Place:
        """What lies at the checkpoint location: Spark's own files, beside this directory."""
        return self.objects.above()

    def epochs(self) -> list[int]:
        """The epochs that have a cut, ascending; one listing."""
        found = (parse_cut_name(name) for name in self.objects.list(CUTS))
        return sorted(epoch for epoch in found if epoch is not None)

    def savepoints(self) -> list[str]:
        """What the savepoints are called, in order; one listing."""
        found = (parse_savepoint_name(name) for name in self.objects.list(SAVEPOINTS))
        return sorted(savepoint for savepoint in found if savepoint is not None)

    def proofs(self) -> list[str]:
        """The names of the proofs, by their epochs; one listing."""
        return sorted(filter(parse_proof_name, self.objects.list(PROOFS)))

    def segments(self) -> Mapping[str, int]:
        """The size in bytes of every segment, by its name below the root; one listing."""
        listed = self.objects.list(SEGMENTS).items()
        return {name: size for name, size in listed if parse_segment_name(name) is not None}

    def pages(self) -> Sequence[PageName]:
        """All pages, in the order of their names; one listing."""
        found = (parse_page_name(name) for name in self.objects.list(PAGES))
        return sorted(page for page in found if page is not None)

    def stored_bytes(self) -> int:
        """The size of all cuts, pages, savepoints, segments and files of level 0; five listings."""
        kinds = (CUTS, PAGES, SAVEPOINTS, SEGMENTS, STORES)
        return sum(sum(self.objects.list(kind).values()) for kind in kinds)

    def listings(self) -> dict[StoreId, Listing]:
        """All stores of level 0 in their order, each with its frames; one recursive listing."""
        sizes: dict[StoreId, dict[FrameName, int]] = {}
        for path, size in self.objects.list(STORES).items():
            directory, _, base_name = path.rpartition("/")
            store = parse_store_directory(directory)
            name = parse_frame_name(base_name)
            if store is not None and name is not None:
                sizes.setdefault(store, {})[name] = size
        return {store: Listing(store, found) for store, found in sorted(sizes.items())}


def open_root(
    location: str | os.PathLike[str],
    access: S3Access = S3Access(),  # noqa: B008  # frozen
    client: Any = None,
) -> Root:
    """Finds the root of a checkpoint and checks that this release can read it.

    Args:
        location: the checkpoint location.
        access: how an object store is asked.
        client: as for `open_s3`.

    Raises:
        RequestError: CLEANCUT_CHECKPOINT_NOT_FOUND, CLEANCUT_FORMAT_UNKNOWN,
            CLEANCUT_FILE_SYSTEM_UNAVAILABLE, or that the object store cannot be asked.
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
    """What lies in a directory below a location, or at the location itself."""
    if location.startswith(SCHEMES):
        return open_s3(location, below, access, client)
    if not access.is_default:
        detail = (
            "an endpoint, a region and what else says how a bucket is asked go with s3:// alone"
        )
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
        found, path = pyarrow.fs.FileSystem.from_uri(location)
    except pa.ArrowInvalid:
        # As Hadoop names a file, in whose path nothing is escaped.
        if not location.startswith("file:/"):
            raise
        return pyarrow.fs.LocalFileSystem(), location.removeprefix("file:").removeprefix("//")
    except (OSError, NotImplementedError) as error:
        # Arrow lists each path at which it looked for a library, one a line.
        detail = str(error).partition("\n")[0].rstrip(". ")
        raise error_of(
            "CLEANCUT_FILE_SYSTEM_UNAVAILABLE", location=location, detail=detail
        ) from error
    return found, path


def _check_format(raw: bytes, path: str) -> None:
    try:
        note = json.loads(raw)
        # Builds before release 0.1.0 called the version formatVersion.
        is_unreleased = "formatVersion" in note and "version" not in note
        found = (
            UNRELEASED if is_unreleased else f"format {note['format']}, version {note['version']}"
        )
    except (ValueError, KeyError, TypeError):
        found = "no format"
    if found != _SUPPORTED:
        raise error_of("CLEANCUT_FORMAT_UNKNOWN", path=path, found=found, supported=_SUPPORTED)


def _unreadable(location: str, scheme: str) -> CleancutError:
    detail = (
        f"this package reads local paths, s3:, hdfs: and gs:, and not {scheme}: (give the path "
    )
    detail += "under which it is mounted, such as /dbfs/…, or copy the checkpoint to one of these)"
    return error_of("CLEANCUT_OBJECT_LOCATION_INVALID", location=location, detail=detail)


def _not_found(location: str, detail: str) -> CleancutError:
    return error_of("CLEANCUT_CHECKPOINT_NOT_FOUND", location=location, detail=detail)
