"""Replicates a checkpoint to another location; see docs/PROTOCOL.md, *Replicating*.

The order of copies makes the replica a checkpoint at any time: the objects that a cut references
are copied before the cut, and deleted after it. Segments are listed after the cuts, so the list has
all segments of these cuts. If a cut still exists at the end of a pass, garbage collection has
deleted none of its objects meanwhile.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from cleancut._brief import Brief
from cleancut._checkpoint.read.cut_reader import CutReader
from cleancut._checkpoint.read.root import Root
from cleancut._checkpoint.replicate.records import note_pass
from cleancut._display.tables import rank
from cleancut._format.cut.cut import Cut, read_cut
from cleancut._format.cut.lineage import encoded_lineage, lineage_of
from cleancut._format.layout import (
    CUTS,
    FORMAT_OBJECT,
    ORIGIN,
    OWNERS,
    PAGES,
    REPLICA,
    ROOT,
    SAVEPOINTS,
    SEGMENTS,
    STORES,
    cut_name,
    last_generation,
    owner_name,
    parse_cut_name,
    parse_seal_name,
)
from cleancut._format.spark.operator_metadata import OperatorMetadata
from cleancut._format.spark.spark_names import (
    DIRECTORIES,
    METADATA,
    NUMBERED,
    OF_OPERATORS,
    OF_SOURCES,
    OF_STATE,
)
from cleancut._storage.copies import copy_object
from cleancut._storage.directory import Directory
from cleancut._storage.objects import Objects, Place
from cleancut._storage.parallel import mapped, windows
from cleancut.errors import CleancutError, CorruptedError, error_of

# Maximum size of objects in memory, unless one object alone is larger.
_WINDOW_BYTES = 64 << 20
_NOTE = f"{ROOT}/{REPLICA}"


@dataclass(frozen=True, repr=False)
class ReplicaInfo(Brief):
    """The result of one pass of a replication.

    Attributes:
        epoch: epoch of the last cut of the replica.
        lag_epochs: number of epochs that the checkpoint has committed since.
        lag_ms: milliseconds between the commits of these two epochs.
        objects: number of objects copied.
        bytes: size of the objects copied.
        deleted: number of objects deleted, because the checkpoint has deleted them.
        took_ms: duration of the pass in milliseconds.
        written_ms: time at which the last cut of the replica was written, in milliseconds since
            1970.
    """

    epoch: int
    lag_epochs: int
    lag_ms: int
    objects: int
    bytes: int
    deleted: int = field(metadata=rank(1))
    took_ms: int = field(metadata=rank(2))
    written_ms: int = field(default=0, metadata={"column": False})


def replicate(source: Root, place: Place, location: str, *, read_only: bool) -> ReplicaInfo:
    """Copies what is new to a replica.

    Args:
        source: the checkpoint.
        place: the objects at the checkpoint location of the replica.
        location: that location.
        read_only: write no record of the replica into the checkpoint.

    Raises:
        RequestError: CLEANCUT_STATE_NOT_FOUND, it has no cuts; CLEANCUT_REPLICA_DIVERGED.
        CorruptedError: the last cut is corrupted.
    """
    result = _Pass(source, place, location).run()
    if not read_only:
        note_pass(source, location, result.epoch, result.written_ms)
    return result


def fence(root: Root, reason: str) -> int:
    """Takes the next generation, so that the run of the last one commits nothing more.

    Args:
        root: root of the checkpoint.
        reason: written instead of the host of a driver; the error of that run shows it.

    Returns:
        The generation.
    """
    run_id = str(uuid4())
    while True:
        generation = last_generation(root.objects.list(OWNERS)) + 1
        note = {
            "generation": generation,
            "queryId": None,
            "runId": run_id,
            "host": reason,
            "startedMs": round(time.time() * 1000),
            "token": uuid4().hex,
            "fence": True,
        }
        if root.objects.create(owner_name(generation), json.dumps(note).encode()):
            return generation


class _Pass:
    """One pass from a checkpoint to its replica; names are below the checkpoint location."""

    def __init__(self, source: Root, place: Place, location: str) -> None:
        self._source, self._place, self._location = source, place, location
        self._checkpoint = source.checkpoint
        self._began = time.monotonic()
        self._objects = self._bytes = self._deleted = 0

    def run(self) -> ReplicaInfo:
        cuts = self._listed(CUTS, SAVEPOINTS)
        epochs = _epochs(cuts)
        if not epochs:
            raise self._no_cut("cut to replicate")
        there = _all_of(self._place, ROOT, *DIRECTORIES)
        owners = self._listed(OWNERS)
        self._check(epochs[-1], owners, there)
        parts = self._listed(SEGMENTS, PAGES, STORES)
        logs = _all_of(self._checkpoint, *DIRECTORIES)
        self._note(epochs[-1], there)
        self._write(f"{ROOT}/{ORIGIN}", self._lineage(epochs[-1]))
        self._copy([name for name in logs if OF_SOURCES.fullmatch(name)], logs, there)
        self._follow(f"{ROOT}/{FORMAT_OBJECT}")
        for name in [METADATA, *filter(OF_STATE.fullmatch, logs)]:
            self._follow(name)
        self._copy(parts, parts, there)
        self._copy(owners, owners, there)
        self._copy_epochs(cuts, logs, epochs[-1], there)
        self._retire(there, parts)
        self._hold_partitions()
        return self._info()

    def _listed(self, *kinds: str) -> dict[str, int]:
        """The objects of some kinds below the root."""
        sizes = _all_of(self._source.objects, *kinds)
        return {f"{ROOT}/{name}": size for name, size in sizes.items() if not _is_hidden(name)}

    def _check(self, last: int, owners: Mapping[str, int], there: Mapping[str, int]) -> None:
        """Refuses a target that is no earlier replica, or on which a query has been started."""
        if not there:
            return
        if _NOTE not in there:
            raise self._diverged("it contains other objects than a replica")
        note = json.loads(self._place.read(_NOTE))
        if note.get("queryId") != self._cut(last).query_id:
            raise self._diverged(f"it is a copy of the query {note.get('queryId')}")
        owners_prefix = f"{ROOT}/{OWNERS}/"
        taken = sorted(
            name for name in there if name.startswith(owners_prefix) and name.endswith(".json")
        )
        # The next run on either side takes the same generation.
        for name in taken[-1:]:
            if name not in owners or not self._is_same(name):
                raise self._diverged("a query has been started on it")
        for epoch in _epochs(there)[-1:]:
            if epoch > last:
                raise self._diverged(f"it has a cut of epoch {epoch}, and this of {last}")
            if not self._is_same(f"{ROOT}/{cut_name(epoch)}"):
                raise self._diverged(f"its cut of epoch {epoch} is another one")

    def _is_same(self, name: str) -> bool:
        """Whether an object equals that of the checkpoint, if the checkpoint still has it."""
        try:
            return self._place.read(name) == self._checkpoint.read(name)
        except FileNotFoundError:
            return True

    def _no_cut(self, wanted: str) -> CleancutError:
        facts = {"location": self._source.location, "wanted": wanted, "available": "no cuts"}
        return error_of("CLEANCUT_STATE_NOT_FOUND", **facts)

    def _diverged(self, reason: str) -> CleancutError:
        return error_of(
            "CLEANCUT_REPLICA_DIVERGED",
            location=self._source.location,
            replica=self._location,
            reason=reason,
        )

    def _note(self, last: int, there: dict[str, int]) -> None:
        """Marks the replica before any other write, so that a killed pass can be repeated."""
        if _NOTE not in there:
            note = {"of": self._source.location, "queryId": self._cut(last).query_id}
            self._place.create(_NOTE, json.dumps(note).encode())
            there[_NOTE] = 0

    def _follow(self, name: str) -> None:
        """Copies the current content of a small object; some operations rewrite these."""
        try:
            data = self._made(name)
        except FileNotFoundError:
            return
        self._write(name, data)

    def _lineage(self, last: int) -> bytes:
        """The lineage of a query that is started on the replica."""
        try:
            known = lineage_of(self._checkpoint.read(f"{ROOT}/{ORIGIN}"))
        except FileNotFoundError:
            known = []
        location = self._source.location
        # The location as a query names it, whose working directory is another one.
        location = location if ":" in location else str(Path(location).absolute())
        current = {"checkpoint": location, "generation": self._cut(last).generation}
        return encoded_lineage([*known, current])

    def _write(self, name: str, data: bytes) -> None:
        """Writes a small object, if its content differs."""
        if not self._place.create(name, data):
            if self._place.read(name) == data:
                return
            self._place.delete(name)
            self._place.create(name, data)
        self._objects += 1
        self._bytes += len(data)

    def _copy(self, names: Iterable[str], sizes: Mapping[str, int], there: dict[str, int]) -> None:
        """Copies objects that the replica lacks. Each is written once, under a unique name."""
        missing = [name for name in names if name not in there]
        for group in windows(missing, sizes.__getitem__, _WINDOW_BYTES):
            copied = mapped(lambda name: self._copied(name, sizes[name]), group)
            for name, size in zip(group, copied, strict=True):
                if size is not None:
                    there[name] = size
                    self._objects += 1
                    self._bytes += size

    def _copied(self, name: str, size: int) -> int | None:
        try:
            return copy_object(self._checkpoint, self._place, name, size)
        except FileNotFoundError:
            # Garbage collection has deleted it; a cut that references it is deleted too.
            return None

    def _made(self, name: str) -> bytes:
        data = self._checkpoint.read(name)
        return _moved(data, name, self._location) if OF_OPERATORS.fullmatch(name) else data

    def _copy_epochs(
        self,
        cuts: Mapping[str, int],
        logs: Mapping[str, int],
        last: int,
        there: dict[str, int],
    ) -> None:
        """Copies epoch by epoch: its offset entry, its seals, its cut, and its commit entry.

        So the replica has started at most the epoch after its last cut. A cut that still exists
        when it is copied is complete: none of its objects was deleted before the cut.
        """
        begun = max([last, *_epochs(cuts, parse_seal_name)])
        turns = [(_turn(name, begun), name) for name in cuts]
        for name in logs:
            numbered = NUMBERED.fullmatch(name)
            if numbered and int(numbered[2]) <= (last if numbered[1] == "commits" else begun):
                turns.append((_turn(name, begun), name))
        sizes = {**logs, **cuts}
        for _, name in sorted(turns):
            self._copy([name], sizes, there)

    def _hold_partitions(self) -> None:
        """Creates a directory for each partition, because Spark's state readers list these."""
        copied = _epochs(self._place.list(f"{ROOT}/{CUTS}"))
        if not isinstance(self._place, Directory) or not copied:
            return
        root = Directory(self._place.filesystem, f"{self._place.root}/{ROOT}")
        partitions: dict[int, set[str]] = {}
        # Corruption is reported to the reader of the object.
        with suppress(CorruptedError):
            for store in CutReader(root).cut(copied[-1]).chains:
                partitions.setdefault(store.operator, set()).add(str(store.partition))
        for operator, names in partitions.items():
            self._place.hold(f"state/{operator}", names)

    def _retire(self, there: Mapping[str, int], parts: Mapping[str, int]) -> None:
        """Deletes objects that the checkpoint has deleted, cuts first."""
        kept = self._listed(CUTS, SAVEPOINTS)
        oldest = min(_epochs(kept), default=0)
        if not kept:
            return
        of_cuts = tuple(f"{ROOT}/{kind}/" for kind in (CUTS, SAVEPOINTS))
        self._delete(name for name in there if name.startswith(of_cuts) and name not in kept)
        leading = tuple(f"{ROOT}/{kind}/" for kind in (SEGMENTS, PAGES, STORES))
        self._delete(name for name in there if name.startswith(leading) and name not in parts)
        numbered = ((name, NUMBERED.fullmatch(name)) for name in there)
        self._delete(name for name, entry in numbered if entry and int(entry[2]) < oldest - 1)

    def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._place.delete(name)
            self._deleted += 1

    def _info(self) -> ReplicaInfo:
        copied = _epochs(self._place.list(f"{ROOT}/{CUTS}"))
        if not copied:
            raise self._no_cut("cut that is retained for the duration of the first pass")
        last = copied[-1]
        newest = max([*self._source.epochs(), last])
        written_ms = read_cut(
            self._place.read(f"{ROOT}/{cut_name(last)}"), self._location, last
        ).written_ms
        lag_ms = self._cut(newest).written_ms - written_ms if newest > last else 0
        return ReplicaInfo(
            epoch=last,
            lag_epochs=newest - last,
            lag_ms=lag_ms,
            objects=self._objects,
            bytes=self._bytes,
            deleted=self._deleted,
            took_ms=round((time.monotonic() - self._began) * 1000),
            written_ms=written_ms,
        )

    def _cut(self, epoch: int) -> Cut:
        name, objects = cut_name(epoch), self._source.objects
        return read_cut(objects.read(name), objects.path(name), epoch)


