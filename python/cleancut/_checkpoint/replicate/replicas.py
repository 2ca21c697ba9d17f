"""A copy of a checkpoint elsewhere, kept a few cuts after it: docs/PROTOCOL.md, *Replicating*.

The order is what makes the copy a checkpoint at any moment: what a cut leads to is copied before
the cut, and taken away after it. What is listed after the cuts has all that they lead to, since it
was there before each of them; and a cut that is still there at the end was not swept meanwhile, so
that nothing it leads to was.
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
from cleancut._checkpoint.replicate.followed import note_pass
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
from cleancut._storage.copying import copy_object
from cleancut._storage.directory import Directory
from cleancut._storage.objects import Objects, Place
from cleancut._storage.parallel import mapped, windows
from cleancut.errors import CleancutError, CorruptedError, error_of

# What is held in memory, unless one object alone is larger.
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
        CorruptedError: the last cut is damaged.
    """
    found = _Pass(source, place, location).run()
    if not read_only:
        note_pass(source, location, found.epoch, found.written_ms)
    return found


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
    """One pass from a checkpoint to its copy; names are below the checkpoint location."""

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
        """Objects of the root."""
        found = _all_of(self._source.objects, *kinds)
        return {f"{ROOT}/{name}": size for name, size in found.items() if not _is_hidden(name)}

    def _check(self, last: int, owners: Mapping[str, int], there: Mapping[str, int]) -> None:
        """Refuses what is no earlier copy, or one on which a query has been started."""
        if not there:
            return
        if _NOTE not in there:
            raise self._diverged("something else is there, which is no copy")
        note = json.loads(self._place.read(_NOTE))
        if note.get("queryId") != self._cut(last).query_id:
            raise self._diverged(f"it is a copy of the query {note.get('queryId')}")
        own = f"{ROOT}/{OWNERS}/"
        taken = sorted(of for of in there if of.startswith(own) and of.endswith(".json"))
        # The next run of either side takes the same number.
        for name in taken[-1:]:
            if name not in owners or not self._is_same(name):
                raise self._diverged("a query has been started on it")
        for epoch in _epochs(there)[-1:]:
            if epoch > last:
                raise self._diverged(f"it has a cut of epoch {epoch}, and this of {last}")
            if not self._is_same(f"{ROOT}/{cut_name(epoch)}"):
                raise self._diverged(f"its cut of epoch {epoch} is another one")

    def _is_same(self, name: str) -> bool:
        """Whether an object is the copy of the checkpoint's, if that has it still."""
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
        """Before anything else, so that a pass that is killed can be begun again."""
        if _NOTE not in there:
            note = {"of": self._source.location, "queryId": self._cut(last).query_id}
            self._place.create(_NOTE, json.dumps(note).encode())
            there[_NOTE] = 0

    def _follow(self, name: str) -> None:
        """Has a small object as it is now; acts write some of them anew."""
        try:
            data = self._made(name)
        except FileNotFoundError:
            return
        self._write(name, data)

    def _lineage(self, last: int) -> bytes:
        """The checkpoints that a query continues which is started on the copy."""
        try:
            known = lineage_of(self._checkpoint.read(f"{ROOT}/{ORIGIN}"))
        except FileNotFoundError:
            known = []
        location = self._source.location
        # As a query names it, which has another directory than this process.
        location = location if ":" in location else str(Path(location).absolute())
        own = {"checkpoint": location, "generation": self._cut(last).generation}
        return encoded_lineage([*known, own])

    def _write(self, name: str, data: bytes) -> None:
        """Has a small object have these bytes."""
        if not self._place.create(name, data):
            if self._place.read(name) == data:
                return
            self._place.delete(name)
            self._place.create(name, data)
        self._objects += 1
        self._bytes += len(data)

    def _copy(self, names: Iterable[str], sizes: Mapping[str, int], there: dict[str, int]) -> None:
        """Copies what is not there: these objects are written once, each under a new name."""
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
            # Swept since; a cut that leads to it is, too.
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
        """Epoch by epoch: what it takes in, its seals, its cut, and that it is committed.

        So the copy has never begun more than the epoch after its last cut. Of cuts only those are
        taken that are still in the checkpoint: what they lead to was not swept meanwhile.
        """
        still = self._listed(CUTS, SAVEPOINTS)
        own = [name for name in cuts if name in still]
        begun = max([last, *_epochs(own, parse_seal_name)])
        turns = [(_turn(name, begun), name) for name in own]
        for name in logs:
            numbered = NUMBERED.fullmatch(name)
            if numbered and int(numbered[2]) <= (last if numbered[1] == "commits" else begun):
                turns.append((_turn(name, begun), name))
        sizes = {**logs, **cuts}
        for _, name in sorted(turns):
            self._copy([name], sizes, there)

    def _hold_partitions(self) -> None:
        """Has a directory for each partition, which is how Spark's readers of state know them."""
        copied = _epochs(self._place.list(f"{ROOT}/{CUTS}"))
        if not isinstance(self._place, Directory) or not copied:
            return
        root = Directory(self._place.filesystem, f"{self._place.root}/{ROOT}")
        partitions: dict[int, set[str]] = {}
        # What is damaged is told to who reads it.
        with suppress(CorruptedError):
            for store in CutReader(root).cut(copied[-1]).chains:
                partitions.setdefault(store.operator, set()).add(str(store.partition))
        for operator, names in partitions.items():
            self._place.hold(f"state/{operator}", names)

    def _retire(self, there: Mapping[str, int], parts: Mapping[str, int]) -> None:
        """Takes away what the checkpoint has no more: cuts first."""
        kept = self._listed(CUTS, SAVEPOINTS)
        oldest = min(_epochs(kept), default=0)
        if not kept:
            return
        of_cuts = tuple(f"{ROOT}/{kind}/" for kind in (CUTS, SAVEPOINTS))
        self._delete(of for of in there if of.startswith(of_cuts) and of not in kept)
        leading = tuple(f"{ROOT}/{kind}/" for kind in (SEGMENTS, PAGES, STORES))
        self._delete(of for of in there if of.startswith(leading) and of not in parts)
        numbered = ((of, NUMBERED.fullmatch(of)) for of in there)
        self._delete(of for of, entry in numbered if entry and int(entry[2]) < oldest - 1)

    def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._place.delete(name)
            self._deleted += 1

    def _info(self) -> ReplicaInfo:
        copied = _epochs(self._place.list(f"{ROOT}/{CUTS}"))
        if not copied:
            raise self._no_cut("cut that stays for as long as a first pass takes")
        own = copied[-1]
        newest = max([*self._source.epochs(), own])
        written_ms = read_cut(
            self._place.read(f"{ROOT}/{cut_name(own)}"), self._location, own
        ).written_ms
        lag_ms = self._cut(newest).written_ms - written_ms if newest > own else 0
        return ReplicaInfo(
            epoch=own,
            lag_epochs=newest - own,
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
    """What there is of some kinds, by name; sizes in bytes."""
    return {name: size for kind in kinds for name, size in place.list(kind).items()}


def _epochs(names: Iterable[str], parse: Callable[[str], int | None] = parse_cut_name) -> list[int]:
    found = (parse(name.removeprefix(f"{ROOT}/")) for name in names)
    return sorted(epoch for epoch in found if epoch is not None)


def _turn(name: str, begun: int) -> tuple[int, int]:
    """When an object is copied: epoch by epoch its offsets, seals, cut, commit; then savepoints."""
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
    """What Spark notes of an operator, with the schemas where the copy has them."""
    try:
        note = OperatorMetadata.parse(metadata)
    except ValueError:
        return metadata
    return note.moved("/".join(name.split("/")[:2]), location)
