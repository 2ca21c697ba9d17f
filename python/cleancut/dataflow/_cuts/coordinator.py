"""Makes cuts of a dataflow: scans, decides, creates savepoints, scans again, writes the vector.

The order is essential. The cuts of the members get savepoints before the vector references them,
and are listed once more after that: the garbage collection of a query deletes cuts first and lists
savepoints afterwards, so a cut that still exists then is retained. The vector is written last. A
failure in between leaves savepoints that no vector references; the next coordinator drops them.
"""

import os
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from cleancut.dataflow._cuts.channels import ChannelView
from cleancut.dataflow._cuts.close_requests import CloseRequests
from cleancut.dataflow._cuts.decision import Chosen, Decision, Seen, decide, member_cut, with_acts
from cleancut.dataflow._model import names
from cleancut.dataflow._model.names import Pin
from cleancut.dataflow._model.records import EdgeCut, MemberCut, VectorRecord
from cleancut.dataflow._store.log import (
    OpenRoot,
    Pins,
    Term,
    append,
    end,
    forget_coordinators,
    staying,
    take,
)
from cleancut.dataflow._store.members import MemberView
from cleancut.dataflow._store.store import DataflowStore
from cleancut.errors import CleancutError, FencedError, error_of, first_line
from cleancut.sinks._epoch_log.records import Records

OpenRecords = Callable[[str], Records]

# Seconds before another attempt.
BACKOFF_S = (0.2, 1.0, 5.0)
_LOOKS = 50


class _TryAgainError(Exception):
    """The vector could not be written as it was decided."""


