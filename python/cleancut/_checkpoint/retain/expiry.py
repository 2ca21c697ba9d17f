"""Expires cuts of a stopped query and deletes unreferenced objects: docs/PROTOCOL.md, *Expiring*.

The garbage collection of a running query spares a margin of epochs, because its tasks write. Here
nothing writes: the last owner has recorded its end, which is read after the objects were listed. So
the list has no object of a later run, and a later run needs only what the last cut references.
"""

import json
import operator
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

from cleancut._brief import Brief, plain
from cleancut._checkpoint.read.cut_reader import CutReader
from cleancut._checkpoint.read.root import Root
from cleancut._checkpoint.read.stored_cut import StoredCut
from cleancut._checkpoint.replicate.replicas import fence
from cleancut._checkpoint.retain.kept_savepoints import KeptSavepoints, read_savepoints
from cleancut._display import tables
from cleancut._format.ages import age_of
from cleancut._format.layout import (
    CUTS,
    OWNERS,
    PAGES,
    REPLICA,
    SAVEPOINTS,
    SEGMENTS,
    STORES,
    ended_name,
    is_waiting,
    last_generation,
    owner_name,
    parse_cut_name,
    parse_frame_name,
    parse_page_name,
    parse_seal_name,
    parse_segment_name,
)
from cleancut._format.spark.log_entries import rolled_back_from
from cleancut._storage.objects import Place, Stored
from cleancut._storage.parallel import mapped
from cleancut._storage.side_files import side_file_of
from cleancut.errors import CleancutError, CorruptedError, error_of

Operation = Literal["expire", "collect_garbage"]

# Grace periods of garbage collection while an earlier run may still live (K2, K3).
_MARGIN_EPOCHS = 20
_YOUNG_MS = 3_600_000


@dataclass(frozen=True, repr=False)
class RetainedCut(Brief):
    """An epoch whose state is retained.

    Attributes:
        epoch: Spark's batch id.
        reasons: "last", "number" (`retain_last`), "age" (`retain_for`), "all" (no cut expires), or
            "savepoint" with its name.
    """

    epoch: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Expiry(Brief):
    """The objects to delete from a checkpoint, or deleted. Nothing is deleted until `apply`.

    Attributes:
        operation: "expire" or "collect_garbage".
        location: the checkpoint location.
        retained: the epochs whose state is retained, with the reasons.
        epochs: the epochs whose cut is deleted. If a savepoint has one of them, its state is
            retained.
        seals: number of seals deleted: those of committed epochs.
        segments: number of segments deleted.
        pages: number of pages deleted.
        frames: number of frame files deleted that were written before the first cut.
        bytes: size of all that is deleted.
        bytes_left: size of the remaining cuts, savepoints, pages, segments and frames.
        owner: the last run, if it has not recorded its end; else None.
        notes: remarks on the effects of the plan.
        is_applied: whether the plan has been applied.
    """

    operation: Operation
    location: str
    retained: tuple[RetainedCut, ...]
    epochs: tuple[int, ...]
    seals: int
    segments: int
    pages: int
    frames: int
    bytes: int
    bytes_left: int
    owner: str | None
    notes: tuple[str, ...] = ()
    is_applied: bool = False
    _root: Any = field(default=None, compare=False)
    # The first retained epoch: absolute, so that neither time nor new epochs change the plan.
    _oldest: int = field(default=0, compare=False)

    def apply(self, *, fence: str | None = None) -> "Expiry":
        """Executes the plan. After a kill at any moment it can be started again.

        It lists the checkpoint again: it deletes exactly the planned cuts that still exist, and of
        other objects those that no cut or savepoint references now.

        Args:
            fence: if the last run has not recorded its end, the reason to fence it. If it is alive,
                it stops with CLEANCUT_FENCED and this text. Objects that it may still reference are
                retained: those of the 20 epochs before the oldest retained cut, and those of the
                expired cuts, because the run may be an operation that rolls back to one of them.
                The next garbage collection after the end of a later run deletes them.

        Returns:
            The plan as it was executed.

        Raises:
            RequestError: CLEANCUT_OPERATION_REFUSED, a run may own the query; or the plan was
                applied before.
            CorruptedError: the objects that a retained cut references are unknown. Nothing was
                deleted, or cuts only.
        """
        if self.is_applied:
            raise _refused(self.operation, self.location, "this plan has been applied before")
        return _apply(self, fence)

    def to_dict(self) -> Mapping[str, Any]:
        """The plan as plain values, for JSON."""
        return plain(self)

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def expire(root: Root, retain_last: int | None, retain_for: timedelta | str | None) -> Expiry:
    """Plans to delete all cuts except the last ones, the young ones, and savepoints.

    Raises:
        RequestError: CLEANCUT_OPERATION_REFUSED, there are no cuts, or it is a replica.
        CorruptedError: a retained cut is corrupted.
        ValueError: no argument is given, or it is invalid.
    """
    age = None if retain_for is None else age_of(retain_for)
    keep = None if retain_last is None else operator.index(retain_last)
    if keep is None and age is None:
        raise ValueError("expire takes retain_last, retain_for, or both")
    if keep is not None and keep < 1:
        raise ValueError(f"retain_last is {keep}, and must be at least 1")
    _require_cuts(root, "expire")
    cuts = _cuts_of(root.objects.details(CUTS))
    since_ms = None if age is None else time.time() * 1000 - age / timedelta(milliseconds=1)
    by_number = sorted(cuts)[-keep:] if keep is not None else []
    young = [epoch for epoch, stored in cuts.items() if since_ms is not None and stored >= since_ms]
    oldest = min([*by_number, *young, max(cuts)])
    why = {"number": by_number[:1], "age": young}
    return _planned(
        "expire", root, oldest, {name: min(epochs) for name, epochs in why.items() if epochs}
    )


