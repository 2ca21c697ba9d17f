"""What is known of the cuts of one member: read once, and kept while somebody coordinates."""

from collections.abc import Callable
from dataclasses import dataclass, field

from cleancut._checkpoint.read.root import Root
from cleancut._format.layout import cut_name, savepoint_name
from cleancut.dataflow._model.facts import CutFacts, Lineage, facts_of, that_count
from cleancut.dataflow._model.records import MemberCut, MemberRecord
from cleancut.dataflow._store.machinery import Machinery
from cleancut.errors import CleancutError, CorruptedError, first_line

# Of a checkpoint that is looked at for the first time; older cuts are read where they are wanted.
READ_AT_ONCE = 16
# Such cuts are kept as they are, to be written as savepoints without being read again.
_KEPT_WHOLE = 4
_KEPT_BYTES = 8 << 20


@dataclass
class MemberView:
    """One member, as it has been seen last.

    Attributes:
        record: says where it is.
        open_root: finds a checkpoint.
        root: of the checkpoint; None before it has begun.
        trouble: why it could not be looked at; None if it could.
        held: the cut that the last vector has of it, which its savepoint keeps; None if there is
            none.
    """

    record: MemberRecord
    open_root: Callable[[str], Root]
    root: Root | None = None
    trouble: str | None = None
    held: MemberCut | None = None
    _held_facts: CutFacts | None = None
    _epochs: list[int] = field(default_factory=list)
    _facts: dict[int, CutFacts] = field(default_factory=dict)
    _damaged: dict[int, str] = field(default_factory=dict)
    _whole: dict[int, bytes] = field(default_factory=dict)
    _wanted: int = READ_AT_ONCE

    @property
    def name(self) -> str:
        """What the member is called."""
        return self.record.name

    # Requests; each asks once at most

    def look(self) -> None:
        """Looks which cuts there are. What fails is `trouble`, and the rest stays as it was."""
        try:
            if self.root is None:
                self.root = self.open_root(self.record.checkpoint)
            self._seen(self.root.epochs())
            self.trouble = None
        except (CleancutError, OSError) as error:
            is_missing = getattr(error, "error_id", "") == "CLEANCUT_CHECKPOINT_NOT_FOUND"
            self.trouble = None if is_missing and not self._epochs else first_line(error)

    def read(self, epoch: int) -> None:
        """Reads a cut. One that is damaged, or gone, is as if it were not there."""
        assert self.root is not None, "its cuts have been listed"
        objects, name = self.root.objects, cut_name(epoch)
        try:
            data = objects.read(name)
            self._facts[epoch] = facts_of(data, objects.path(name), epoch)
            self._whole[epoch] = data
        except CorruptedError as error:
            self._damaged[epoch] = first_line(error)
        except (CleancutError, OSError) as error:
            self.trouble = first_line(error)
        for old in sorted(self._whole)[:-_KEPT_WHOLE]:
            self._whole.pop(old, None)
        if len(self._whole.get(epoch, b"")) > _KEPT_BYTES:
            self._whole.pop(epoch, None)

    def read_held(self) -> None:
        """Reads the savepoint of the last vector, if what it keeps is not known."""
        if self.held is None or self.held.pin is None or self.root is None:
            return
        name = savepoint_name(self.held.pin)
        try:
            data = self.root.objects.read(name)
            self._held_facts = facts_of(data, self.root.objects.path(name), self.held.epoch)
        except (CleancutError, OSError):
            self._held_facts = None

    def pin(self, epoch: int, pin: str) -> None:
        """Keeps a cut by a savepoint, which counts only if the cut is there afterwards.

        Raises:
            FileNotFoundError: the cut has been swept.
            CleancutError: the store cannot be asked.
        """
        assert self.root is not None, "its cuts have been listed"
        data = self._whole.get(epoch)
        if data is None:
            data = self.root.objects.read(cut_name(epoch))
            facts_of(data, self.root.objects.path(cut_name(epoch)), epoch)
        name = savepoint_name(pin)
        # A request whose answer was lost is repeated below, and then meets what it has written.
        if not self.root.objects.create(name, data) and self.root.objects.read(name) != data:
            raise FileExistsError(name)

    # What follows from what was seen

    def _seen(self, epochs: list[int]) -> None:
        if self._epochs and (not epochs or epochs[-1] < self._epochs[-1]):
            # The last cut is never swept: somebody has begun anew in this place.
            self._facts, self._whole, self._damaged = {}, {}, {}
            self._wanted = READ_AT_ONCE
        self._epochs = epochs
        there = set(epochs)
        self._facts = {of: known for of, known in self._facts.items() if of in there}
        self._whole = {of: known for of, known in self._whole.items() if of in there}
        self._damaged = {of: known for of, known in self._damaged.items() if of in there}

    def unread(self) -> list[int]:
        """The epochs whose cuts are to be read now, the last ones first."""
        newer = self._epochs[-self._wanted :]
        return [of for of in reversed(newer) if of not in self._facts and of not in self._damaged]

    def want_older(self) -> bool:
        """Has older cuts be read, too; whether there are any."""
        if self._wanted >= len(self._epochs):
            return False
        self._wanted += READ_AT_ONCE
        return True

    def is_there(self, epoch: int) -> bool:
        """Whether the cut of an epoch was there when they were listed last."""
        return epoch in self._epochs

    @property
    def newest(self) -> int:
        """The last epoch that has a cut; -1 for none."""
        return self._epochs[-1] if self._epochs else -1

    @property
    def has_begun(self) -> bool:
        """Whether the query has ever committed an epoch."""
        return bool(self._epochs) or (self.held is not None and self.held.epoch >= 0)

    def _known(self) -> list[CutFacts]:
        """The last cuts without a hole in between, and the one that a savepoint keeps."""
        newest_first = list(reversed(self._epochs))
        # What cannot be read yet at the end is as if it had not come yet.
        while newest_first and newest_first[0] not in self._facts:
            newest_first.pop(0)
        found = []
        for epoch in newest_first:
            if epoch not in self._facts:
                break
            found.append(self._facts[epoch])
        held = self._held_facts
        if held is not None and all(of.epoch != held.epoch for of in found):
            found.append(held)
        return found

    def cuts(self) -> list[CutFacts]:
        """The cuts that count and are known, ascending."""
        return that_count(self._known())

    def lineage(self) -> Lineage:
        """Which of its epochs count, as far as is known."""
        return Lineage.of(self._known())

    def note_vector(self, cut: MemberCut, facts: CutFacts | None) -> None:
        """Takes note of what the last vector has of it."""
        self.held, self._held_facts = cut, facts

    @property
    def damaged(self) -> dict[int, str]:
        """The epochs whose cuts are damaged, and how."""
        return dict(self._damaged)


def looked_at(
    record: MemberRecord, open_root: Callable[[str], Root], machinery: Machinery, *, cuts: int
) -> MemberView:
    """A member as it is now.

    Args:
        record: says where it is.
        open_root: finds a checkpoint.
        machinery: reads beside each other.
        cuts: how many of the last are read.
    """
    view = MemberView(record, open_root, _wanted=cuts)
    view.look()
    machinery.each(view.read, view.unread())
    return view