def _all_of(place: Objects, *kinds: str) -> dict[str, int]:
    """The objects of some kinds, by name, with their sizes in bytes."""
    return {name: size for kind in kinds for name, size in place.list(kind).items()}


def _epochs(names: Iterable[str], parse: Callable[[str], int | None] = parse_cut_name) -> list[int]:
    epochs = (parse(name.removeprefix(f"{ROOT}/")) for name in names)
    return sorted(epoch for epoch in epochs if epoch is not None)


def _turn(name: str, begun: int) -> tuple[int, int]:
    """The position of an object in the copy order: offsets, seals, cut, commit; then savepoints."""
    numbered = NUMBERED.fullmatch(name)
    if numbered is not None:
        return int(numbered[2]), 3 if numbered[1] == "commits" else 0
    below = name.removeprefix(f"{ROOT}/")
    seal, cut = parse_seal_name(below), parse_cut_name(below)
    if seal is not None:
        return seal, 1
    return (begun + 1, 4) if cut is None else (cut, 2)


def _is_hidden(name: str) -> bool:
    return name.rpartition("/")[2].startswith(".")


def _moved(metadata: bytes, name: str, location: str) -> bytes:
    """Spark's metadata of an operator, with the paths of schemas changed to the replica's."""
    try:
        note = OperatorMetadata.parse(metadata)
    except ValueError:
        return metadata
    return note.moved("/".join(name.split("/")[:2]), location)