def collect_garbage(root: Root) -> Expiry:
    """Plans to delete objects that no cut and no savepoint references; raises as `expire` does."""
    _require_cuts(root, "collect_garbage")
    oldest = min(_cuts_of(root.objects.details(CUTS)))
    return _planned("collect_garbage", root, oldest, {"all": oldest})


class _Owner(NamedTuple):
    """The last run that owns the query.

    Attributes:
        generation: its generation; 0 before the first run.
        alive: description of the run if it has not recorded its end; else None.
        runs_nothing: whether it is a fence, or waits for the run before; that may be alive.
    """

    generation: int
    alive: str | None
    runs_nothing: bool = False


class _Scan:
    """One scan of a checkpoint, and its unreferenced objects. The order of requests matters."""

    def __init__(self, root: Root, oldest: int, fenced: _Owner | None = None) -> None:
        self._objects = root.objects
        # Listed before the owner: they have no objects of a run that begins from now on.
        parts = [self._objects.details(kind) for kind in (SEGMENTS, PAGES, STORES)]
        self._parts = {name: stored for listed in parts for name, stored in listed.items()}
        self.owner = _owner_of(root)
        self._concurrent = fenced or self.owner
        # A fence has just written its owner object, by the clock of the object store.
        self._now_ms = _owned_ms(self._objects) if fenced else time.time() * 1000
        # Listed after the owner: they have every cut that the last run committed before its end.
        self.cuts = self._objects.details(CUTS)
        self._saved = self._objects.details(SAVEPOINTS)
        self._reader = CutReader(self._objects)
        epochs = sorted(_cuts_of(self.cuts))
        self.last = epochs[-1]
        self.expired = [stored for stored in epochs if stored < min(oldest, self.last)]
        self.retained_epochs = epochs[len(self.expired) :]
        self.kept = list(mapped(self._reader.cut, self.retained_epochs))
        self._named = self._names_of(self.kept)
        if self._concurrent.alive is not None:
            self._named |= self._names_of(self._cuts_read_concurrently())

    def is_followed(self) -> bool:
        """Whether a later run has taken the query since."""
        return last_generation(self._objects.list(OWNERS)) > self.owner.generation

    def savepoints(self) -> KeptSavepoints:
        """The current savepoints."""
        return read_savepoints(self._objects, self._reader, self.cuts)

    def _cuts_read_concurrently(self) -> Iterator[StoredCut]:
        """The expired cuts: an operation that has read one may still commit references to it."""
        for epoch in self.expired:
            # An operation cannot read a corrupted cut either.
            with suppress(CorruptedError):
                yield self._reader.cut(epoch)

    def _names_of(self, cuts: Iterable[StoredCut]) -> set[str]:
        return {name for cut in cuts for name in cut.named()}

    @property
    def cut_names(self) -> list[str]:
        """The names of the expired cuts, in order."""
        expired = set(self.expired)
        return sorted(name for name in self.cuts if parse_cut_name(name) in expired)

    @property
    def seal_names(self) -> list[str]:
        """The names of the seals whose epochs have cuts."""
        seals = ((name, parse_seal_name(name)) for name in self.cuts)
        return sorted(name for name, epoch in seals if epoch is not None and epoch <= self.last)

    def garbage(self, savepoints: KeptSavepoints, kind: str) -> list[str]:
        """The segments or pages that are unreferenced."""
        needed = self._named | self._names_of(savepoints.cuts.values())
        prefix = f"{kind}/"
        return sorted(
            name
            for name, stored in self._parts.items()
            if name.startswith(prefix)
            and name not in needed
            and self._may_go(name, stored, savepoints)
        )

    def _may_go(self, name: str, stored: Stored, savepoints: KeptSavepoints) -> bool:
        segment, page = parse_segment_name(name), parse_page_name(name)
        part = segment or page
        # Frames of an epoch without a cut may belong to the attempt that will be committed.
        if part is None or part.epoch > self.last or savepoints.may_reference(part.epoch):
            return False
        if self._concurrent.alive is None:
            return True
        # Cuts that an operation has read may have been deleted before it was fenced.
        if self._concurrent.runs_nothing:
            return False
        is_young = stored.modified_ms >= self._now_ms - _YOUNG_MS
        return part.epoch < self.retained_epochs[0] - _MARGIN_EPOCHS and not is_young

    def frames(self) -> list[str]:
        """The files of level 0, once a version after theirs has expired.

        The first cut of the query belongs to the epoch that starts from their last version.
        """
        parsed = ((name, parse_frame_name(name.rpartition("/")[2])) for name in self._parts)
        versions = {
            name: frame.version for name, frame in parsed if frame and name.startswith(f"{STORES}/")
        }
        newest = max(versions.values(), default=0)
        return sorted(versions) if self.expired or self.retained_epochs[0] > newest else []

    def size(self, names: Iterable[str]) -> int:
        """The size in bytes, with the side files of Hadoop."""
        listed = {**self._parts, **self.cuts}
        both = ((name, side_file_of(name)) for name in names)
        return sum(listed[item].size for pair in both for item in pair if item in listed)

    @property
    def stored(self) -> int:
        """The size of all listed objects, in bytes."""
        there = [*self._parts.values(), *self.cuts.values(), *self._saved.values()]
        return sum(stored.size for stored in there)

    def with_side_files(self, names: Sequence[str]) -> list[str]:
        """Names, each followed by that of its checksum file of Hadoop, if there is one."""
        listed = self._parts.keys() | self.cuts.keys()
        return [*names, *(side for name in names if (side := side_file_of(name)) in listed)]


