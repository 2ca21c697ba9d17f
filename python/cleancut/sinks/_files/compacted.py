"""Epochs that lie together: which parts there are, and which of their epochs count.

Up to some epoch, `until`, a sink's manifests count no more: what is seen of these epochs is what
the newest *version* says. A version names *parts*, each with the rows of many epochs, and for each
part the epochs that are shown and those that are hidden. Versions are numbered, and each is created
if absent; so whoever changes what is seen has seen what all others did before.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from cleancut._format.fields import typed
from cleancut.errors import error_of
from cleancut.sinks._files.directory import Records
from cleancut.sinks._files.manifest import DataFile, Manifest, decoded, encoded, files_of, schema_in
from cleancut.sinks._files.names import COMPACTED, Attempt, PartName, version_name, versions

_TRIES = 20


@dataclass(frozen=True)
class Epochs:
    """A set of epochs.

    Attributes:
        ranges: the first and the last one of each run of numbers; ascending, and apart.
    """

    ranges: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(epochs: Iterable[int]) -> "Epochs":
        """A set of these."""
        ranges: list[tuple[int, int]] = []
        for epoch in sorted(set(epochs)):
            if ranges and ranges[-1][1] == epoch - 1:
                ranges[-1] = (ranges[-1][0], epoch)
            else:
                ranges.append((epoch, epoch))
        return Epochs(tuple(ranges))

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges:
            yield from range(first, last + 1)

    def __str__(self) -> str:
        return ", ".join(
            f"{first}" if first == last else f"{first} to {last}" for first, last in self.ranges
        )

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, epoch: object) -> bool:
        return epoch in self._all

    @cached_property
    def _all(self) -> frozenset[int]:
        return frozenset(self)

    def __or__(self, other: "Epochs") -> "Epochs":
        return Epochs.of(self._all | other._all)

    def __sub__(self, other: "Epochs") -> "Epochs":
        return Epochs.of(self._all - other._all)

    def kept(self, counts: Callable[[int], bool]) -> "Epochs":
        """Those for which something is so."""
        return Epochs.of(filter(counts, self))


@dataclass(frozen=True)
class PartUse:
    """What a version says of a part.

    Attributes:
        name: of the part.
        epochs: all whose rows lie in it.
        shown: those that readers see.
        hidden: those that were taken back and may be given back.
        bytes: of all its files.
        in_place: whether each epoch has files of its own, those that it was published with.
    """

    name: PartName
    epochs: Epochs
    shown: Epochs
    hidden: Epochs
    bytes: int
    in_place: bool

    @property
    def size(self) -> int:
        """What it takes to write it anew: its bytes, or how many epochs are to be named."""
        return len(self.epochs) if self.in_place else self.bytes

    @property
    def is_mixed(self) -> bool:
        """Whether rows that count lie in files with rows that do not."""
        return not self.in_place and bool(self.shown) and self.shown != self.epochs


@dataclass(frozen=True)
class Version:
    """What counts of the epochs up to some one.

    Attributes:
        number: its own; they are consecutive.
        until: for epochs up to this one the version decides, for all others their manifests.
        made_ms: when it was made, in Unix time.
        parts: that have epochs which are shown or hidden.
    """

    number: int
    until: int
    made_ms: int
    parts: tuple[PartUse, ...]

    @property
    def shown(self) -> Iterator[int]:
        """The epochs that readers see, of those that it decides for."""
        return (epoch for part in self.parts for epoch in part.shown)

    @property
    def hidden(self) -> Iterator[int]:
        """Those that were taken back and may be given back, likewise."""
        return (epoch for part in self.parts for epoch in part.hidden)

    def without(self, gone: Callable[[int], bool]) -> "Version":
        """It, with epochs hidden that are shown."""
        return self._with(
            replace(
                part,
                shown=part.shown.kept(lambda epoch: not gone(epoch)),
                hidden=part.hidden | part.shown.kept(gone),
            )
            for part in self.parts
        )

    def again(self, back: Callable[[int], bool]) -> "Version":
        """It, with epochs shown that are hidden; those that are shown elsewhere stay hidden."""
        there = set(self.shown)
        parts = []
        for part in self.parts:
            found = part.hidden.kept(lambda epoch: back(epoch) and epoch not in there)
            there.update(found)
            parts.append(replace(part, shown=part.shown | found, hidden=part.hidden - found))
        return self._with(parts)

    def forgetting(self) -> "Version":
        """It, with nothing that may be given back."""
        return self._with(replace(part, hidden=Epochs()) for part in self.parts)

    def after(self, epoch: int) -> "Version":
        """It, with no epoch up to one, nor any that has a manifest."""
        moved = replace(self, until=max(self.until, epoch))
        return moved._with(
            replace(
                part,
                shown=part.shown.kept(lambda of: of > epoch),
                hidden=part.hidden.kept(lambda of: of > epoch),
            )
            for part in self.parts
        )

    def _with(self, parts: Iterable[PartUse]) -> "Version":
        return replace(self, parts=tuple(part for part in parts if part.shown or part.hidden))

    def encode(self) -> bytes:
        """The version as it is written."""
        parts = [
            {
                "name": part.name.text,
                "epochs": list(map(list, part.epochs.ranges)),
                "shown": list(map(list, part.shown.ranges)),
                "hidden": list(map(list, part.hidden.ranges)),
                "bytes": part.bytes,
                "inPlace": part.in_place,
            }
            for part in self.parts
        ]
        fields = {"version": self.number, "until": self.until, "madeMs": self.made_ms}
        return encoded(fields | {"parts": parts})

    @staticmethod
    def decode(body: bytes, path: str) -> "Version":
        """Reads what `encode` made.

        Raises:
            DamagedError: CLEANCUT_SINK_DAMAGED, naming the path.
            RequestError: CLEANCUT_FORMAT_UNKNOWN, a later release wrote it.
        """

        def parsed(fields: dict[str, Any]) -> Version:
            return Version(
                number=typed(fields, "version", int),
                until=typed(fields, "until", int),
                made_ms=typed(fields, "madeMs", int),
                parts=tuple(
                    PartUse(
                        name=PartName.parse(typed(of, "name", str)),
                        epochs=_epochs_in(of, "epochs"),
                        shown=_epochs_in(of, "shown"),
                        hidden=_epochs_in(of, "hidden"),
                        bytes=typed(of, "bytes", int),
                        in_place=typed(of, "inPlace", bool),
                    )
                    for of in typed(fields, "parts", list)
                ),
            )

        return decoded(body, path, parsed)


def _epochs_in(fields: dict[str, Any], name: str) -> Epochs:
    found = []
    for pair in typed(fields, name, list):
        first, last = pair
        if not (isinstance(first, int) and isinstance(last, int) and first <= last):
            raise ValueError(f"{name} has {pair}, which is no range of epochs")
        found.append((first, last))
    return Epochs(tuple(found))


# What a sink begins with: all epochs have manifests.
NO_VERSION = Version(number=-1, until=-1, made_ms=0, parts=())


@dataclass(frozen=True)
class Member:
    """What a part remembers of an epoch.

    Attributes:
        attempt: the one that wrote it.
        run_id: of that run.
        planned_ms: as in `Manifest`.
        published_ms: likewise.
        rows: how many it has.
        bytes: of the files that it was published with.
        files: these, if they are where they were; else none.
    """

    attempt: Attempt
    run_id: str
    planned_ms: int
    published_ms: int
    rows: int
    bytes: int
    files: tuple[DataFile, ...]

    @property
    def epoch(self) -> int:
        """Spark's batch id."""
        return self.attempt.epoch

    @staticmethod
    def of(manifest: Manifest, *, in_place: bool) -> "Member":
        """What stays of a manifest."""
        return Member(
            attempt=manifest.attempt,
            run_id=manifest.run_id,
            planned_ms=manifest.planned_ms,
            published_ms=manifest.published_ms,
            rows=manifest.rows,
            bytes=sum(file.bytes for file in manifest.files),
            files=manifest.files if in_place else (),
        )


