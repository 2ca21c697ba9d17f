"""The live rows of one version of a store, found from its newest frame back.

What a frame says of a key holds unless a newer one has said something. So deltas are held in memory
one at a time, with the keys that they name, and the base, which names all the others, is read piece
by piece: memory is bounded by what has changed since the base. Who stops early has read no more
than what led to the rows so far.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from cleancut._checkpoint.read.state import LIST_WITHOUT_START
from cleancut._format.frame.frame import Block, FrameRequest
from cleancut._format.frame.identity import Family, Identity
from cleancut._format.frame.records import Record
from cleancut._format.layout import StoreId

Row = tuple[bytes, bytes]


class LiveFrame(Protocol):
    """A frame, or what stands for one."""

    @property
    def request(self) -> FrameRequest:
        """Which frame it is."""

    @property
    def identity(self) -> Identity:
        """What its header says."""

    @property
    def is_base(self) -> bool: ...

    @property
    def keys(self) -> int:
        """The number of live keys after it, once its blocks were read."""

    def blocks(self) -> Iterator[Block]:
        """All blocks in their order."""

    def blocks_from_the_end(self) -> Iterator[Block]:
        """The same, the last first."""

    def blocks_of(self, family: int, key: bytes) -> Iterator[Block]:
        """The blocks of a base that may have a key."""


@dataclass(frozen=True)
class LiveState:
    """One version of one store.

    Attributes:
        store: the store.
        place: the object that errors about its rows name.
        version: the state version.
        newest_first: its frames, each found when its turn comes.
    """

    store: StoreId
    place: str
    version: int
    newest_first: Iterator[LiveFrame]
    _found: list[LiveFrame] = field(default_factory=list)

    @cached_property
    def families(self) -> Sequence[Family]:
        """All column families; reads headers only, back to the last that tells them."""
        return next((of.identity.families for of in self._frames() if of.identity.families), ())

    def rows(self, family: Family) -> Iterator[Row]:
        """The rows of a family, each a key and a value; a list's values keep their order.

        Raises:
            CorruptedError: a frame is damaged, misplaced or missing, or the number of keys is
                wrong.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        for family_id, key, value in self.all_rows():
            if family_id == family.family_id:
                yield key, value

    def all_rows(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Those of all families, each with the id of its own; raises likewise."""
        fold = _Fold(self.families)
        for frame in self._frames():
            yield from fold.rows_of(frame)
        yield from fold.rest()
        newest = self._found[0]
        if fold.live != newest.keys:
            detail = f"the store has {fold.live} live keys after it"
            raise newest.request.damaged(f"{detail}, and its trailer says {newest.keys}")

    def values(self, family: Family, key: bytes) -> list[bytes]:
        """What one key has, in the order of a list's values; nothing where it is not there.

        Of a base with an index only the blocks are read that may have the key.

        Raises:
            CorruptedError: a frame is damaged, misplaced or missing.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        wanted = (family.family_id, key)
        # The newest first.
        found: list[bytes] = []
        for frame in self._frames():
            families = {of.family_id for of in frame.identity.families}
            if families and family.family_id not in families:
                break
            if frame.is_base:
                blocks = list(frame.blocks_of(family.family_id, key))[::-1]
            else:
                blocks = list(frame.blocks_from_the_end())
            newer = len(found)
            for record in (of for block in blocks for of in reversed(block.records)):
                if record[:2] != wanted:
                    continue
                if record.value is not None:
                    found.append(record.value)
                if not record.is_merge:
                    return found[::-1]
            if frame.is_base and len(found) > newer:
                raise frame.request.damaged(LIST_WITHOUT_START)
        return found[::-1]

    def _frames(self) -> Iterator[LiveFrame]:
        at = 0
        while True:
            if at == len(self._found):
                frame = next(self.newest_first, None)
                if frame is None:
                    return
                self._found.append(frame)
            yield self._found[at]
            at += 1


class _Fold:
    """What newer frames have said of each key.

    Attributes:
        live: the number of live keys so far, over all families.
    """

    def __init__(self, families: Iterable[Family]) -> None:
        self.live = 0
        self._lists = {family.family_id for family in families if family.is_multi_valued}
        # By family: keys of which all is said; values to come behind what an older frame says.
        self._said: dict[int, set[bytes]] = {family.family_id: set() for family in families}
        self._behind: dict[int, dict[bytes, list[bytes]]] = {of: {} for of in self._said}
        self._in_base: set[tuple[int, bytes]] = set()

    def rows_of(self, frame: LiveFrame) -> Iterator[tuple[int, bytes, bytes]]:
        """The rows that an older frame adds to those of the newer ones."""
        if frame.is_base:
            self._forget_families_but(frame.identity.families)
            for block in frame.blocks():
                yield from self._base_rows(block.records, frame)
        else:
            blocks = frame.blocks_from_the_end()
            self._forget_families_but(frame.identity.families)
            for block in blocks:
                yield from self._delta_rows(reversed(block.records), frame)

    def rest(self) -> Iterator[tuple[int, bytes, bytes]]:
        """The values behind those of the base, or of keys that had none."""
        for family_id, behind in self._behind.items():
            for key, values in behind.items():
                self.live += (family_id, key) not in self._in_base
                yield from ((family_id, key, value) for value in reversed(values))

    def _forget_families_but(self, families: Sequence[Family]) -> None:
        """A family that was gone in between has none of the rows from before."""
        if families:
            there = {family.family_id for family in families}
            self._said = {of: said for of, said in self._said.items() if of in there}

    def _base_rows(
        self, records: Iterable[Record], frame: LiveFrame
    ) -> Iterator[tuple[int, bytes, bytes]]:
        for family_id, key, value, is_merge in records:
            said = self._said.get(family_id)
            if said is None or key in said or value is None:
                continue
            if not is_merge:
                self.live += 1
            # Of other keys, the number of live keys shows whether each has a put.
            if key in self._behind[family_id]:
                if is_merge and (family_id, key) not in self._in_base:
                    raise frame.request.damaged(LIST_WITHOUT_START)
                self._in_base.add((family_id, key))
            yield family_id, key, value

    def _delta_rows(
        self, records: Iterable[Record], frame: LiveFrame
    ) -> Iterator[tuple[int, bytes, bytes]]:
        for family_id, key, value, is_merge in records:
            said = self._said.get(family_id)
            if said is None or key in said:
                continue
            behind = self._behind[family_id]
            if is_merge and value is not None:
                if family_id not in self._lists:
                    raise frame.request.damaged(
                        f"a merge in family {family_id}, which has no lists"
                    )
                behind.setdefault(key, []).append(value)
                continue
            said.add(key)
            values = behind.pop(key, [])
            if value is not None:
                values.append(value)
            self.live += bool(values)
            yield from ((family_id, key, found) for found in reversed(values))