def _planned(operation: Operation, root: Root, oldest: int, since: Mapping[str, int]) -> Expiry:
    scan = _Scan(root, oldest)
    savepoints = scan.savepoints()
    segments = scan.garbage(savepoints, SEGMENTS)
    pages, frames = scan.garbage(savepoints, PAGES), scan.frames()
    expired = [*scan.cut_names, *scan.seal_names, *segments, *pages, *frames]
    goes = scan.size(expired)
    return Expiry(
        operation=operation,
        location=root.location,
        retained=_retained(scan, savepoints.cuts, since),
        epochs=tuple(scan.expired),
        seals=len(scan.seal_names),
        segments=len(segments),
        pages=len(pages),
        frames=len(frames),
        bytes=goes,
        bytes_left=scan.stored - goes,
        owner=scan.owner.alive,
        notes=tuple(_notes(scan, savepoints)),
        _root=root,
        _oldest=oldest,
    )


def _apply(plan: Expiry, why: str | None) -> Expiry:
    root: Root = plan._root
    owner = _owner_of(root)
    if owner.alive is not None:
        if why is None:
            raise _refused(plan.operation, root.location, f"{owner.alive} {_NOT_ENDED}")
        fence(root, why)
    scan = _Scan(root, plan._oldest, fenced=owner if owner.alive is not None else None)
    if why is None and scan.owner.alive is not None:
        raise _refused(plan.operation, root.location, f"{scan.owner.alive} has begun meanwhile")
    cuts, seals = scan.cut_names, scan.seal_names
    # Cuts are deleted first, so no cut ever lacks an object that it references. Savepoints are
    # listed afterwards: the creator of a savepoint checks afterwards that its cut still exists.
    _delete(root, scan.with_side_files([*cuts, *seals]))
    # An operation may reference objects of an earlier cut. It owns the query before it checks that
    # the cut exists: either it has missed the deleted cuts, or its generation is listed here.
    if scan.is_followed():
        reason = "a run has begun meanwhile; only cuts were deleted, no segments or pages"
        raise _refused(plan.operation, root.location, reason)
    savepoints = scan.savepoints()
    segments = scan.garbage(savepoints, SEGMENTS)
    pages, frames = scan.garbage(savepoints, PAGES), scan.frames()
    _delete(root, scan.with_side_files(segments))
    # Pages after segments: without a page the segments that it references are unknown.
    _delete(root, scan.with_side_files(pages))
    _delete(root, scan.with_side_files(frames))
    goes = scan.size([*cuts, *seals, *segments, *pages, *frames])
    return replace(
        plan,
        epochs=tuple(scan.expired),
        seals=len(seals),
        segments=len(segments),
        pages=len(pages),
        frames=len(frames),
        bytes=goes,
        bytes_left=scan.stored - goes,
        notes=tuple(_notes(scan, savepoints)),
        is_applied=True,
    )


