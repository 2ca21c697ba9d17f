"""A cut with lazy access to the pages and segment tables that define its chains."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from cleancut._checkpoint.read.chain_parts import ChainParts, Page
from cleancut._format.chains import Chain, PlacedFrame, assembled
from cleancut._format.cut.cut import Cut
from cleancut._format.cut.paged_chains import PageRef, Table, WindowPart
from cleancut._format.envelope import cut_damaged
from cleancut._format.layout import StoreId
from cleancut._storage.parallel import mapped
from cleancut.errors import CleancutError

_NO_EPOCH = -1
_Key = tuple[int | str, ...]
_Read = Page | list[PlacedFrame] | CleancutError


class Survey(NamedTuple):
    """The chains of a cut, and the errors of those that cannot be assembled.

    Attributes:
        chains: the assembled chains, ordered by store.
        errors: the errors of the others.
    """

    chains: Mapping[StoreId, Chain]
    errors: Sequence[CleancutError]


@dataclass(frozen=True)
class StoredCut(Cut):
    """A cut that assembles its chains.

    The chain of one store requires its page, and the tables of segments newer than the page.

    Attributes:
        parts: reader of the pages and segment tables.
    """

    parts: ChainParts = field(repr=False, compare=False)

    @cached_property
    def chains(self) -> Mapping[StoreId, Chain]:
        """For each store the frames that make up its version, oldest first, ordered by store.

        Raises:
            CorruptedError: a page, a segment or the cut is corrupted, or one of these is missing.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        return _sound(self.survey())

    def chain(self, store: StoreId) -> Chain | None:
        """The chain of one store; None if the cut does not have it. Raises as `chains` does."""
        if store.is_channel:
            return self.held.get(store)
        pages = self._directory.of_range(_key(store), _key(store))
        return _sound(self._found(pages, store.__eq__)).get(store)

    def chains_of(self, operator: int, store: str) -> Mapping[int, Chain]:
        """The chains of one operator's stores of one name, by partition; raises as `chains`."""

        def wanted(store_id: StoreId) -> bool:
            return (store_id.operator, store_id.store) == (operator, store)

        chains = self.held
        if not StoreId(operator, 0, store).is_channel:
            pages = self._directory.of_range((operator,), (operator + 1,))
            chains = _sound(self._found(pages, wanted))
        return {store_id.partition: chain for store_id, chain in chains.items() if wanted(store_id)}

    @property
    def chain_segments(self) -> Sequence[str]:
        """The segments that contain the chains. Raises as `chains` does."""
        return sorted({frame.segment for chain in self.chains.values() for frame in chain})

    def named(self) -> set[str]:
        """The names of all pages and segments that the cut references, superseded ones included.

        Raises:
            CorruptedError: a page is corrupted or missing.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        names = {*self.segments, *(name for base in self.referred for name in base.segments)}
        names.update(part.segment for part in self.paged.window)
        names.update(str(page.name) for page in self.paged.pages)
        for page in mapped(self.parts.page, self.paged.pages):
            names.update(frame.segment for chain in page.values() for frame in chain)
        return names

    def survey(self) -> Survey:
        """Assembles all chains whose pages and tables are intact.

        Raises:
            OSError: the file system fails.
        """
        survey = self._found(self.paged.pages, lambda _: True)
        chains = dict(sorted({**survey.chains, **self.held}.items()))
        errors = list(survey.errors)
        if not errors and len(survey.chains) != self.paged.store_count:
            detail = f"it leads to {len(survey.chains)} stores, and says {self.paged.store_count}"
            errors.append(cut_damaged(self.path, detail))
        return Survey(chains, errors)

    @cached_property
    def _directory(self) -> "_Directory":
        return _Directory(self.paged.pages)

    def _found(self, pages: Sequence[PageRef], wanted: Callable[[StoreId], bool]) -> Survey:
        """The chains of the matching stores of some pages, without in-flight rows."""
        since = min((page.epoch for page in pages), default=_NO_EPOCH)
        window = [part for part in self.paged.window if part.epoch > since]
        # The window may list a segment for several epochs.
        tables = dict.fromkeys(part.table for part in window)
        leading: list[PageRef | Table] = [*pages, *tables]
        read = dict(zip(leading, mapped(self._read, leading), strict=True))
        errors = [result for result in read.values() if isinstance(result, CleancutError)]
        frames: dict[StoreId, list[PlacedFrame]] = defaultdict(list)
        for page in pages:
            result = read[page]
            if isinstance(result, dict):
                frames.update((store, list(result[store])) for store in filter(wanted, result))
        lost_epoch = _NO_EPOCH
        for part in window:
            try:
                counted = self._counted(part, read[part.table])
            except CleancutError as error:
                errors.append(error)
                counted = None
            if counted is None:
                # Frames of any store whose page is older may be missing.
                lost_epoch = part.epoch
                continue
            for frame in counted:
                if wanted(frame.store) and part.epoch > _epoch(self._page_of(frame.store)):
                    frames[frame.store].append(frame)
        chains: dict[StoreId, Chain] = {}
        for store in sorted(frames):
            its_page = self._page_of(store)
            is_lost = its_page is not None and isinstance(read[its_page], CleancutError)
            if is_lost or _epoch(its_page) < lost_epoch:
                continue
            try:
                chains[store] = assembled(store, frames[store], self.version)
            except ValueError as error:
                errors.append(cut_damaged(self.path, str(error)))
        return Survey(chains, errors)

    def _read(self, part: PageRef | Table) -> _Read:
        try:
            return self._page(part) if isinstance(part, PageRef) else self.parts.frames(part)
        except CleancutError as error:
            return error

    def _page(self, part: PageRef) -> Page:
        page, following = self.parts.page(part), self._directory.following(part)
        last = next(reversed(page))
        if following is not None and last >= following.first:
            detail = f"it has {last}, and the next page begins with {following.first}"
            raise cut_damaged(self.parts.path(part), detail)
        return page

    def _counted(self, part: WindowPart, frames: _Read) -> list[PlacedFrame] | None:
        """The frames of a segment that count by the cut of an epoch; None without its table."""
        if not isinstance(frames, list):
            return None
        strangers = (part.counted or part.uncounted) - {frame.offset for frame in frames}
        if strangers:
            detail = f"no frame of {part.segment} begins at byte {min(strangers)}"
            raise cut_damaged(self.path, detail)
        return [
            frame for frame in frames if part.counts(frame.offset) and not frame.store.is_channel
        ]

    def _page_of(self, store: StoreId) -> PageRef | None:
        pages = self._directory.of_range(_key(store), _key(store))
        return pages[0] if pages else None


class _Directory:
    """Finds the pages that contain a range of stores."""

    def __init__(self, pages: Sequence[PageRef]) -> None:
        self._pages = pages
        self._keys = [_key(page.first) for page in pages]

    def of_range(self, first: _Key, end: _Key) -> Sequence[PageRef]:
        """The pages that may contain stores from `first` up to `end`; at least one."""
        at = max(bisect_right(self._keys, first) - 1, 0)
        return self._pages[at : max(bisect_left(self._keys, end), at + 1)]

    def following(self, page: PageRef) -> PageRef | None:
        """The page after a given one."""
        at = bisect_right(self._keys, _key(page.first))
        return self._pages[at] if at < len(self._pages) else None


def _key(store: StoreId) -> _Key:
    return store.operator, store.partition, store.store


def _epoch(page: PageRef | None) -> int:
    return _NO_EPOCH if page is None else page.epoch


def _sound(survey: Survey) -> Mapping[StoreId, Chain]:
    for error in survey.errors:
        raise error
    return survey.chains
