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

# What the sweep of a query that takes over from one that may still live leaves alone (K2, K3).
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
    """What will be deleted from a checkpoint, or was deleted. Nothing is deleted until `apply`.

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
        notes: what else to know.
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
    # The first epoch whose cut stays: an absolute one, so that time and epochs may go on.
    _oldest: int = field(default=0, compare=False)

    def apply(self, *, fence: str | None = None) -> "Expiry":
        """Executes the plan. After a kill at any moment it can be started again.

        It lists the checkpoint again: it deletes exactly the planned cuts that still exist, and of
        other objects those that no cut or savepoint references now.

        Args:
            fence: if the last run has not recorded its end, the reason to fence it. If it is alive,
                it stops with CLEANCUT_FENCED and this text. What it may still reference is retained
                then: all of the 20 epochs before the oldest retained cut, and what the expired cuts
                reference, because the run may be an operation that rolls back to one of them. The
                next garbage collection after the end of a later run deletes these.

        Returns:
            The plan as it was executed.

        Raises:
            RequestError: CLEANCUT_OPERATION_REFUSED, a run may own the query; or the plan has been
                carried out.
            CorruptedError: what a cut that stays needs cannot be told. Nothing was deleted, or cuts
                alone.
        """
        if self.is_applied:
            raise _refused(self.operation, self.location, "this plan has been carried out")
        return _apply(self, fence)

    def to_dict(self) -> Mapping[str, Any]:
        """The plan as plain values, for JSON."""
        return plain(self)

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def expire(root: Root, retain_last: int | None, retain_for: timedelta | str | None) -> Expiry:
    """Plans to delete all cuts but the last ones, the young ones, and savepoints.

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
    young = [of for of, stored in cuts.items() if since_ms is not None and stored >= since_ms]
    oldest = min([*by_number, *young, max(cuts)])
    why = {"number": by_number[:1], "age": young}
    return _planned("expire", root, oldest, {name: min(of) for name, of in why.items() if of})


def collect_garbage(root: Root) -> Expiry:
    """Plans to delete what no cut and no savepoint references. Raises as `expire` does."""
    _require_cuts(root, "collect_garbage")
    oldest = min(_cuts_of(root.objects.details(CUTS)))
    return _planned("collect_garbage", root, oldest, {"all": oldest})


class _Owner(NamedTuple):
    """The last run that has taken the query.

    Attributes:
        generation: 0 before the first.
        alive: what is known of it, unless it has said that it has ended.
        is_fence: whether nothing runs under it, and what it took the query from may live.
    """

    generation: int
    alive: str | None
    is_fence: bool = False


