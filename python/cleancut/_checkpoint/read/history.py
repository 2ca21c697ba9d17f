"""The versions of a checkpoint and their source: a cut, or the per-store files of level 0."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, Protocol

from cleancut._checkpoint.read.cut_reader import WINDOW_BYTES, CutReader, LoadedState, chain_bytes
from cleancut._checkpoint.read.listing import Listing
from cleancut._checkpoint.read.live_rows import LiveState
from cleancut._checkpoint.read.root import Root
from cleancut._checkpoint.read.store_reader import StoreReader
from cleancut._checkpoint.read.stored_cut import StoredCut
from cleancut._display.tables import ranges
from cleancut._format.chains import Chain
from cleancut._format.cut.cut import CutRef
from cleancut._format.layout import StoreId
from cleancut._storage.parallel import mapped, windows
from cleancut.errors import CleancutError, error_of

# Limits memory: a cut of many partitions is large, and so is a state.
_CUTS_AT_ONCE = 4
STORES_AT_ONCE = 4
_FIRST_WINDOW_BYTES = 1 << 20


class StoredVersion(Protocol):
    """One version of one operator's stores of one name."""

    @property
    def version(self) -> int:
        """The state version."""

    @property
    def partitions(self) -> Sequence[int]:
        """The partitions that there are, ascending."""

    def load(self, partitions: Iterable[int]) -> Iterator[LoadedState]:
        """The states of some partitions, in their order."""

    def live(self, partitions: Iterable[int]) -> Iterator[LiveState]:
        """The same states, read lazily from their newest frames back."""

    def keyed(self, partition: int) -> LiveState:
        """The state of one partition, for a key: reads the changelogs, and not the snapshot."""


@dataclass(frozen=True)
class CutVersion:
    """A version that has a cut."""

    reader: CutReader
    cut: StoredCut
    chains: Mapping[int, Chain]

    @property
    def version(self) -> int:
        return self.cut.version

    @property
    def partitions(self) -> Sequence[int]:
        return sorted(self.chains)

    def load(self, partitions: Iterable[int]) -> Iterator[LoadedState]:
        return self.reader.states(self.cut, map(self.chains.__getitem__, partitions))

    def live(self, partitions: Iterable[int]) -> Iterator[LiveState]:
        chains = (self.chains[partition] for partition in partitions)
        # Limits the delay of the first rows, and reads many small partitions together.
        for group in windows(chains, chain_bytes, WINDOW_BYTES, first=_FIRST_WINDOW_BYTES):
            fits = len(group) > 1 or chain_bytes(group[0]) <= _FIRST_WINDOW_BYTES
            parts = self.reader.read(frame for chain in group for frame in chain) if fits else {}
            for chain in group:
                frames = self.reader.newest_first(self.cut, chain, parts)
                yield LiveState(chain[0].store, self.cut.path, self.version, frames)

    def keyed(self, partition: int) -> LiveState:
        chain = self.chains[partition]
        parts = self.reader.read(frame for frame in chain if frame.name.kind == "delta")
        frames = self.reader.newest_first(self.cut, chain, parts)
        return LiveState(chain[0].store, self.cut.path, self.version, frames)


@dataclass(frozen=True)
class ListedVersion:
    """A version of level 0."""

    readers: Mapping[int, StoreReader]
    version: int

    @property
    def partitions(self) -> Sequence[int]:
        return sorted(self.readers)

    def load(self, partitions: Iterable[int]) -> Iterator[LoadedState]:
        # A chain is resolved frame by frame, so only different stores can be read concurrently.
        return mapped(self._loaded, partitions, ahead=STORES_AT_ONCE)

    def _loaded(self, partition: int) -> LoadedState:
        reader = self.readers[partition]
        return LoadedState(reader.listing.store, reader.directory, reader.load(self.version))

    def live(self, partitions: Iterable[int]) -> Iterator[LiveState]:
        for reader in map(self.readers.__getitem__, partitions):
            frames = reader.newest_first(self.version)
            yield LiveState(reader.listing.store, reader.directory, self.version, frames)

    def keyed(self, partition: int) -> LiveState:
        return next(self.live([partition]))


