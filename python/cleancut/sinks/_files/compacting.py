"""Puts epochs together, gives old ones up, and deletes what no reader needs any more."""

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import chain

from cleancut._format.ages import age_ms
from cleancut._storage.parallel import mapped
from cleancut.errors import error_of
from cleancut.sinks._core.columns import quoted
from cleancut.sinks._files.compacted import (
    Epochs,
    Member,
    Part,
    PartUse,
    Version,
    change_version,
    follow_with,
    newest_version,
    part_gone,
    read_part,
    read_version,
)
from cleancut.sinks._files.directory import Records, SinkDirectory
from cleancut.sinks._files.manifest import DataFile, Manifest, read_manifest
from cleancut.sinks._files.names import (
    COMPACTED,
    EPOCH_COLUMN,
    EPOCHS,
    FILES,
    PARTS,
    TAKEN_BACK,
    Attempt,
    PartName,
    attempts,
    manifest_epochs,
    manifest_name,
    part_directories,
    part_records,
    taken_back,
    taken_back_name,
    version_name,
    versions,
)
from cleancut.sinks._files.publishing import Output
from cleancut.sinks._files.rows import RowReader
from cleancut.sinks._files.view import SeenEpoch, SeenPart, look

# What nobody has named for so long was left by a crash.
_LEFT_MS = 86_400_000
_TRIES = 3
# Epochs in one part of those that keep their files.
_MOST_MEMBERS = 100_000