def _owned_ms(objects: Place) -> int:
    """The time at which the last owner object was written, by the clock of the object store."""
    return max(stored.modified_ms for stored in objects.details(OWNERS).values())


def _delete(root: Root, names: Sequence[str]) -> None:
    for _ in mapped(root.objects.delete, names):
        pass


def _require_cuts(root: Root, operation: Operation) -> None:
    """Refuses a checkpoint without cuts, and a replica.

    A running replication may have copied objects to a replica that no cut references yet.
    """
    if not root.epochs():
        raise _refused(
            operation,
            root.location,
            "it has no cuts. Without cuts, spark.sql.streaming.minBatchesToRetain of the query "
            "sets the number of retained epochs, and its next run deletes older files",
        )
    try:
        note = json.loads(root.objects.read(REPLICA))
    except FileNotFoundError:
        return
    raise _refused(
        operation,
        root.location,
        f"it is a replica of {note.get('of')}, and each pass deletes what expires there. If a "
        f"query runs on this checkpoint permanently, delete {REPLICA} first",
    )


_NOT_ENDED = (
    "has not recorded its end. Stop it. If it was killed, start the query, and stop it after an "
    "epoch; or fence that run (fence)"
)


def owner_alive(root: Root) -> str | None:
    """Describes the last run if it has not recorded its end; else None."""
    return _owner_of(root).alive


