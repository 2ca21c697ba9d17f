"""The log of vectors: who may write the next entry, which entries count, and what goes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from cleancut._checkpoint.read.root import Root
from cleancut._format.layout import savepoint_name
from cleancut._storage.side_files import side_file_of
from cleancut.dataflow._model import names
from cleancut.dataflow._model.names import Pin
from cleancut.dataflow._model.records import MemberCut, VectorRecord, encoded
from cleancut.dataflow._store.store import FlowStore
from cleancut.errors import CleancutError

_TRIES = 100
_FENCED_FOR_MS = 3_600_000
_KEPT_GENERATIONS = 8

OpenRoot = Callable[[str], Root]


@dataclass(frozen=True)
class Term:
    """The right of one coordinator to write entries.

    Whoever takes the dataflow takes the next number of the log, too, by an entry that he has begun.
    So the one before finds that number taken where it wants to write its next vector, and has
    lost; it never goes on to another number.

    Attributes:
        generation: each coordinator has a greater one than those before.
        number: that of the entry by which it began.
    """

    generation: int
    number: int


def take(store: FlowStore, told: Mapping[str, object]) -> Term:
    """Takes the dataflow, so that whoever coordinates it can write no vector any more.

    Args:
        store: of the dataflow.
        told: what others are told of the new coordinator.

    Raises:
        FencedError: CLEANCUT_DATAFLOW_FENCED, others take it all the time.
    """
    machinery = store.machinery
    body = encoded({**told, "token": machinery.token(), "begunMs": machinery.now_ms()})
    generation = 0
    for _ in range(_TRIES):
        generation = names.generations(store.objects.list(names.COORDINATORS))[0] + 1
        if store.create(names.coordinator_name(generation), body):
            break
    else:
        raise store.fenced(generation, "others take it all the time")
    for _ in range(_TRIES):
        number = max(store.log(), default=0) + 1
        entry = VectorRecord(
            number, generation, machinery.token(), machinery.now_ms(), is_begin=True
        )
        if store.create(names.vector_name(number), entry.encode()):
            return Term(generation, number)
        found = store.entry(number)
        if found is not None and found.generation > generation:
            raise store.fenced(found.generation, f"it has written entry {number}")
    raise store.fenced(generation, "others write entries all the time")


def append(store: FlowStore, term: Term, record: VectorRecord) -> None:
    """Writes the next vector; once more after an error that does not tell whether it was written.

    Raises:
        FencedError: CLEANCUT_DATAFLOW_FENCED, another coordinator has followed.
        RetryableError: it is not known whether it is there. Nothing else may be written before
            the same record has been tried again.
    """
    if not store.create(names.vector_name(record.number), record.encode()):
        found = store.entry(record.number)
        by = "another one" if found is None else f"generation {found.generation}"
        detail = f"{by} has written entry {record.number}, and this is generation {term.generation}"
        raise store.fenced(term.generation if found is None else found.generation, detail)


def staying(
    entries: Sequence[VectorRecord], named: Iterable[int], keep: int, since_ms: int | None
) -> set[int]:
    """The numbers of the vectors that stay when others are given up.

    Args:
        entries: all that count, ascending.
        named: the numbers of those that have a name.
        keep: how many of the last stay.
        since_ms: those that were written since then stay, too, in Unix time; None is none.
    """
    kept = {*named, *(of.number for of in entries[-keep:])}
    if since_ms is not None:
        kept |= {of.number for of in entries if of.written_ms >= since_ms}
    return kept


def end(store: FlowStore, term: Term) -> None:
    """Says that the coordinator has ended, so that another one need not wait."""
    store.objects.create(names.ended_name(term.generation), encoded({}))


def forget_coordinators(store: FlowStore, term: Term, entries: Iterable[VectorRecord]) -> None:
    """Deletes what early coordinators have left, which would be read at each beginning.

    The entry by which one began is what fences the one before. It stays as long as anybody can
    have stood still between two requests.
    """
    since_ms = store.machinery.now_ms() - _FENCED_FOR_MS
    old = [
        names.vector_name(of.number)
        for of in entries
        if of.is_begin and of.generation < term.generation and of.written_ms < since_ms
    ]
    old += names.early(store.objects.list(names.COORDINATORS), term.generation - _KEPT_GENERATIONS)
    store.machinery.each(store.objects.delete, old)


class Pins:
    """The savepoints of vectors in the checkpoints of members."""

    def __init__(self, store: FlowStore, open_root: OpenRoot) -> None:
        self._store = store
        self._open_root = open_root
        self._roots: dict[str, Root | None] = {}

    def root(self, checkpoint: str) -> Root | None:
        """Of a checkpoint; None where there is none."""
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
        """Gives a savepoint up, if it is there."""
        root = self.root(checkpoint)
        if root is not None:
            name = savepoint_name(pin)
            root.objects.delete(name)
            root.objects.delete(side_file_of(name))

    def counted(self, entries: Sequence[VectorRecord]) -> list[VectorRecord]:
        """The vectors that count: all their savepoints are there.

        One that a coordinator was about to write or to give up when it died may lack some.
        """
        vectors = [of for of in entries if not of.is_begin]
        there = self.there(cut.checkpoint for of in vectors for cut in of.members if cut.pin)
        return [of for of in vectors if all(_is_kept(cut, there) for cut in of.members)]

    def clean(self, term: Term, flow: str, checkpoints: Iterable[str]) -> list[VectorRecord]:
        """Removes savepoints that coordinators before this one have left; gives the log.

        Nobody writes a vector with them any more: the log has this coordinator's first entry.
        """
        entries = self._store.entries()
        named = {(cut.checkpoint, cut.pin) for of in entries for cut in of.members if cut.pin}
        there = self.there({*checkpoints, *(checkpoint for checkpoint, _ in named)})
        left = [
            (checkpoint, name)
            for checkpoint, found in there.items()
            for name in sorted(found)
            if _is_older(Pin.parse(name), flow, term) and (checkpoint, name) not in named
        ]
        self._store.machinery.each(lambda of: self.drop(*of), left)
        return entries

    def give_up(self, going: Sequence[VectorRecord], staying: Sequence[VectorRecord]) -> None:
        """Deletes vectors, and then the savepoints that no other names."""
        self._store.machinery.each(
            lambda of: self._store.objects.delete(names.vector_name(of.number)), going
        )
        self._store.machinery.each(lambda of: self.drop(*of), needless(going, staying))


def needless(
    going: Iterable[VectorRecord], staying: Iterable[VectorRecord]
) -> list[tuple[str, str]]:
    """The savepoints that go with vectors, since none that stays has them.

    Returns:
        The checkpoint and the name of each: what a vector keeps anew has one name in all of its
        members.
    """
    kept = {(cut.checkpoint, cut.pin) for of in staying for cut in of.members}
    gone = {(cut.checkpoint, cut.pin) for of in going for cut in of.members if cut.pin}
    return sorted((place, pin) for place, pin in gone - kept if pin)


def _is_kept(cut: MemberCut, there: Mapping[str, set[str]]) -> bool:
    return cut.pin is None or cut.pin in there[cut.checkpoint]


def _is_older(pin: Pin | None, flow: str, term: Term) -> bool:
    return pin is not None and pin.flow == flow and pin.generation < term.generation
