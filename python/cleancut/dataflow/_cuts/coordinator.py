"""Makes vectors: looks, decides, keeps the cuts, looks again, and writes the vector.

The order is the whole of it. The cuts are kept by savepoints before the vector says so, and looked
for once more after that: a query sweeps cuts first and looks for savepoints afterwards, so what is
still there then stays. The vector comes last. Whatever ends in between leaves savepoints that no
vector names, and the next coordinator removes them.
"""

import os
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from cleancut.dataflow._cuts.channels import ChannelView
from cleancut.dataflow._cuts.closing import Closing
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
from cleancut.dataflow._store.store import FlowStore
from cleancut.errors import CleancutError, FencedError, error_of, first_line
from cleancut.sinks._epoch_log.records import Records

OpenRecords = Callable[[str], Records]

# How long it waits before it tries again, in seconds.
BACKOFF_S = (0.2, 1.0, 5.0)
_LOOKS = 50


class _TryAgainError(Exception):
    """The vector could not be written as it was decided."""


@dataclass
class Coordinator:
    """Makes the vectors of one dataflow, as long as nobody follows it; for one thread.

    Attributes:
        store: of the dataflow.
        open_root: finds the checkpoint of a member.
        open_records: finds a channel.
        told: what others are told of this coordinator, beside host and process.
        term: its right to write vectors.
        flow: the id of the dataflow.
        entries: all vectors that count and are kept, ascending.
    """

    store: FlowStore
    open_root: OpenRoot
    open_records: OpenRecords
    told: Mapping[str, object] = field(default_factory=dict)
    term: Term | None = None
    flow: str = ""
    entries: list[VectorRecord] = field(default_factory=list)
    _members: dict[str, MemberView] = field(default_factory=dict)
    _channels: dict[str, ChannelView] = field(default_factory=dict)
    _moved: Mapping[str, str] = field(default_factory=dict)
    _signs: object = None
    # The last number that the log has, all of them taken by this coordinator since it began.
    _number: int = 0
    _attempts: int = 0
    # Nobody knows whether it is there. No other entry may be written before that is settled: who
    # left a number out could step over the entry by which another coordinator has begun.
    _unsure: tuple[VectorRecord, Mapping[str, Chosen]] | None = None

    def __post_init__(self) -> None:
        self.pins = Pins(self.store, self.open_root)
        self.closing = Closing(self.store)

    # Beginning and ending

    def begin(self) -> None:
        """Takes the dataflow, removes what others have left half done, and looks around.

        Raises:
            FencedError: CLEANCUT_DATAFLOW_FENCED.
        """
        self.flow = self.store.flow_id()
        here = {"host": socket.gethostname(), "process": os.getpid()}
        self.term = take(self.store, {**here, **self.told})
        self._number = self.term.number
        self._read_members()
        places = [of.record.checkpoint for of in self._members.values()]
        entries = self.pins.clean(self.term, self.flow, places)
        forget_coordinators(self.store, self.term, entries)
        self.entries = self.pins.counted(entries)
        self._hold_last()
        self.look()

    def end(self) -> None:
        """Says that it has ended."""
        if self.term is not None:
            end(self.store, self.term)
            self.term = None

    def _hold_last(self) -> None:
        """What the last vector has is kept by it, and may be in the next one."""
        if not self.entries:
            return
        for cut in self.entries[-1].members:
            view = self._members.get(cut.name)
            if view is not None and view.record.checkpoint == cut.checkpoint and cut.pin:
                view.held = cut
                view.root = view.root or self.pins.root(cut.checkpoint)
        self.store.machinery.each(MemberView.read_held, self._members.values())

    # Looking

    def look_around(self) -> None:
        """Looks without having begun; nothing can be written then.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND.
        """
        self.flow = self.store.flow_id()
        self._read_members()
        self.look()
        self.decide()

    @property
    def seen(self) -> Seen:
        """What has been seen last."""
        return Seen(self._members, self._channels, self._moved)

    def is_followed(self) -> bool:
        """Whether another coordinator has taken the dataflow; one listing."""
        listed = self.store.objects.list(names.COORDINATORS)
        return self.term is None or names.generations(listed)[0] > self.term.generation

    def poll(self) -> None:
        """Reads what has changed since the last time; a vector can be made of it at once.

        Raises:
            FencedError: CLEANCUT_DATAFLOW_FENCED.
        """
        if self.is_followed():
            raise self._followed()
        self._read_members()
        self.look()

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

    def look(self, only: Sequence[str] | None = None) -> None:
        """Reads what members have committed since the last look.

        A listing for each member, and a request for each new cut, all beside each other; then one
        for what each has consumed of a channel.

        Args:
            only: these members; None is all.
        """
        views = [of for name, of in self._members.items() if only is None or name in only]
        self.store.machinery.each(MemberView.look, views)
        self._read(views)

    def _read(self, views: Sequence[MemberView]) -> None:
        unread = [(view, epoch) for view in views for epoch in view.unread()]
        self.store.machinery.each(lambda of: of[0].read(of[1]), unread)
        self._check_channels()

    def _check_channels(self) -> None:
        unchecked: dict[tuple[str, int, str], ChannelView] = {}
        new = []
        for view in self._members.values():
            for of in (consumed for cut in view.cuts() for consumed in cut.consumed):
                place = self.seen.place(of)
                if place not in self._channels:
                    self._channels[place] = ChannelView(self.open_records(place))
                    new.append(self._channels[place])
                channel = self._channels[place]
                if of.attempt is not None and not channel.is_checked(of.epoch, of.attempt):
                    unchecked[place, of.epoch, of.attempt] = channel
        new += [of for of in self._channels.values() if of.owner is None and of not in new]
        self.store.machinery.each(ChannelView.begin, new)
        self.store.machinery.each(
            lambda of: of[1].check(of[0][1], of[0][2]), list(unchecked.items())
        )

    def decide(self) -> Decision:
        """The newest consistent vector of what was seen; reads older cuts where it takes them."""
        for _ in range(_LOOKS):
            decision = decide(self.seen)
            views = [self._members[name] for name in decision.wanting]
            if not [view for view in views if view.want_older()]:
                return decision
            self._read(views)
        return decide(self.seen)

    # Making a vector

    def cut(self, timeout_s: float, *, wait: bool = True, anew: bool = False) -> VectorRecord:
        """Makes the newest consistent vector, and gives it; the last one if that has not changed.

        Args:
            timeout_s: how long members that close their epochs are waited for. Who has not done so
                then has an older cut in it.
            wait: whether to wait until members have closed their epochs. If not, the vector has
                what the last poll has seen.
            anew: whether one is written that is the same as the last.

        Raises:
            FencedError: CLEANCUT_DATAFLOW_FENCED; nothing was written.
            RequestError: CLEANCUT_DATAFLOW_REFUSED, it has no members.
            RetryableError: CLEANCUT_DATAFLOW_INCONSISTENT, it was tried as often as it may be.
        """
        if not self._members:
            raise self.store.refused("cut", "it has no members")
        problem = ""
        asked: Mapping[str, str] | None = None if wait else {}
        for pause in (*BACKOFF_S, None):
            try:
                self._settle()
                if asked is None:
                    asked = self.closing.close(timeout_s, self._members, self.look)
                return self._cut_once(asked, anew=anew)
            except FencedError:
                raise
            except (_TryAgainError, CleancutError, OSError) as error:
                problem = first_line(error)
            if pause is not None:
                self.store.machinery.wait(pause)
                self.look()
        raise error_of(
            "CLEANCUT_DATAFLOW_INCONSISTENT",
            location=self.store.location,
            tries=len(BACKOFF_S) + 1,
            reason=problem,
        )

    def _cut_once(self, asked: Mapping[str, str], *, anew: bool) -> VectorRecord:
        decision = self.decide()
        if decision.chosen is None:
            told = "; ".join(f"{name}: {why}" for name, why in decision.wanting.items())
            raise _TryAgainError(f"there is no consistent vector of the cuts that are kept: {told}")
        last = self.entries[-1] if self.entries else None
        if last is not None and not anew and self._is_same(last, decision.chosen):
            # Whoever has followed may have given it up.
            if self.is_followed():
                raise self._followed()
            return last
        if self.term is None:
            raise self._followed()
        self._attempts += 1
        pin = Pin(self._number + 1, self.term.generation, self._attempts, self.flow)
        members = self._member_cuts(decision.chosen, str(pin))
        fresh = [of for of in members if of.pin == str(pin)]
        try:
            # All savepoints are there before anything says so.
            edges = self._keep(fresh, decision)
            self._look_again(fresh)
        except BaseException:
            self._unpin(fresh)
            raise
        record = self._record(members, edges, asked)
        self._unsure = record, decision.chosen
        return self._settle() or record

    def _settle(self) -> VectorRecord | None:
        """Writes the vector that is decided, or finds it written; None if there is none."""
        if self._unsure is None or self.term is None:
            return None
        record, chosen = self._unsure
        try:
            append(self.store, self.term, record)
        except FencedError:
            self._unsure = None
            self._unpin([of for of in record.members if of.pin and self._is_own(of.pin)])
            raise
        self._unsure = None
        self._number = record.number
        self.entries.append(record)
        for of in record.members:
            if of.name in self._members:
                self._members[of.name].note_vector(of, chosen[of.name].facts)
        return record

    def _is_own(self, pin: str) -> bool:
        """Whether a savepoint was made for the vector that is being written."""
        found = Pin.parse(pin)
        return found is not None and found.number == self._number + 1

    def _is_same(self, last: VectorRecord, chosen: Mapping[str, Chosen]) -> bool:
        now = {name: "" if of.facts is None else of.facts.token for name, of in chosen.items()}
        return now == {of.name: of.token for of in last.members}

    def _member_cuts(self, chosen: Mapping[str, Chosen], pin: str) -> list[MemberCut]:
        found = []
        for name, of in sorted(chosen.items()):
            view = self._members[name]
            held, facts = view.held, of.facts
            is_held = held is not None and facts is not None and held.token == facts.token
            # What the last vector has stays kept by the savepoint that there is.
            kept_by = held.pin if is_held and held is not None else pin
            found.append(member_cut(view, of, kept_by, view.lineage()))
        return found

    def _keep(self, fresh: Sequence[MemberCut], decision: Decision) -> tuple[EdgeCut, ...]:
        """Makes the savepoints, and looks beside that whether channels have gone back.

        A channel goes back by an act before its sender commits again. So what it has noted by now,
        after the sender's cut was seen, tells of all acts that lie behind that cut.

        Returns:
            The edges, with these acts.
        """
        requests: list[Callable[[], None]] = [partial(self._pin, of) for of in fresh]
        for place in sorted({of.channel for of in decision.edges}):
            channel = self._channels[place]
            channel.trouble = None
            requests += [channel.look_back, channel.look_for_acts]
        self.store.machinery.each(lambda request: request(), requests)
        edges = tuple(with_acts(of, self.seen) for of in decision.edges)
        for edge in edges:
            channel = self._channels[edge.channel]
            problem = channel.trouble or channel.problem(edge.consumed, edge.attempt)
            if problem is None and edge.acts and not edge.lineage.counts(edge.consumed):
                problem = f"{edge.sender} has gone back behind epoch {edge.consumed}"
            if problem is not None:
                raise _TryAgainError(f"channel {edge.channel} has changed: {problem}")
        return edges

    def _pin(self, cut: MemberCut) -> None:
        assert cut.pin is not None
        try:
            self._members[cut.name].pin(cut.epoch, cut.pin)
        except FileNotFoundError as error:
            raise _TryAgainError(f"the cut of epoch {cut.epoch} of {cut.name} was swept") from error

    def _look_again(self, fresh: Sequence[MemberCut]) -> None:
        """Whether the cuts that are kept now are there still."""
        views = [self._members[of.name] for of in fresh]
        self.store.machinery.each(MemberView.look, views)
        for of, view in zip(fresh, views, strict=True):
            if view.trouble is not None:
                raise _TryAgainError(f"{of.name} cannot be looked at: {view.trouble}")
            if not view.is_there(of.epoch):
                raise _TryAgainError(f"the cut of epoch {of.epoch} of {of.name} was swept")

    def _record(
        self, members: Sequence[MemberCut], edges: tuple[EdgeCut, ...], asked: Mapping[str, str]
    ) -> VectorRecord:
        assert self.term is not None
        return VectorRecord(
            number=self._number + 1,
            generation=self.term.generation,
            token=self.store.machinery.token(),
            written_ms=self.store.machinery.now_ms(),
            members=tuple(members),
            edges=edges,
            asked=asked,
        )

    def _unpin(self, fresh: Sequence[MemberCut]) -> None:
        """Takes back what no vector names; what fails is left to the next coordinator."""
        for of in fresh:
            try:
                self.pins.drop(of.checkpoint, of.pin or "")
            except (CleancutError, OSError):
                continue

    def _followed(self) -> CleancutError:
        generation = 0 if self.term is None else self.term.generation
        return self.store.fenced(generation, "another coordinator has begun")

    # Giving up

    def expire(
        self, keep: int, since_ms: int | None = None, *, among: Collection[int] | None = None
    ) -> list[VectorRecord]:
        """Gives up all vectors but the last ones, young ones, and those that have a name.

        Args:
            keep: how many of the last stay; from 1 on.
            since_ms: those that were written since then stay, too, in Unix time; None is none.
            among: the numbers of the vectors that may be given up; None is all.

        Returns:
            What was given up.

        Raises:
            FencedError: CLEANCUT_DATAFLOW_FENCED.
        """
        assert keep >= 1, "the last vector always stays"
        if len(self.entries) <= keep:
            return []
        kept = staying(self.entries, self.store.savepoints().values(), keep, since_ms)
        if among is not None:
            kept |= {of.number for of in self.entries if of.number not in among}
        going = [of for of in self.entries if of.number not in kept]
        if not going:
            return []
        if self.is_followed():
            raise self._followed()
        stay = [of for of in self.entries if of.number in kept]
        self.pins.give_up(going, stay)
        self.entries = stay
        return going