@dataclass(frozen=True)
class Part:
    """Epochs that lie together.

    Attributes:
        name: its own.
        query_id: Spark's id of the query.
        members: its epochs, ascending.
        files: that hold the rows of all of them, with a column `cleancut_epoch`; none if each
            epoch has files of its own.
        format: Spark's name of the format of the files.
        partition_by: the columns that are in the directories' names.
        schema: of the rows, Spark's JSON, without `cleancut_epoch`.
    """

    name: PartName
    query_id: str
    members: tuple[Member, ...]
    files: tuple[DataFile, ...]
    format: str
    partition_by: tuple[str, ...]
    schema: str

    def member(self, epoch: int) -> Member | None:
        """What it remembers of an epoch."""
        return next((member for member in self.members if member.epoch == epoch), None)

    def manifest(self, member: Member) -> Manifest:
        """What the epoch had been published by, as far as it is remembered."""
        return Manifest(
            attempt=member.attempt,
            query_id=self.query_id,
            run_id=member.run_id,
            planned_ms=member.planned_ms,
            published_ms=member.published_ms,
            rows=member.rows,
            files=member.files,
            format=self.format,
            partition_by=self.partition_by,
            schema=self.schema,
        )

    def encode(self) -> bytes:
        """The record as it is written."""
        members = [
            {
                "epoch": of.epoch,
                "attempt": of.attempt.token,
                "runId": of.run_id,
                "plannedMs": of.planned_ms,
                "publishedMs": of.published_ms,
                "rows": of.rows,
                "bytes": of.bytes,
                "files": files_of(of.files),
            }
            for of in self.members
        ]
        return encoded(
            {
                "queryId": self.query_id,
                "members": members,
                "files": files_of(self.files),
                "format": self.format,
                "partitionBy": list(self.partition_by),
                "schema": json.loads(self.schema),
            }
        )