def _owner_of(root: Root) -> _Owner:
    listed = root.objects.list(OWNERS)
    last = last_generation(listed)
    if last == 0 or ended_name(last) in listed:
        return _Owner(last, None)
    try:
        note = json.loads(root.objects.read(owner_name(last)))
        since = datetime.fromtimestamp(note["startedMs"] / 1000, UTC)
        described = f"run {note['runId']} on {note['host']}, generation {last}, since "
        described += f"{tables.cell(since)} UTC"
        runs_nothing = is_waiting(note, last, listed) or note.get("fence") is True
        return _Owner(last, described, runs_nothing=runs_nothing)
    except (ValueError, KeyError, TypeError):
        return _Owner(last, f"the run of generation {last}")


def _retained(
    scan: _Scan, pinned: Mapping[str, StoredCut], since: Mapping[str, int]
) -> tuple[RetainedCut, ...]:
    why: dict[int, list[str]] = {}
    for epoch in scan.retained_epochs:
        why[epoch] = ["last"] if epoch == scan.last else []
        why[epoch] += [name for name, first in since.items() if epoch >= first]
    for name, cut in pinned.items():
        why.setdefault(cut.epoch, []).append(f"savepoint {name}")
    return tuple(RetainedCut(epoch, tuple(reasons)) for epoch, reasons in sorted(why.items()))


def _notes(scan: _Scan, savepoints: KeptSavepoints) -> Iterable[str]:
    yield from map(str, savepoints.unreadable)
    if scan.owner.alive is not None:
        yield (
            f"{scan.owner.alive} has not recorded its end: apply requires a fence, and objects "
            f"within {_MARGIN_EPOCHS} epochs of the oldest retained cut are retained."
        )
    backs = [rolled_back_from(cut.offsets) for cut in scan.kept]
    last = next((epoch for epoch in reversed(backs) if epoch is not None), None)
    if last in scan.expired:
        yield (
            f"The cut of epoch {last} expires, and rollback with undo returns to it. Create a "
            "savepoint of it to keep that possible."
        )


def _lines(expiry: Expiry) -> Iterable[str]:
    yield f"{expiry.operation} {expiry.location}"
    reasons = sorted({why for cut in expiry.retained for why in cut.reasons})
    names = {
        "last": "retained as the last",
        "number": "retained by number",
        "age": "retained by age",
    }
    names["all"] = "kept"
    facts: list[tuple[str, object]] = []
    for why in reasons:
        epochs = [cut.epoch for cut in expiry.retained if why in cut.reasons]
        facts.append((names.get(why, f"kept as {why}"), _epochs(epochs)))
    done = "went" if expiry.is_applied else "to go"
    facts += [(f"cuts {done}", _epochs(expiry.epochs))]
    counts = {"seals": expiry.seals, "segments": expiry.segments, "pages": expiry.pages}
    counts["frames of level 0"] = expiry.frames
    facts += [(f"{name} {done}", str(count)) for name, count in counts.items() if count]
    facts += [(f"bytes {done}", f"{expiry.bytes:,}"), ("bytes that stay", f"{expiry.bytes_left:,}")]
    yield tables.text_facts(facts)
    yield from expiry.notes
    if not expiry.is_applied:
        yield "Nothing is deleted yet."


def _epochs(numbers: Sequence[int]) -> str:
    if not numbers:
        return "none"
    return f"epoch{'s' if len(numbers) > 1 else ''} {tables.ranges(numbers)}"


def _cuts_of(listed: Mapping[str, Stored]) -> dict[int, int]:
    """The epochs that have a cut, and the time at which each was written, in ms since 1970."""
    epochs = ((parse_cut_name(name), stored.modified_ms) for name, stored in listed.items())
    return {epoch: written for epoch, written in epochs if epoch is not None}


def _refused(operation: Operation, location: str, reason: str) -> CleancutError:
    return error_of(
        "CLEANCUT_OPERATION_REFUSED", operation=operation, location=location, reason=reason
    )