@dataclass(frozen=True)
class NoVersion:
    """A state without the requested stores."""

    version: int = 0
    partitions: Sequence[int] = ()

    def load(self, partitions: Iterable[int]) -> Iterator[LoadedState]:
        assert not list(partitions)
        return iter(())

    def live(self, partitions: Iterable[int]) -> Iterator[LiveState]:
        assert not list(partitions)
        return iter(())

    def keyed(self, partition: int) -> LiveState:
        raise KeyError(partition)


class _Wanted(NamedTuple):
    """A requested version, by its number or by its epoch."""

    what: Literal["version", "epoch"]
    number: int | None

    @property
    def version(self) -> int | None:
        if self.number is None:
            return None
        return self.number + 1 if self.what == "epoch" else self.number


@dataclass(frozen=True)
class StoreHistory:
    """All versions of one store.

    Attributes:
        store: the store.
        files: reader of its files of level 0; None if it has none.
        chains: its chain in each cut.
    """

    store: StoreId
    files: StoreReader | None
    chains: Mapping[CutRef, Chain]

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions that have a frame, ascending."""
        listed = () if self.files is None else self.files.listing.versions
        return tuple(sorted({*listed, *(cut.version for cut in self.chains)}))


@dataclass(frozen=True)
class NamedState:
    """All stores of one state, whose cut is read once.

    Attributes:
        history: the listed checkpoint.
        epoch: at level 0, the epoch of the state; None is the last.
        cut: the cut; None at level 0.
    """

    history: "History"
    epoch: int | None
    cut: StoredCut | None

    @cached_property
    def sizes(self) -> Mapping[StoreId, int]:
        """The stores, each with the bytes of its frames; at level 0, of all its files.

        Raises:
            CorruptedError: a page or a segment table of the cut is corrupted.
        """
        if self.cut is None:
            return {
                store: sum(listing.sizes.values())
                for store, listing in self.history.listings.items()
            }
        return self.history.reader.sizes(self.cut)

    @property
    def names(self) -> set[tuple[int, str]]:
        """The operators of the stores, with the names of the stores."""
        return {(store.operator, store.store) for store in self.sizes}

    def of(self, operator: int, store: str) -> StoredVersion:
        """One operator's stores of one name. Raises as `History.at` does."""
        if self.cut is None:
            return self.history.at(operator, store, None, self.epoch)
        return self.history.of(self.cut, operator, store)