class _Look:
    """What a checkpoint holds, and which of it nothing needs. The order of requests matters."""

    def __init__(self, root: Root, oldest: int, fenced: _Owner | None = None) -> None:
        self._objects = root.objects
        # Before the owner: what a run writes that begins from now on is not in these.
        parts = [self._objects.details(kind) for kind in (SEGMENTS, PAGES, STORES)]
        self._parts = {name: of for found in parts for name, of in found.items()}
        self.owner = _owner_of(root)
        self._beside = fenced or self.owner
        # The owner's object of a fence was written just now, by the clock of the object store.
        self._now_ms = _owned_ms(self._objects) if fenced else time.time() * 1000
        # After it: what the last run has committed before its end is in these.
        self.cuts = self._objects.details(CUTS)
        self._saved = self._objects.details(SAVEPOINTS)
        self._reader = CutReader(self._objects)
        epochs = sorted(_cuts_of(self.cuts))
        self.last = epochs[-1]
        self.going = [of for of in epochs if of < min(oldest, self.last)]
        self.staying = epochs[len(self.going) :]
        self.kept = list(mapped(self._reader.cut, self.staying))
        self._named = self._names_of(self.kept)
        if self._beside.alive is not None:
            self._named |= self._names_of(self._seen_beside())

    def is_followed(self) -> bool:
        """Whether a run has taken the query since."""
        return last_generation(self._objects.list(OWNERS)) > self.owner.generation

    def savepoints(self) -> KeptSavepoints:
        """Those that there are now."""
        return read_savepoints(self._objects, self._reader, self.cuts)

    def _seen_beside(self) -> Iterator[StoredCut]:
        """The cuts that go: an act that has seen one may yet commit bases that refer to it."""
        for epoch in self.going:
            # Nor can an act read one that is damaged.
            with suppress(CorruptedError):
                yield self._reader.cut(epoch)

    def _names_of(self, cuts: Iterable[StoredCut]) -> set[str]:
        return {name for cut in cuts for name in cut.named()}

    @property
    def cut_names(self) -> list[str]:
        """The cuts that go, in order."""
        going = set(self.going)
        return sorted(name for name in self.cuts if parse_cut_name(name) in going)

    @property
    def seal_names(self) -> list[str]:
        """The seals that have served: their epochs have cuts."""
        seals = ((name, parse_seal_name(name)) for name in self.cuts)
        return sorted(name for name, epoch in seals if epoch is not None and epoch <= self.last)

    def garbage(self, savepoints: KeptSavepoints, kind: str) -> list[str]:
        """The segments or pages that nothing needs."""
        needed = self._named | self._names_of(savepoints.cuts.values())
        prefix = f"{kind}/"
        return sorted(
            name
            for name, of in self._parts.items()
            if name.startswith(prefix) and name not in needed and self._may_go(name, of, savepoints)
        )

    def _may_go(self, name: str, of: Stored, savepoints: KeptSavepoints) -> bool:
        segment, page = parse_segment_name(name), parse_page_name(name)
        part = segment or page
        # Frames of an epoch without a cut may be those that it is committed with.
        if part is None or part.epoch > self.last or savepoints.may_reference(part.epoch):
            return False
        if self._beside.alive is None:
            return True
        # Cuts that an act has seen may have gone when the query was taken from it.
        if self._beside.is_fence:
            return False
        is_young = of.modified_ms >= self._now_ms - _YOUNG_MS
        return part.epoch < self.staying[0] - _MARGIN_EPOCHS and not is_young

    def frames(self) -> list[str]:
        """The files of level 0, once a version after theirs has been given up.

        The first cut ever is of the epoch that begins with their last version.
        """
        found = ((name, parse_frame_name(name.rpartition("/")[2])) for name in self._parts)
        versions = {name: of.version for name, of in found if of and name.startswith(f"{STORES}/")}
        newest = max(versions.values(), default=0)
        return sorted(versions) if self.going or self.staying[0] > newest else []

    def size(self, names: Iterable[str]) -> int:
        """In bytes, with what Hadoop keeps beside some."""
        listed = {**self._parts, **self.cuts}
        both = ((name, side_file_of(name)) for name in names)
        return sum(listed[of].size for pair in both for of in pair if of in listed)

    @property
    def stored(self) -> int:
        """The size of all that is there, in bytes."""
        there = [*self._parts.values(), *self.cuts.values(), *self._saved.values()]
        return sum(of.size for of in there)

    def with_side_files(self, names: Sequence[str]) -> list[str]:
        """Names, and those of Hadoop's checksums beside them, which go after them."""
        listed = self._parts.keys() | self.cuts.keys()
        return [*names, *(side for name in names if (side := side_file_of(name)) in listed)]