@dataclass(frozen=True)
class Kept:
    """Which epochs stay as they are: the last ones, and the young ones.

    Attributes:
        last: how many; at least 1, because a run may still ask for it.
        since_ms: those published from then on, in Unix time; None keeps none for its age.
    """

    last: int
    since_ms: float | None

    @staticmethod
    def of(keep: int, younger_than: timedelta | str | None) -> "Kept":
        """What a caller asks for.

        Raises:
            ValueError: nothing is to be kept, or what is given is no age.
        """
        if keep < 1:
            raise ValueError(f"keep is {keep}, and the last epoch always stays")
        if younger_than is None:
            return Kept(keep, None)
        return Kept(keep, time.time_ns() // 1_000_000 - age_ms(younger_than))

    def before(self, published: Mapping[int, int]) -> int:
        """The last epoch that does not stay; -1 if all do.

        Args:
            published: when each epoch was, in Unix time in ms.
        """
        ordered = sorted(published)
        older = ordered[: -self.last]
        if self.since_ms is not None:
            young = [epoch for epoch in ordered if published[epoch] >= self.since_ms]
            older = [epoch for epoch in older if not young or epoch < young[0]]
        return older[-1] if older else -1


@dataclass(frozen=True)
class _Group:
    """Epochs that go into one part: written alike, and all shown or all hidden.

    Attributes:
        manifests: of epochs with files of their own.
        parts: those that come along, with the epochs that still count.
    """

    manifests: list[Manifest] = field(default_factory=list)
    parts: list[SeenPart] = field(default_factory=list)

    @property
    def first(self) -> Manifest | Part:
        """What says how all of them were written."""
        return self.manifests[0] if self.manifests else self.parts[0].part

    def size(self, *, in_place: bool) -> int:
        """What it takes to write it: see `PartUse.size`."""
        if in_place:
            there = len(self.manifests)
        else:
            there = sum(file.bytes for of in self.manifests for file in of.files)
        return there + sum(seen.use.size for seen in self.parts)

    def members(self, *, in_place: bool) -> tuple[Member, ...]:
        """What the part remembers of its epochs."""
        found = [Member.of(of, in_place=in_place) for of in self.manifests]
        for seen in self.parts:
            found += [of if in_place else replace(of, files=()) for of in seen.members]
        return tuple(sorted(found, key=lambda member: member.epoch))


def _kind(use: PartUse, part: Part, *, is_shown: bool) -> "_Kind":
    return (part.format, part.schema, part.partition_by, is_shown, use.in_place)


# Format, schema and partitions; whether it is shown; whether each epoch keeps its files.
_Kind = tuple[str, str, tuple[str, ...], bool, bool]


class Compactor:
    """Puts the epochs of a sink together.

    Large epochs keep their files, and only their manifests are put together. A part that is there
    already is written anew, with the others, if it is not much larger than what comes to it, so
    that a row is written about as often as the logarithm of their number; and if rows lie in it
    that count no more.
    """

    def __init__(self, reader: RowReader, target: SinkDirectory, output: Output, bytes_: int):
        """Names the place.

        Args:
            reader: of its rows.
            target: the same place, for writing.
            output: whose options are those of the format.
            bytes_: how large files may get, and how large an epoch has to be to keep its own.
        """
        self._reader = reader
        self._records = target
        self._output = output
        self._bytes = bytes_

    def run(self, kept: Kept) -> Sequence[PartUse]:
        """Puts together what does not stay as it is; gives the parts that were made.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, rows of this format cannot say their epoch.
            RetryableError: CLEANCUT_SINK_CHANGED, epochs were hidden or shown meanwhile.
            DamagedError: CLEANCUT_SINK_DAMAGED, what is published cannot be read, or has other
                numbers of rows than it should.
        """
        for _ in range(_TRIES):
            before = newest_version(self._records)
            groups, until = self._groups(before, kept)
            if not groups:
                return ()
            self._records.prepare()
            made: list[PartUse] = []
            try:
                for kind, group in groups.items():
                    made.append(self._part(kind, group))
            except BaseException:
                self._drop(made)
                raise
            # An error does not tell whether the version is there, and then they belong to it.
            if follow_with(self._records, before, self._next(before, until, groups, made)):
                return made
            self._drop(made)
        raise error_of("CLEANCUT_SINK_CHANGED", path=self._records.location, tries=_TRIES)

    def _groups(self, before: Version, kept: Kept) -> tuple[dict[_Kind, _Group], int]:
        """What goes into which part, and up to which epoch."""
        listed = [of for of in manifest_epochs(self._records.names(EPOCHS)) if of > before.until]
        hidden = taken_back(self._records.names(TAKEN_BACK))
        found = mapped(lambda epoch: read_manifest(self._records, epoch), listed)
        manifests = {of.epoch: of for of in found if of is not None}
        until = max(kept.before({of.epoch: of.published_ms for of in manifests.values()}), -1)
        shown = [of for of in manifests.values() if of.epoch <= until]
        back = [of for of in hidden if before.until < of.epoch <= until]
        # Of an epoch that was published again, what was taken back can never be given back.
        back = [of for of in back if of.epoch not in manifests]
        groups: dict[_Kind, _Group] = {}
        for manifest in shown:
            self._group(groups, manifest, is_shown=True).manifests.append(manifest)
        for hidden_one in self._hidden(back):
            self._group(groups, hidden_one, is_shown=False).manifests.append(hidden_one)
        self._add_parts(groups, before)
        worth = len(shown) + len(back) > 1 or any(of.parts for of in groups.values())
        return (groups, max(until, before.until)) if worth else ({}, before.until)

    def _hidden(self, tries: Sequence[Attempt]) -> list[Manifest]:
        def read(attempt: Attempt) -> Manifest | None:
            name = taken_back_name(attempt)
            body = self._records.read(name)
            at = self._records.at(name)
            return None if body is None else Manifest.decode(body, at, attempt.epoch)

        found = {of.epoch: of for of in mapped(read, tries) if of is not None}
        return list(found.values())

    def _group(self, groups: dict[_Kind, _Group], of: Manifest, *, is_shown: bool) -> _Group:
        # What was taken back is mostly given up in the end.
        in_place = not is_shown or sum(file.bytes for file in of.files) >= self._bytes
        kind = (of.format, of.schema, of.partition_by, is_shown, in_place)
        return groups.setdefault(kind, _Group())

    def _add_parts(self, groups: dict[_Kind, _Group], before: Version) -> None:
        """Adds the parts that are to be written anew."""
        # Rows that count lie with others; or some of its epochs are shown, and some are hidden.
        torn = [use for use in before.parts if use.is_mixed or (use.shown and use.hidden)]
        for use in torn:
            part = self._part_of(use)
            for chosen, is_shown in ((use.shown, True), (use.hidden, False)):
                if chosen:
                    group = groups.setdefault(_kind(use, part, is_shown=is_shown), _Group())
                    group.parts.append(SeenPart(use, part, chosen))
        # From the newest on: those that are not much larger than what they would get.
        whole = [use for use in before.parts if use not in torn and use.size < self._limit(use)]
        for use in sorted(whole, key=lambda use: max(use.epochs), reverse=True):
            part = self._part_of(use)
            found = groups.get(_kind(use, part, is_shown=bool(use.shown)))
            if found is not None and use.size <= 2 * found.size(in_place=use.in_place):
                found.parts.append(SeenPart(use, part, use.shown or use.hidden))

    def _limit(self, use: PartUse) -> int:
        return _MOST_MEMBERS if use.in_place else self._bytes

    def _part_of(self, use: PartUse) -> Part:
        found = read_part(self._records, use.name)
        if found is None:
            raise part_gone(self._records, use.name)
        return found

    def _part(self, kind: _Kind, group: _Group) -> PartUse:
        """Makes a part, which nobody names yet."""
        format_, schema, partition_by, is_shown, in_place = kind
        name = PartName(time.time_ns() // 1_000_000, secrets.token_hex(16))
        members = group.members(in_place=in_place)
        files = () if in_place else self._written(name, kind, group, members)
        part = Part(
            name=name,
            query_id=group.first.query_id,
            members=members,
            files=files,
            format=format_,
            partition_by=partition_by,
            schema=schema,
        )
        assert self._records.create(name.record, part.encode()), "a token is drawn once"
        epochs = Epochs.of(member.epoch for member in members)
        held = chain(files, *(member.files for member in members))
        return PartUse(
            name=name,
            epochs=epochs,
            shown=epochs if is_shown else Epochs(),
            hidden=Epochs() if is_shown else epochs,
            bytes=sum(file.bytes for file in held),
            in_place=in_place,
        )

    def _written(
        self, name: PartName, kind: _Kind, group: _Group, members: Sequence[Member]
    ) -> tuple[DataFile, ...]:
        """Writes the rows of a part; its files."""
        from pyspark.sql import functions as F  # noqa: N812  # the name that all of PySpark uses

        format_, _, partition_by, _, _ = kind
        counts = {member.epoch: member.rows for member in members if member.rows}
        if not counts:
            return ()
        frames = [self._reader.together(seen, EPOCH_COLUMN) for seen in group.parts]
        if group.manifests:
            frames.append(self._reader.apart(group.manifests, EPOCH_COLUMN))
        rows = frames[0]
        for frame in frames[1:]:
            rows = rows.unionByName(frame)
        taken = {column.lower() for column in rows.columns[:-1]}
        if format_.lower() == "text" or EPOCH_COLUMN in taken:
            raise error_of(
                "CLEANCUT_SINK_REFUSED",
                sink=f"What EpochFiles {self._records.location} puts together",
                reason=f"{format_} files with the columns {', '.join(rows.columns[:-1])} have no"
                f" room for {EPOCH_COLUMN}, which says of what epoch a row is",
            )
        number = max(1, -(-group.size(in_place=False) // self._bytes))
        # By the values of the partitions, or each task would have a file for each of them.
        spread = [F.col(quoted(column)) for column in partition_by]
        rows = rows.repartition(number, *spread) if spread else rows.coalesce(number)
        output = replace(self._output, format=format_, partition_by=partition_by)
        _, written = self._records.write(rows, output, name.directory)
        files = tuple(DataFile(*file) for file in sorted(written))
        self._verify(name, kind, files, counts)
        return files

    def _verify(
        self, name: PartName, kind: _Kind, files: tuple[DataFile, ...], counts: Mapping[int, int]
    ) -> None:
        """Whether what was written has the rows of each epoch: after it the old files go."""
        format_, schema, partition_by, _, _ = kind
        part = Part(name, "", (), files, format_, partition_by, schema)
        every = Epochs.of(counts)
        use = PartUse(name, every, every, Epochs(), 0, in_place=False)
        read = self._reader.together(SeenPart(use, part, every), EPOCH_COLUMN)
        found = read.groupBy(EPOCH_COLUMN).count().collect()
        rows = {row[EPOCH_COLUMN]: row["count"] for row in found}
        if rows != counts:
            odd = sorted(of for of in rows.keys() | counts.keys() if rows.get(of) != counts.get(of))
            texts = (f"epoch {of}: {rows.get(of, 0)} of {counts.get(of, 0)}" for of in odd[:10])
            self._records.remove(name.directory)
            raise error_of(
                "CLEANCUT_SINK_DAMAGED",
                path=self._records.location,
                detail=f"its files have other numbers of rows than were published"
                f" ({', '.join(texts)})",
            )

    def _next(
        self,
        before: Version,
        until: int,
        groups: Mapping[_Kind, _Group],
        made: Iterable[PartUse],
    ) -> Version:
        anew = {seen.use.name for group in groups.values() for seen in group.parts}
        parts = [use for use in before.parts if use.name not in anew]
        parts += made
        return replace(before, until=until, parts=tuple(parts))

    def _drop(self, made: Iterable[PartUse]) -> None:
        for use in made:
            self._records.delete(use.name.record)
            self._records.remove(use.name.directory)


def expire(records: Records, kept: Kept, *, until: int | None = None) -> list[SeenEpoch]:
    """Gives epochs up for good, also those that were taken back; gives what was seen of them.

    Args:
        records: of the sink.
        kept: which epochs stay.
        until: no epoch after this one goes; None is no bound.

    Raises:
        RetryableError: CLEANCUT_SINK_CHANGED.
        DamagedError: CLEANCUT_SINK_DAMAGED.
    """
    seen = look(records).infos
    last = kept.before({of.epoch: of.published_ms for of in seen})
    last = last if until is None else min(last, until)
    if last >= 0:
        change_version(records, lambda version: version.after(last))
    return [of for of in seen if of.epoch <= last]


def collect(records: Records, grace_ms: int) -> None:
    """Deletes what no reader can need that began to read this long ago, or later.

    Killed, it can be called again.

    Raises:
        DamagedError: CLEANCUT_SINK_DAMAGED.
    """
    due_ms = time.time_ns() // 1_000_000 - grace_ms
    names = records.names(COMPACTED)
    numbers = versions(names)
    live: list[Version] = []
    for number in reversed(numbers):
        version = read_version(records, number)
        if version is None:
            # Somebody else deletes.
            return
        live.append(version)
        if version.made_ms <= due_ms:
            break
    else:
        return
    oldest = live[-1]
    uses = [use for version in live for use in version.parts]
    _collect_epochs(records, oldest.until, uses)
    older = [read_version(records, of) for of in numbers if of < oldest.number]
    _collect_parts(records, part_records(names), uses, [of for of in older if of is not None])
    for version in older:
        # Last: they say which parts nobody needs.
        if version is not None:
            records.delete(version_name(version.number))


def _collect_epochs(records: Records, until: int, uses: Iterable[PartUse]) -> None:
    """Deletes manifests up to some epoch, and what they alone named."""
    kept: set[Attempt] = set()
    for use in {use.name: use for use in uses if use.in_place}.values():
        part = read_part(records, use.name)
        counting = [of.shown | of.hidden for of in uses if of.name == use.name]
        for member in part.members if part is not None else ():
            if any(member.epoch in of for of in counting):
                kept.add(member.attempt)
    # Manifests first: a run that begins deletes the files that none names.
    for epoch in manifest_epochs(records.names(EPOCHS)):
        if epoch <= until:
            records.delete(manifest_name(epoch))
    for attempt in taken_back(records.names(TAKEN_BACK)):
        if attempt.epoch <= until:
            records.delete(taken_back_name(attempt))
    for attempt in attempts(records.names(FILES)):
        if attempt.epoch <= until and attempt not in kept:
            records.remove(attempt.directory)


def _collect_parts(
    records: Records,
    with_record: Iterable[PartName],
    uses: Iterable[PartUse],
    older: Iterable[Version],
) -> None:
    """Deletes parts that no version names which counts, or has counted lately."""
    live = {use.name for use in uses}
    former = {use.name for version in older for use in version.parts}
    left_ms = time.time_ns() // 1_000_000 - _LEFT_MS
    there = {*with_record, *part_directories(records.names(PARTS))}
    for name in there - live:
        # One that no version has named may be in the make.
        if name in former or name.begun_ms < left_ms:
            records.remove(name.directory)
            records.delete(name.record)