class History:
    """One scan of a checkpoint. Listings and cuts are read at most once."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self.epochs = root.epochs()
        self.reader = CutReader(root.objects)

    @property
    def location(self) -> str:
        """The checkpoint location as it was given."""
        return self._root.location

    @cached_property
    def listings(self) -> Mapping[StoreId, Listing]:
        """The stores of level 0, without files of versions that only a cut can commit."""
        listings = self._root.listings()
        if not self.epochs:
            return listings
        first = self.epochs[0] + 1
        before = {store: listing.before(first) for store, listing in listings.items()}
        return {store: listing for store, listing in before.items() if listing.sizes}

    def cuts(self) -> Iterator[StoredCut]:
        """All cuts, ordered by epoch, each read lazily.

        Raises:
            CorruptedError: a cut is corrupted.
        """
        cuts = mapped(self._cut_or_none, self.epochs, ahead=_CUTS_AT_ONCE)
        return (cut for cut in cuts if cut is not None)

    def stores(self) -> Sequence[StoreHistory]:
        """All stores, in their order.

        Raises:
            CorruptedError: a cut is corrupted.
        """
        chains = self._chains(None)
        stores = sorted({*self.listings, *chains})
        return [self._history(store, chains.get(store, {})) for store in stores]

    def referred_sizes(self, cut: StoredCut | None) -> Mapping[StoreId, int] | None:
        """The stores of a cut that reference others, with the size of these frames in bytes.

        None if it cannot be read, so that the rest of a corrupted checkpoint can be shown.
        """
        try:
            return {} if cut is None else self.reader.referred_sizes(cut)
        except CleancutError:
            return None

    def last_cut(self) -> StoredCut | None:
        """The last cut; None if there is none. Raises CorruptedError if it is corrupted."""
        return self._cut_or_none(self.epochs[-1]) if self.epochs else None

    def store(self, store: StoreId) -> StoreHistory:
        """One store.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND.
            CorruptedError: a cut is corrupted.
        """
        chains = self._chains(store)
        if store not in self.listings and store not in chains:
            available = "; ".join(str(history.store) for history in self.stores()) or "no state yet"
            raise self.not_found(f"state store {store}", available)
        return self._history(store, chains.get(store, {}))

    def _chains(self, only: StoreId | None) -> Mapping[StoreId, Mapping[CutRef, Chain]]:
        """For each store, or for one, its chain in each cut."""
        chains: dict[StoreId, dict[CutRef, Chain]] = {}
        for cut in self.cuts():
            if only is None:
                chains_of_cut = cut.chains
            else:
                chain_of_store = cut.chain(only)
                chains_of_cut = {} if chain_of_store is None else {only: chain_of_store}
            for store, chain in chains_of_cut.items():
                chains.setdefault(store, {})[cut.ref] = chain
        return chains

    def _history(self, store: StoreId, chains: Mapping[CutRef, Chain]) -> StoreHistory:
        listing = self.listings.get(store)
        files = None if listing is None else StoreReader(self._root.objects, listing)
        return StoreHistory(store, files, chains)

    def cut(self, epoch: int | None) -> StoredCut:
        """The cut of an epoch; None is the last.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND.
            CorruptedError: it is corrupted.
        """
        available = f"cuts of epochs {ranges(self.epochs)}" if self.epochs else "no cuts"
        wanted = "cut" if epoch is None else f"cut of epoch {epoch}"
        chosen = self.epochs[-1] if epoch is None and self.epochs else epoch
        cut = self._cut_or_none(chosen) if chosen in self.epochs and chosen is not None else None
        if cut is None:
            raise self.not_found(wanted, available)
        return cut

    def savepoint(self, savepoint: str) -> StoredCut:
        """The cut of a savepoint.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND.
            CorruptedError: it is corrupted.
        """
        savepoints = self._root.savepoints()
        if savepoint in savepoints:
            with suppress(FileNotFoundError):
                return self.reader.savepoint(savepoint)
        available = ", ".join(existing for existing in savepoints if existing != savepoint)
        what = f"the savepoints {available}" if available else "no savepoints"
        raise self.not_found(f"savepoint {savepoint}", what)

    def at(
        self,
        operator: int,
        store: str,
        version: int | None,
        epoch: int | None = None,
        *,
        partition: int | None = None,
    ) -> StoredVersion:
        """A version of one operator's stores of one name.

        Args:
            operator: Spark's operator id.
            store: Spark's name of the store.
            version: the version; None is that of the last cut, or without cuts the last version of
                all partitions.
            epoch: the epoch of the state, instead of its version.
            partition: as in `of`.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND.
            CorruptedError: the version's cut is corrupted.
        """
        last = self.epochs[-1] if self.epochs else None
        of_version = last if version is None else version - 1
        chosen = of_version if epoch is None else epoch
        if chosen is None or chosen not in self.epochs:
            wanted = _Wanted("version", version) if epoch is None else _Wanted("epoch", epoch)
            return self._listed(operator, store, wanted)
        return self.of(self.cut(chosen), operator, store, partition=partition)

    def named_cut(self, name: int | str | None) -> StoredCut:
        """The cut of an epoch or of a savepoint; None is the last. Raises as these do."""
        return self.savepoint(name) if isinstance(name, str) else self.cut(name)

    def named(self, name: int | str | None) -> "NamedState":
        """The state after an epoch or of a savepoint; None is the last.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND, neither such a cut nor a file of level 0 exists.
            CorruptedError: the cut is corrupted.
        """
        is_listed = name not in self.epochs and not (name is None and self.epochs)
        if is_listed and self.listings and not isinstance(name, str):
            return NamedState(self, name, None)
        return NamedState(self, None, self.named_cut(name))

    def of(
        self, cut: StoredCut, operator: int, store: str, *, partition: int | None = None
    ) -> StoredVersion:
        """The version of one operator's stores of one name in a cut.

        Args:
            cut: the cut.
            operator: Spark's operator id.
            store: Spark's name of the store.
            partition: read only the chain of this partition, if it exists.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND.
            CorruptedError: a page or a segment table of the cut is corrupted.
        """
        if partition is not None:
            chain = cut.chain(StoreId(operator, partition, store))
            if chain is not None:
                return CutVersion(self.reader, cut, {partition: chain})
        chains = cut.chains_of(operator, store)
        if not chains:
            raise self._no_store(operator, store, cut.chains)
        return CutVersion(self.reader, cut, chains)

    def _listed(self, operator: int, store: str, wanted: "_Wanted") -> ListedVersion:
        readers = {
            store_id.partition: StoreReader(self._root.objects, listing)
            for store_id, listing in self.listings.items()
            if (store_id.operator, store_id.store) == (operator, store)
        }
        if not readers and self.epochs:
            self._require(self._of_cuts, wanted, f"operator={operator} store={store}")
        if not readers:
            raise self._no_store(operator, store, self.listings)
        if wanted.version is None:
            return ListedVersion(readers, self._last_of_all(readers.values()))
        for reader in readers.values():
            available = {*reader.listing.versions, *self._of_cuts}
            self._require(available, wanted, str(reader.listing.store))
        return ListedVersion(readers, wanted.version)

    def _require(self, versions: Iterable[int], wanted: "_Wanted", where: str) -> None:
        """Checks that a version exists; the error names it as the caller requested it."""
        available = (version - (wanted.what == "epoch") for version in versions)
        self.require(available, wanted.number, wanted.what, where)

    @property
    def _of_cuts(self) -> Sequence[int]:
        return [epoch + 1 for epoch in self.epochs]

    def _last_of_all(self, readers: Iterable[StoreReader]) -> int:
        listings = [reader.listing for reader in readers]
        common = set.intersection(*(set(listing.versions) for listing in listings))
        if not common:
            available = (f"{listing.store} {ranges(listing.versions)}" for listing in listings)
            raise self.not_found("version that all partitions have", "; ".join(available))
        return max(common)

    def require(self, available: Iterable[int], wanted: int | None, what: str, where: str) -> None:
        """Checks that a number is available.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND.
        """
        numbers = sorted(available)
        if wanted not in numbers:
            raise self.not_found(f"{what} {wanted} of {where}", f"{what} {ranges(numbers)}")

    def not_found(self, wanted: str, available: str) -> CleancutError:
        """The error for a version, a store or a cut that the checkpoint does not have."""
        return error_of(
            "CLEANCUT_STATE_NOT_FOUND",
            location=self._root.location,
            wanted=wanted,
            available=available,
        )

    def _no_store(self, operator: int, store: str, existing: Iterable[StoreId]) -> CleancutError:
        stores = sorted({(store_id.operator, store_id.store) for store_id in existing})
        available = "; ".join(f"operator={number} store={name}" for number, name in stores)
        wanted = f"state store operator={operator} store={store}"
        return self.not_found(wanted, available or "no state yet")

    def _cut_or_none(self, epoch: int) -> StoredCut | None:
        """A cut; None where retention has deleted it since it was listed."""
        try:
            return self.reader.cut(epoch)
        except FileNotFoundError:
            return None
