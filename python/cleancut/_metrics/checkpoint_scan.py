"""Scans a checkpoint periodically, and reads only the objects that are new since the last scan."""

import json
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from cleancut._checkpoint.read.cut_reader import CutReader, chain_bytes
from cleancut._checkpoint.read.epoch_info import EpochInfo
from cleancut._checkpoint.read.prices import PRICES, PriceList, daily_costs
from cleancut._checkpoint.read.recorded_epochs import RecordedEpochs
from cleancut._checkpoint.read.root import Root
from cleancut._checkpoint.read.stored_cut import StoredCut
from cleancut._checkpoint.read.watched_epochs import WatchedEpochs
from cleancut._checkpoint.replicate.records import (
    last_restore_test,
    replica_notes,
    replica_statuses,
)
from cleancut._checkpoint.retain.kept_savepoints import read_savepoints
from cleancut._format.chains import Chain
from cleancut._format.layout import OWNERS, REPLICAS, last_generation, owner_name
from cleancut._metrics.samples import Counts, Sample, of_epoch, of_notes

_SOON_S = 600
_RECENT_OWNERS = 5


class CheckpointScan:
    """The samples that a checkpoint gives for its query; reads each cut once.

    A scan lists the cuts, the restore tests, the history of epochs and the notes of replicas, and
    reads the new ones. The chains of all stores and the sizes of all objects take more requests:
    they are read at most every `sizes_every_s`.

    Args:
        root: root of the checkpoint.
        sizes_every_s: seconds between two scans of the sizes.
        prices: price lists for the cost metrics.
        budget: budget of the query in US dollars per day; None reports none.
        noted: called with the epochs that drivers have added to the history, and the labels of the
            query.
        clock: Unix time in seconds.
    """

    def __init__(
        self,
        root: Root,
        *,
        sizes_every_s: float,
        prices: Sequence[PriceList] = PRICES,
        budget: float | None = None,
        noted: Callable[[Sequence[EpochInfo], Mapping[str, str]], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._root = root
        self._sizes_every_s = sizes_every_s
        self._prices = prices
        self._budget = budget
        self._on_noted = noted
        self._clock = clock
        self._counts = Counts()
        self._seen = WatchedEpochs(root)
        self._noted: RecordedEpochs | None = None
        self._query_id = ""
        self._owners = _Owners(root, clock)
        self._sizes: Sequence[Sample] = ()
        self._stored_bytes = 0
        self._sized_s: float | None = None

    @property
    def location(self) -> str:
        """The checkpoint location as it was given."""
        return self._root.location

    def scan(self) -> Sequence[Sample]:
        """All current samples.

        Raises:
            CleancutError: the object store does not answer, or an object is corrupted.
            OSError: the same for a file system.
        """
        counts = self._seen.last is not None
        for cut in self._seen.scan():
            if counts:
                self._counts.epoch()
            if counts and cut.costs is not None:
                self._counts.add(cut.costs.all)
        noted = self._read_history()
        samples = [*self._counts.samples(), *self._owners.scan()]
        last = self._seen.epochs[-1] if self._seen.epochs else None
        if last is not None:
            # The next cut holds the duration of the write of this one.
            before = self._seen.epochs[-2] if len(self._seen.epochs) > 1 else None
            cut_ms, cut_lag_ms = (before.cut_ms, before.cut_lag_ms) if before else (None, None)
            samples += of_epoch(replace(last, cut_ms=cut_ms, cut_lag_ms=cut_lag_ms))
            if last.costs is not None:
                samples.append(Sample("executors", last.costs.executor_count))
        samples += self._notes(last)
        samples += self._sized()
        samples += self._costs()
        if self._seen.last is not None:
            self._query_id = self._seen.last.query_id or self._query_id
        query = {"query": self._query_id, "location": self.location}
        if self._on_noted is not None:
            self._on_noted(noted, query)
        return [sample.of(query) for sample in samples]

    def _read_history(self) -> Sequence[EpochInfo]:
        """New epochs of the history after the first cut of the first scan, where counters start."""
        if self._noted is None and self._seen.epochs:
            last = self._seen.epochs[-1]
            self._noted = RecordedEpochs(self._root.objects, (last.generation, last.epoch))
        epochs = [] if self._noted is None else self._noted.scan()
        for info in epochs:
            if info.slow is not None:
                self._counts.slow(info.slow.kind)
        return epochs

    def _notes(self, last: EpochInfo | None) -> Iterator[Sample]:
        committed = None if last is None else last.epoch
        written_ms = None if last is None else round(last.written.timestamp() * 1000)
        notes = replica_notes(self._root) if self._root.objects.list(REPLICAS) else ()
        copies = list(replica_statuses(notes, committed, written_ms))
        return of_notes(committed, last_restore_test(self._root.proofs()), copies)

    def _sized(self) -> Sequence[Sample]:
        now_s = self._clock()
        is_due = self._sized_s is None or now_s - self._sized_s >= self._sizes_every_s
        if is_due and self._seen.last is not None:
            self._sizes = list(_of_chains(self._seen.last))
            self._stored_bytes = self._root.stored_bytes()
            unreadable = read_savepoints(
                self._root.objects, CutReader(self._root.objects)
            ).unreadable
            self._sizes = [
                *self._sizes,
                Sample("stored_bytes", self._stored_bytes),
                Sample("unreadable_savepoints", len(unreadable)),
            ]
            self._sized_s = now_s
        return self._sizes

    def _costs(self) -> Iterator[Sample]:
        for cost in daily_costs(self._seen.epochs, self._stored_bytes, self._prices) or ():
            yield Sample("cost_dollars_per_day", cost.usd, {"prices": cost.store})
        if self._budget is not None:
            yield Sample("budget_dollars_per_day", self._budget)


def _of_chains(cut: StoredCut) -> Iterator[Sample]:
    by_store: dict[tuple[int, str], list[Chain]] = defaultdict(list)
    for store, chain in cut.chains.items():
        if not store.is_channel:
            by_store[store.operator, store.store].append(chain)
    for (operator, name), chains in sorted(by_store.items()):
        label = {"operator": str(operator), "store": name}
        firsts = [chain[0].name for chain in chains]
        snapshots = [name.version if name.kind == "base" else 0 for name in firsts]
        yield Sample("longest_chain_frames", max(map(len, chains)), label)
        yield Sample("oldest_snapshot_age_epochs", cut.version - min(snapshots), label)
        yield Sample("chain_bytes", sum(map(chain_bytes, chains)), label)


class _Owners:
    """The owners of the checkpoint; those after the last known one are read by name, not listed."""

    def __init__(self, root: Root, clock: Callable[[], float]) -> None:
        self._root = root
        self._clock = clock
        self._last: int | None = None
        self._notes: deque[Mapping[str, object]] = deque(maxlen=_RECENT_OWNERS)

    def scan(self) -> Iterator[Sample]:
        if self._last is None:
            self._last = last_generation(self._root.objects.list(OWNERS))
            for generation in range(max(self._last - _RECENT_OWNERS, 0) + 1, self._last + 1):
                self._read(generation)
        while self._read(self._last + 1):
            self._last += 1
        if self._last > 0:
            yield Sample("owner_generation", self._last)
        since_ms = (self._clock() - _SOON_S) * 1000
        started = [(note.get("startedMs"), note.get("host")) for note in self._notes]
        hosts = {host for at, host in started if isinstance(at, int) and at >= since_ms}
        yield Sample("owner_hosts", len(hosts))

    def _read(self, generation: int) -> bool:
        """Whether it exists; an unreadable owner object, or one of a fence, names no host."""
        try:
            note = json.loads(self._root.objects.read(owner_name(generation)))
        except FileNotFoundError:
            return False
        except ValueError:
            return True
        if isinstance(note, dict) and note.get("fence") is not True:
            self._notes.append(note)
        return True