def read_part(records: Records, name: PartName) -> Part | None:
    """What is said of a part; None if it is there no more.

    Raises:
        DamagedError: CLEANCUT_SINK_DAMAGED.
    """

    def member(fields: dict[str, Any]) -> Member:
        return Member(
            attempt=Attempt(typed(fields, "epoch", int), typed(fields, "attempt", str)),
            run_id=typed(fields, "runId", str),
            planned_ms=typed(fields, "plannedMs", int),
            published_ms=typed(fields, "publishedMs", int),
            rows=typed(fields, "rows", int),
            bytes=typed(fields, "bytes", int),
            files=DataFile.all_in(fields),
        )

    def parsed(fields: dict[str, Any]) -> Part:
        return Part(
            name=name,
            query_id=typed(fields, "queryId", str),
            members=tuple(map(member, typed(fields, "members", list))),
            files=DataFile.all_in(fields),
            format=typed(fields, "format", str),
            partition_by=tuple(typed(fields, "partitionBy", list)),
            schema=schema_in(fields),
        )

    body = records.read(name.record)
    return None if body is None else decoded(body, records.at(name.record), parsed)


def part_gone(records: Records, name: PartName) -> Exception:
    """The error for a part that a version names, and that is not there."""
    return error_of(
        "CLEANCUT_SINK_DAMAGED",
        path=records.at(name.record),
        detail="it is not there, and its epochs count",
    )


def read_version(records: Records, number: int) -> Version | None:
    """A version; None if it is there no more.

    Raises:
        DamagedError: CLEANCUT_SINK_DAMAGED.
    """
    body = records.read(version_name(number))
    return None if body is None else Version.decode(body, records.at(version_name(number)))


def newest_version(records: Records) -> Version:
    """The version that counts; `NO_VERSION` if there is none.

    Raises:
        DamagedError: CLEANCUT_SINK_DAMAGED.
    """
    for _ in range(_TRIES):
        numbers = versions(records.names(COMPACTED))
        if not numbers:
            return NO_VERSION
        # It goes only if there is a later one.
        found = read_version(records, numbers[-1])
        if found is not None:
            return found
    raise error_of("CLEANCUT_SINK_CHANGED", path=records.location, tries=_TRIES)


def follow_with(records: Records, before: Version, change: Version) -> bool:
    """Makes a version that follows another one; whether nobody else did."""
    made = replace(change, number=before.number + 1, made_ms=time.time_ns() // 1_000_000)
    return records.create(version_name(made.number), made.encode())


def change_version(records: Records, change: Callable[[Version], Version]) -> Version:
    """Makes a version of the newest one, also if it says the same.

    So whoever has looked at the manifests before them were changed finds that he is late.

    Args:
        records: of the sink.
        change: from the newest version to the next.

    Returns:
        The version before.

    Raises:
        RetryableError: CLEANCUT_SINK_CHANGED, others change it all the time.
        DamagedError: CLEANCUT_SINK_DAMAGED.
    """
    for _ in range(_TRIES):
        found = newest_version(records)
        if follow_with(records, found, change(found)):
            return found
    raise error_of("CLEANCUT_SINK_CHANGED", path=records.location, tries=_TRIES)
