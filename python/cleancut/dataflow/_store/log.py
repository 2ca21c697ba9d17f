"""The log of vectors: the right to write its next entry, its valid entries, and its expiry."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from cleancut._checkpoint.read.root import Root
from cleancut._format.layout import savepoint_name
from cleancut._storage.side_files import side_file_of
from cleancut.dataflow._model import names
from cleancut.dataflow._model.names import Pin
from cleancut.dataflow._model.records import MemberCut, VectorRecord, encoded
from cleancut.dataflow._store.store import DataflowStore
from cleancut.errors import CleancutError

_TRIES = 100
_FENCED_FOR_MS = 3_600_000
_KEPT_GENERATIONS = 8

OpenRoot = Callable[[str], Root]


@dataclass(frozen=True)
class Term:
    """The right of one coordinator to write entries.

    A coordinator that takes over the dataflow also takes the next number of the log, by an entry
    that records its start. So the previous coordinator finds that number used when it writes its
    next vector, and is fenced; it never continues with another number.

    Attributes:
        generation: greater than those of all earlier coordinators.
        number: number of the entry by which it began.
    """

    generation: int
    number: int


def take(store: DataflowStore, description: Mapping[str, object]) -> Term:
    """Takes over the dataflow, so that the previous coordinator can write no vector any more.

    Args:
        store: store of the dataflow.
        description: entries of the new coordinator's record.

    Raises:
        FencedError: CLEANCUT_DATAFLOW_FENCED, other coordinators take over constantly.
    """
    machinery = store.machinery
    body = encoded({**description, "token": machinery.token(), "begunMs": machinery.now_ms()})
    generation = 0
    for _ in range(_TRIES):
        generation = names.generations(store.objects.list(names.COORDINATORS))[0] + 1
        if store.create(names.coordinator_name(generation), body):
            break
    else:
        raise store.fenced(generation, "other coordinators take over constantly")
    for _ in range(_TRIES):
        number = max(store.log(), default=0) + 1
        entry = VectorRecord(
            number, generation, machinery.token(), machinery.now_ms(), is_begin=True
        )
        if store.create(names.vector_name(number), entry.encode()):
            return Term(generation, number)
        existing = store.entry(number)
        if existing is not None and existing.generation > generation:
            raise store.fenced(existing.generation, f"it has written entry {number}")
    raise store.fenced(generation, "other coordinators write entries constantly")


def append(store: DataflowStore, term: Term, record: VectorRecord) -> None:
    """Writes the next vector; retries once after an error with an unknown outcome.

    Raises:
        FencedError: CLEANCUT_DATAFLOW_FENCED, another coordinator has taken over.
        RetryableError: the outcome is unknown. Nothing else may be written before the same record
            has been tried again.
    """
    if not store.create(names.vector_name(record.number), record.encode()):
        entry = store.entry(record.number)
        by = "another one" if entry is None else f"generation {entry.generation}"
        detail = f"{by} has written entry {record.number}, and this is generation {term.generation}"
        raise store.fenced(term.generation if entry is None else entry.generation, detail)


def staying(
    entries: Sequence[VectorRecord], named: Iterable[int], keep: int, since_ms: int | None
) -> set[int]:
    """The numbers of the vectors that an expiry retains.

    Args:
        entries: all valid vectors, ascending.
        named: the numbers of vectors with a name.
        keep: number of last vectors to retain.
        since_ms: vectors that were written since then are retained too, in Unix time; None if age
            does not count.
    """
    kept = {*named, *(entry.number for entry in entries[-keep:])}
    if since_ms is not None:
        kept |= {entry.number for entry in entries if entry.written_ms >= since_ms}
    return kept


def end(store: DataflowStore, term: Term) -> None:
    """Records that the coordinator has ended, so that another one need not wait."""
    store.objects.create(names.ended_name(term.generation), encoded({}))


def forget_coordinators(store: DataflowStore, term: Term, entries: Iterable[VectorRecord]) -> None:
    """Deletes records of early coordinators, which would be read at each start.

    The entry by which a coordinator began fences the previous one. It is retained as long as a
    coordinator can have paused between two requests.
    """
    since_ms = store.machinery.now_ms() - _FENCED_FOR_MS
    old = [
        names.vector_name(entry.number)
        for entry in entries
        if entry.is_begin and entry.generation < term.generation and entry.written_ms < since_ms
    ]
    old += names.early(store.objects.list(names.COORDINATORS), term.generation - _KEPT_GENERATIONS)
    store.machinery.each(store.objects.delete, old)


class Pins:
    """The savepoints of vectors in the checkpoints of members."""

    def __init__(self, store: DataflowStore, open_root: OpenRoot) -> None:
        self._store = store
        self._open_root = open_root
        self._roots: dict[str, Root | None] = {}

    def root(self, checkpoint: str) -> Root | None:
        """The root of a checkpoint; None if it does not exist."""
        if self._roots.get(checkpoint) is None:
            try:
                self._roots[checkpoint] = self._open_root(checkpoint)
            except CleancutError as error:
                if error.error_id != "CLEANCUT_CHECKPOINT_NOT_FOUND":
                    raise
                self._roots[checkpoint] = None
        return self._roots[checkpoint]

    def there(self, checkpoints: Iterable[str]) -> dict[str, set[str]]:
        """The savepoints of each checkpoint; a listing for each."""
        wanted = sorted(set(checkpoints))

        def listed(checkpoint: str) -> set[str]:
            root = self.root(checkpoint)
            return set() if root is None else set(root.savepoints())

        return dict(zip(wanted, self._store.machinery.each(listed, wanted), strict=True))

    def drop(self, checkpoint: str, pin: str) -> None:
        """Drops a savepoint, if it exists."""
        root = self.root(checkpoint)
        if root is not None:
            name = savepoint_name(pin)
            root.objects.delete(name)
            root.objects.delete(side_file_of(name))

    def counted(self, entries: Sequence[VectorRecord]) -> list[VectorRecord]:
        """The valid vectors: all their savepoints exist.

        A vector that a coordinator was writing or deleting when it was killed may lack some.
        """
        vectors = [vector for vector in entries if not vector.is_begin]
        there = self.there(
            cut.checkpoint for vector in vectors for cut in vector.members if cut.pin
        )
        return [vector for vector in vectors if all(_is_kept(cut, there) for cut in vector.members)]

    def clean(self, term: Term, flow: str, checkpoints: Iterable[str]) -> list[VectorRecord]:
        """Drops savepoints that earlier coordinators have left; returns the log.

        No vector with them can be written any more: the log has this coordinator's first entry.
        """
        entries = self._store.entries()
        named = {(cut.checkpoint, cut.pin) for entry in entries for cut in entry.members if cut.pin}
        there = self.there({*checkpoints, *(checkpoint for checkpoint, _ in named)})
        left = [
            (checkpoint, name)
            for checkpoint, savepoints in there.items()
            for name in sorted(savepoints)
            if _is_older(Pin.parse(name), flow, term) and (checkpoint, name) not in named
        ]
        self._store.machinery.each(lambda entry: self.drop(*entry), left)
        return entries

    def give_up(self, going: Sequence[VectorRecord], staying: Sequence[VectorRecord]) -> None:
        """Deletes vectors, and then the savepoints that no other vector references."""
        self._store.machinery.each(
            lambda vector: self._store.objects.delete(names.vector_name(vector.number)), going
        )
        self._store.machinery.each(lambda vector: self.drop(*vector), needless(going, staying))


def needless(
    going: Iterable[VectorRecord], staying: Iterable[VectorRecord]
) -> list[tuple[str, str]]:
    """The savepoints of expired vectors that no retained vector references.

    Returns:
        The checkpoint and the name of each. A vector uses one name for its new savepoints in all
        members.
    """
    kept = {(cut.checkpoint, cut.pin) for vector in staying for cut in vector.members}
    gone = {(cut.checkpoint, cut.pin) for vector in going for cut in vector.members if cut.pin}
    return sorted((place, pin) for place, pin in gone - kept if pin)


def _is_kept(cut: MemberCut, there: Mapping[str, set[str]]) -> bool:
    return cut.pin is None or cut.pin in there[cut.checkpoint]


def _is_older(pin: Pin | None, flow: str, term: Term) -> bool:
    return pin is not None and pin.flow == flow and pin.generation < term.generation
