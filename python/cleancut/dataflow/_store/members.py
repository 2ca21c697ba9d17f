"""The known cuts of one member, each read once while a coordinator runs."""

from collections.abc import Callable
from dataclasses import dataclass, field

from cleancut._checkpoint.read.root import Root
from cleancut._format.layout import cut_name, savepoint_name
from cleancut.dataflow._model.facts import CutFacts, Lineage, counting_cuts, facts_of
from cleancut.dataflow._model.records import MemberCut, MemberRecord
from cleancut.dataflow._store.machinery import Machinery
from cleancut.errors import CleancutError, CorruptedError, first_line

# Number of cuts that the first scan of a checkpoint reads; older ones are read as required.
READ_AT_ONCE = 16
# The bytes of this number of cuts are kept, so that savepoints are written without a read.
_KEPT_WHOLE = 4
_KEPT_BYTES = 8 << 20


@dataclass
class MemberView:
    """One member, as of the last scan.

    Attributes:
        record: its name and location.
        open_root: opens a checkpoint.
        root: root of the checkpoint; None before the query has started.
        trouble: the reason why the last scan failed; None if it succeeded.
        held: its cut in the last vector, which a savepoint retains; None if there is none.
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
        """The name of the member."""
        return self.record.name

    # Requests; each method requests an object at most once.

    def scan(self) -> None:
        """Lists the cuts. A failure is recorded in `trouble`, and the other values remain."""
        try:
            if self.root is None:
                self.root = self.open_root(self.record.checkpoint)
            self._seen(self.root.epochs())
            self.trouble = None
        except (CleancutError, OSError) as error:
            is_missing = getattr(error, "error_id", "") == "CLEANCUT_CHECKPOINT_NOT_FOUND"
            self.trouble = None if is_missing and not self._epochs else first_line(error)

    def read(self, epoch: int) -> None:
        """Reads a cut. A corrupted or deleted one is treated as missing."""
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
        """Reads the savepoint of the last vector, if its cut is unknown."""
        if self.held is None or self.held.pin is None or self.root is None:
            return
        name = savepoint_name(self.held.pin)
        try:
            data = self.root.objects.read(name)
            self._held_facts = facts_of(data, self.root.objects.path(name), self.held.epoch)
        except (CleancutError, OSError):
            self._held_facts = None

    def pin(self, epoch: int, pin: str) -> None:
        """Creates a savepoint of a cut, which is valid only if the cut exists afterwards.

        Raises:
            FileNotFoundError: the cut was deleted.
            CleancutError: the object store fails.
        """
        assert self.root is not None, "its cuts have been listed"
        data = self._whole.get(epoch)
        if data is None:
            data = self.root.objects.read(cut_name(epoch))
            facts_of(data, self.root.objects.path(cut_name(epoch)), epoch)
        name = savepoint_name(pin)
        # A request with a lost response is repeated below, and then finds its own object.
        if not self.root.objects.create(name, data) and self.root.objects.read(name) != data:
            raise FileExistsError(name)

    # Conclusions from the last scan.

    def _seen(self, epochs: list[int]) -> None:
        if self._epochs and (not epochs or epochs[-1] < self._epochs[-1]):
            # The last cut is never deleted: the location has a new checkpoint.
            self._facts, self._whole, self._damaged = {}, {}, {}
            self._wanted = READ_AT_ONCE
        self._epochs = epochs
        there = set(epochs)
        self._facts = {epoch: known for epoch, known in self._facts.items() if epoch in there}
        self._whole = {epoch: known for epoch, known in self._whole.items() if epoch in there}
        self._damaged = {epoch: known for epoch, known in self._damaged.items() if epoch in there}

    def unread(self) -> list[int]:
        """The epochs whose cuts must be read now, the last ones first."""
        newer = self._epochs[-self._wanted :]
        return [
            epoch
            for epoch in reversed(newer)
            if epoch not in self._facts and epoch not in self._damaged
        ]

    def want_older(self) -> bool:
        """Requests older cuts; returns whether there are any."""
        if self._wanted >= len(self._epochs):
            return False
        self._wanted += READ_AT_ONCE
        return True

    def is_there(self, epoch: int) -> bool:
        """Whether the cut of an epoch existed at the last listing."""
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
        """The last cuts without a gap in between, and the one that a savepoint retains."""
        newest_first = list(reversed(self._epochs))
        # Cuts at the end that are not read yet are treated as future ones.
        while newest_first and newest_first[0] not in self._facts:
            newest_first.pop(0)
        known = []
        for epoch in newest_first:
            if epoch not in self._facts:
                break
            known.append(self._facts[epoch])
        held = self._held_facts
        if held is not None and all(facts.epoch != held.epoch for facts in known):
            known.append(held)
        return known

    def cuts(self) -> list[CutFacts]:
        """The known cuts that count, ascending."""
        return counting_cuts(self._known())

    def lineage(self) -> Lineage:
        """The epochs that count, by the cuts that are known."""
        return Lineage.of(self._known())

    def note_vector(self, cut: MemberCut, facts: CutFacts | None) -> None:
        """Records the member's cut in the last vector."""
        self.held, self._held_facts = cut, facts

    @property
    def damaged(self) -> dict[int, str]:
        """The epochs whose cuts are corrupted, with the reason."""
        return dict(self._damaged)


def scan_member(
    record: MemberRecord, open_root: Callable[[str], Root], machinery: Machinery, *, cuts: int
) -> MemberView:
    """The current state of a member.

    Args:
        record: its name and location.
        open_root: opens a checkpoint.
        machinery: runs requests concurrently.
        cuts: number of last cuts to read.
    """
    view = MemberView(record, open_root, _wanted=cuts)
    view.scan()
    machinery.each(view.read, view.unread())
    return view