def _planned(operation: Operation, root: Root, oldest: int, since: Mapping[str, int]) -> Expiry:
    look = _Look(root, oldest)
    savepoints = look.savepoints()
    segments = look.garbage(savepoints, SEGMENTS)
    pages, frames = look.garbage(savepoints, PAGES), look.frames()
    going = [*look.cut_names, *look.seal_names, *segments, *pages, *frames]
    goes = look.size(going)
    return Expiry(
        operation=operation,
        location=root.location,
        retained=_retained(look, savepoints.cuts, since),
        epochs=tuple(look.going),
        seals=len(look.seal_names),
        segments=len(segments),
        pages=len(pages),
        frames=len(frames),
        bytes=goes,
        bytes_left=look.stored - goes,
        owner=look.owner.alive,
        notes=tuple(_notes(look, savepoints)),
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
    look = _Look(root, plan._oldest, fenced=owner if owner.alive is not None else None)
    if why is None and look.owner.alive is not None:
        raise _refused(plan.operation, root.location, f"{look.owner.alive} has begun meanwhile")
    cuts, seals = look.cut_names, look.seal_names
    # Cuts go first: none is ever there without what it needs. Savepoints are looked up after that:
    # who makes one of a cut looks afterwards whether that is still there.
    _delete(root, look.with_side_files([*cuts, *seals]))
    # An act may have bases refer to what an earlier cut names. It owns the query before it looks
    # whether that cut is there: it has missed those that are gone, or is seen here.
    if look.is_followed():
        reason = "a run has begun meanwhile; cuts were deleted, and nothing that they lead to"
        raise _refused(plan.operation, root.location, reason)
    savepoints = look.savepoints()
    segments = look.garbage(savepoints, SEGMENTS)
    pages, frames = look.garbage(savepoints, PAGES), look.frames()
    _delete(root, look.with_side_files(segments))
    # A page that is gone would leave unknown what it names.
    _delete(root, look.with_side_files(pages))
    _delete(root, look.with_side_files(frames))
    goes = look.size([*cuts, *seals, *segments, *pages, *frames])
    return replace(
        plan,
        epochs=tuple(look.going),
        seals=len(seals),
        segments=len(segments),
        pages=len(pages),
        frames=len(frames),
        bytes=goes,
        bytes_left=look.stored - goes,
        notes=tuple(_notes(look, savepoints)),
        is_applied=True,
    )


def _owned_ms(objects: Place) -> int:
    """When the query was taken last, by the clock of the object store."""
    return max(of.modified_ms for of in objects.details(OWNERS).values())


def _delete(root: Root, names: Sequence[str]) -> None:
    for _ in mapped(root.objects.delete, names):
        pass


def _require_cuts(root: Root, operation: Operation) -> None:
    """Refuses what has no cuts, and a copy.

    Of a copy a pass that runs may have brought parts to which no cut leads yet.
    """
    if not root.epochs():
        raise _refused(
            operation,
            root.location,
            "it has no cuts; without them spark.sql.streaming.minBatchesToRetain of the query "
            "alone says how many epochs stay, and its next run deletes what is beyond that",
        )
    try:
        note = json.loads(root.objects.read(REPLICA))
    except FileNotFoundError:
        return
    raise _refused(
        operation,
        root.location,
        f"it is a copy of {note.get('of')}, and has what that has: a pass takes away what is "
        f"given up there (if a query runs on this one for good, delete {REPLICA} first)",
    )


_NOT_ENDED = (
    "has not said that it has ended; stop it. If it was killed, start the query, and stop it after "
    "an epoch; or take the query from that run (fence)"
)


def owner_alive(root: Root) -> str | None:
    """What is known of the last run, unless it has said that it has ended; or is none's."""
    return _owner_of(root).alive


def _owner_of(root: Root) -> _Owner:
    listed = root.objects.list(OWNERS)
    last = last_generation(listed)
    if last == 0 or ended_name(last) in listed:
        return _Owner(last, None)
    try:
        note = json.loads(root.objects.read(owner_name(last)))
        since = datetime.fromtimestamp(note["startedMs"] / 1000, UTC)
        told = f"run {note['runId']} on {note['host']}, generation {last}, since "
        told += f"{tables.cell(since)} UTC"
        return _Owner(last, told, is_fence=note.get("fence") is True)
    except (ValueError, KeyError, TypeError):
        return _Owner(last, f"the run of generation {last}")


def _retained(
    look: _Look, pinned: Mapping[str, StoredCut], since: Mapping[str, int]
) -> tuple[RetainedCut, ...]:
    why: dict[int, list[str]] = {}
    for epoch in look.staying:
        why[epoch] = ["last"] if epoch == look.last else []
        why[epoch] += [name for name, first in since.items() if epoch >= first]
    for name, cut in pinned.items():
        why.setdefault(cut.epoch, []).append(f"savepoint {name}")
    return tuple(RetainedCut(epoch, tuple(of)) for epoch, of in sorted(why.items()))


def _notes(look: _Look, savepoints: KeptSavepoints) -> Iterable[str]:
    yield from map(str, savepoints.unreadable)
    if look.owner.alive is not None:
        yield (
            f"{look.owner.alive} has not said that it has ended: nothing is done beside it, and "
            f"what lies within {_MARGIN_EPOCHS} epochs of the oldest cut that is kept stays."
        )
    backs = [rolled_back_from(cut.offsets) for cut in look.kept]
    last = next((of for of in reversed(backs) if of is not None), None)
    if last in look.going:
        yield (
            f"The cut of epoch {last} goes, which rollback with undo goes back to: pin it if that "
            "is to stay possible."
        )


def _lines(of: Expiry) -> Iterable[str]:
    yield f"{of.operation} {of.location}"
    reasons = sorted({why for cut in of.retained for why in cut.reasons})
    names = {"last": "kept as the last", "number": "kept by number", "age": "kept by age"}
    names["all"] = "kept"
    facts: list[tuple[str, object]] = []
    for why in reasons:
        epochs = [cut.epoch for cut in of.retained if why in cut.reasons]
        facts.append((names.get(why, f"kept as {why}"), _epochs(epochs)))
    done = "went" if of.is_applied else "to go"
    facts += [(f"cuts {done}", _epochs(of.epochs))]
    counts = {"seals": of.seals, "segments": of.segments, "pages": of.pages}
    counts["frames of level 0"] = of.frames
    facts += [(f"{name} {done}", str(count)) for name, count in counts.items() if count]
    facts += [(f"bytes {done}", f"{of.bytes:,}"), ("bytes that stay", f"{of.bytes_left:,}")]
    yield tables.text_facts(facts)
    yield from of.notes
    if not of.is_applied:
        yield "Nothing is deleted yet."


def _epochs(numbers: Sequence[int]) -> str:
    if not numbers:
        return "none"
    return f"epoch{'s' if len(numbers) > 1 else ''} {tables.ranges(numbers)}"


def _cuts_of(listed: Mapping[str, Stored]) -> dict[int, int]:
    """The epochs that have a cut, and when each was written, in milliseconds since 1970."""
    found = ((parse_cut_name(name), of.modified_ms) for name, of in listed.items())
    return {epoch: written for epoch, written in found if epoch is not None}


def _refused(operation: Operation, location: str, reason: str) -> CleancutError:
    return error_of(
        "CLEANCUT_OPERATION_REFUSED", operation=operation, location=location, reason=reason
    )