@dataclass
class Coordinator:
    """Makes the vectors of one dataflow, until another coordinator takes over; for one thread.

    Attributes:
        store: store of the dataflow.
        open_root: opens the checkpoint of a member.
        open_records: opens a channel.
        description: entries of the coordinator's record, in addition to host and process.
        term: its right to write vectors.
        flow: the id of the dataflow.
        entries: all retained vectors that count, ascending.
    """

    store: DataflowStore
    open_root: OpenRoot
    open_records: OpenRecords
    description: Mapping[str, object] = field(default_factory=dict)
    term: Term | None = None
    flow: str = ""
    entries: list[VectorRecord] = field(default_factory=list)
    _members: dict[str, MemberView] = field(default_factory=dict)
    _channels: dict[str, ChannelView] = field(default_factory=dict)
    _moved: Mapping[str, str] = field(default_factory=dict)
    _signs: object = None
    # The last number in the log; this coordinator has written all numbers since it began.
    _number: int = 0
    _attempts: int = 0
    # A vector whose write has an unknown outcome. No other entry may be written before it is
    # resolved: a skipped number could hide the entry by which another coordinator has begun.
    _unsure: tuple[VectorRecord, Mapping[str, Chosen]] | None = None

    def __post_init__(self) -> None:
        self.pins = Pins(self.store, self.open_root)
        self.closing = CloseRequests(self.store)

    # Beginning and ending

    def begin(self) -> None:
        """Takes over the dataflow, removes leftovers of other coordinators, and scans.

        Raises:
            FencedError: CLEANCUT_DATAFLOW_FENCED.
        """
        self.flow = self.store.flow_id()
        here = {"host": socket.gethostname(), "process": os.getpid()}
        self.term = take(self.store, {**here, **self.description})
        self._number = self.term.number
        self._read_members()
        places = [view.record.checkpoint for view in self._members.values()]
        entries = self.pins.clean(self.term, self.flow, places)
        forget_coordinators(self.store, self.term, entries)
        self.entries = self.pins.counted(entries)
        self._hold_last()
        self.scan()

    def end(self) -> None:
        """Records its end."""
        if self.term is not None:
            end(self.store, self.term)
            self.term = None

    def _hold_last(self) -> None:
        """Notes the members' cuts of the last vector, which has savepoints of them."""
        if not self.entries:
            return
        for cut in self.entries[-1].members:
            view = self._members.get(cut.name)
            if view is not None and view.record.checkpoint == cut.checkpoint and cut.pin:
                view.held = cut
                view.root = view.root or self.pins.root(cut.checkpoint)
        self.store.machinery.each(MemberView.read_held, self._members.values())

    # Looking

    def scan_all(self) -> None:
        """Scans without having begun; nothing can be written then.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND.
        """
        self.flow = self.store.flow_id()
        self._read_members()
        self.scan()
        self.decide()

    @property
    def seen(self) -> Seen:
        """The results of the last scan."""
        return Seen(self._members, self._channels, self._moved)

    def is_followed(self) -> bool:
        """Whether another coordinator has taken over the dataflow; one listing."""
        listed = self.store.objects.list(names.COORDINATORS)
        return self.term is None or names.generations(listed)[0] > self.term.generation

    def poll(self) -> None:
        """Reads changes since the last scan, so that a vector can be made at once.

        Raises:
            FencedError: CLEANCUT_DATAFLOW_FENCED.
        """
        if self.is_followed():
            raise self._followed()
        self._read_members()
        self.scan()

    def _read_members(self) -> None:
        signs = self.store.signs()
        if signs == self._signs:
            return
        records = self.store.members()
        for name in set(self._members) - set(records):
            del self._members[name]
        for name, record in records.items():
            if name not in self._members or self._members[name].record != record:
                self._members[name] = MemberView(record, self.open_root)
        self._moved = self.store.moved()
        self._signs = signs

    def scan(self, only: Sequence[str] | None = None) -> None:
        """Reads the cuts that members have committed since the last scan.

        It takes a listing for each member and a request for each new cut, concurrently; then one
        request for each consumed epoch of a channel.

        Args:
            only: names of members; None is all.
        """
        views = [view for name, view in self._members.items() if only is None or name in only]
        self.store.machinery.each(MemberView.scan, views)
        self._read(views)

    def _read(self, views: Sequence[MemberView]) -> None:
        unread = [(view, epoch) for view in views for epoch in view.unread()]
        self.store.machinery.each(lambda item: item[0].read(item[1]), unread)
        self._check_channels()

    def _check_channels(self) -> None:
        unchecked: dict[tuple[str, int, str], ChannelView] = {}
        new = []
        for view in self._members.values():
            for consumed in (consumed for cut in view.cuts() for consumed in cut.consumed):
                place = self.seen.place(consumed)
                if place not in self._channels:
                    self._channels[place] = ChannelView(self.open_records(place))
                    new.append(self._channels[place])
                channel = self._channels[place]
                if consumed.attempt is not None and not channel.is_checked(
                    consumed.epoch, consumed.attempt
                ):
                    unchecked[place, consumed.epoch, consumed.attempt] = channel
        new += [
            known for known in self._channels.values() if known.owner is None and known not in new
        ]
        self.store.machinery.each(ChannelView.begin, new)
        self.store.machinery.each(
            lambda item: item[1].check(item[0][1], item[0][2]), list(unchecked.items())
        )

    def decide(self) -> Decision:
        """The newest consistent vector of the scan; older cuts are read as required."""
        for _ in range(_LOOKS):
            decision = decide(self.seen)
            views = [self._members[name] for name in decision.wanting]
            if not [view for view in views if view.want_older()]:
                return decision
            self._read(views)
        return decide(self.seen)

    # Making a vector

    def cut(self, timeout_s: float, *, wait: bool = True, force: bool = False) -> VectorRecord:
        """Makes the newest consistent vector; returns the last one if nothing has changed.

        Args:
            timeout_s: maximum time to wait for members to close their epochs. A member that has
                not done so by then contributes an older cut.
            wait: whether to wait until members have closed their epochs. If not, the vector has
                the cuts of the last scan.
            force: whether to write a vector that equals the last one.

        Raises:
            FencedError: CLEANCUT_DATAFLOW_FENCED; nothing was written.
            RequestError: CLEANCUT_DATAFLOW_REFUSED, the dataflow has no members.
            RetryableError: CLEANCUT_DATAFLOW_INCONSISTENT, all attempts have failed.
        """
        if not self._members:
            raise self.store.refused("cut", "it has no members")
        problem = ""
        not_closed: Mapping[str, str] | None = None if wait else {}
        for pause in (*BACKOFF_S, None):
            try:
                self._settle()
                if not_closed is None:
                    not_closed = self.closing.close(timeout_s, self._members, self.scan)
                return self._cut_once(not_closed, force=force)
            except FencedError:
                raise
            except (_TryAgainError, CleancutError, OSError) as error:
                problem = first_line(error)
            if pause is not None:
                self.store.machinery.wait(pause)
                self.scan()
        raise error_of(
            "CLEANCUT_DATAFLOW_INCONSISTENT",
            location=self.store.location,
            tries=len(BACKOFF_S) + 1,
            reason=problem,
        )

    def _cut_once(self, not_closed: Mapping[str, str], *, force: bool) -> VectorRecord:
        decision = self.decide()
        if decision.chosen is None:
            reasons = "; ".join(f"{name}: {why}" for name, why in decision.wanting.items())
            raise _TryAgainError(f"no retained cuts form a consistent vector: {reasons}")
        last = self.entries[-1] if self.entries else None
        if last is not None and not force and self._is_same(last, decision.chosen):
            # A newer coordinator may have deleted it.
            if self.is_followed():
                raise self._followed()
            return last
        if self.term is None:
            raise self._followed()
        self._attempts += 1
        pin = Pin(self._number + 1, self.term.generation, self._attempts, self.flow)
        members = self._member_cuts(decision.chosen, str(pin))
        fresh = [member for member in members if member.pin == str(pin)]
        try:
            # All savepoints exist before the vector is written.
            edges = self._keep(fresh, decision)
            self._check_cuts(fresh)
        except BaseException:
            self._unpin(fresh)
            raise
        record = self._record(members, edges, not_closed)
        self._unsure = record, decision.chosen
        return self._settle() or record

    def _settle(self) -> VectorRecord | None:
        """Writes the decided vector, or finds it written; returns None if there is none."""
        if self._unsure is None or self.term is None:
            return None
        record, chosen = self._unsure
        try:
            append(self.store, self.term, record)
        except FencedError:
            self._unsure = None
            self._unpin(
                [member for member in record.members if member.pin and self._is_own(member.pin)]
            )
            raise
        self._unsure = None
        self._number = record.number
        self.entries.append(record)
        for member in record.members:
            if member.name in self._members:
                self._members[member.name].note_vector(member, chosen[member.name].facts)
        return record

    def _is_own(self, pin: str) -> bool:
        """Whether a savepoint belongs to the vector that is being written."""
        parsed = Pin.parse(pin)
        return parsed is not None and parsed.number == self._number + 1

    def _is_same(self, last: VectorRecord, chosen: Mapping[str, Chosen]) -> bool:
        now = {
            name: "" if choice.facts is None else choice.facts.token
            for name, choice in chosen.items()
        }
        return now == {member.name: member.token for member in last.members}

    def _member_cuts(self, chosen: Mapping[str, Chosen], pin: str) -> list[MemberCut]:
        cuts = []
        for name, choice in sorted(chosen.items()):
            view = self._members[name]
            held, facts = view.held, choice.facts
            is_held = held is not None and facts is not None and held.token == facts.token
            # A cut of the last vector keeps its existing savepoint.
            kept_by = held.pin if is_held and held is not None else pin
            cuts.append(member_cut(view, choice, kept_by, view.lineage()))
        return cuts

    def _keep(self, fresh: Sequence[MemberCut], decision: Decision) -> tuple[EdgeCut, ...]:
        """Creates the savepoints, and checks concurrently whether channels have rolled back.

        A channel records an operation before its sender commits again. So its records, read after
        the sender's cut, include all operations before that cut.

        Returns:
            The edges, with these operations.
        """
        requests: list[Callable[[], None]] = [partial(self._pin, cut) for cut in fresh]
        for place in sorted({cut.channel for cut in decision.edges}):
            channel = self._channels[place]
            channel.trouble = None
            requests += [channel.list_hidden, channel.list_operations]
        self.store.machinery.each(lambda request: request(), requests)
        edges = tuple(with_acts(cut, self.seen) for cut in decision.edges)
        for edge in edges:
            channel = self._channels[edge.channel]
            problem = channel.trouble or channel.problem(edge.consumed, edge.attempt)
            if problem is None and edge.operations and not edge.lineage.counts(edge.consumed):
                problem = f"{edge.sender} was rolled back to before epoch {edge.consumed}"
            if problem is not None:
                raise _TryAgainError(f"channel {edge.channel} has changed: {problem}")
        return edges

    def _pin(self, cut: MemberCut) -> None:
        assert cut.pin is not None
        try:
            self._members[cut.name].pin(cut.epoch, cut.pin)
        except FileNotFoundError as error:
            raise _TryAgainError(
                f"the cut of epoch {cut.epoch} of {cut.name} was deleted"
            ) from error

    def _check_cuts(self, fresh: Sequence[MemberCut]) -> None:
        """Checks that the cuts with new savepoints still exist."""
        views = [self._members[cut.name] for cut in fresh]
        self.store.machinery.each(MemberView.scan, views)
        for cut, view in zip(fresh, views, strict=True):
            if view.trouble is not None:
                raise _TryAgainError(f"{cut.name} cannot be read: {view.trouble}")
            if not view.is_there(cut.epoch):
                raise _TryAgainError(f"the cut of epoch {cut.epoch} of {cut.name} was deleted")

    def _record(
        self,
        members: Sequence[MemberCut],
        edges: tuple[EdgeCut, ...],
        not_closed: Mapping[str, str],
    ) -> VectorRecord:
        assert self.term is not None
        return VectorRecord(
            number=self._number + 1,
            generation=self.term.generation,
            token=self.store.machinery.token(),
            written_ms=self.store.machinery.now_ms(),
            members=tuple(members),
            edges=edges,
            not_closed=not_closed,
        )

    def _unpin(self, fresh: Sequence[MemberCut]) -> None:
        """Drops savepoints that no vector references; failures are left to the next coordinator."""
        for cut in fresh:
            try:
                self.pins.drop(cut.checkpoint, cut.pin or "")
            except (CleancutError, OSError):
                continue

    def _followed(self) -> CleancutError:
        generation = 0 if self.term is None else self.term.generation
        return self.store.fenced(generation, "another coordinator has begun")

    # Expiry

    def expire(
        self, keep: int, since_ms: int | None = None, *, among: Collection[int] | None = None
    ) -> list[VectorRecord]:
        """Deletes all vectors except the last ones, young ones, and those with a name.

        Args:
            keep: number of last vectors to retain, at least 1.
            since_ms: vectors that were written since then are retained too, in Unix time; None if
                age does not count.
            among: the numbers of the vectors that may be deleted; None is all.

        Returns:
            The deleted vectors.

        Raises:
            FencedError: CLEANCUT_DATAFLOW_FENCED.
        """
        assert keep >= 1, "the last vector is always retained"
        if len(self.entries) <= keep:
            return []
        kept = staying(self.entries, self.store.savepoints().values(), keep, since_ms)
        if among is not None:
            kept |= {entry.number for entry in self.entries if entry.number not in among}
        going = [entry for entry in self.entries if entry.number not in kept]
        if not going:
            return []
        if self.is_followed():
            raise self._followed()
        stay = [entry for entry in self.entries if entry.number in kept]
        self.pins.give_up(going, stay)
        self.entries = stay
        return going
