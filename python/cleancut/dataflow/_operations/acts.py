"""Operations on a dataflow: a plan, and its execution."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from cleancut._brief import Brief, plain
from cleancut._checkpoint.replicate.replicas import fence
from cleancut._checkpoint.retain.expiry import owner_alive
from cleancut._display import tables
from cleancut.dataflow._model.facts import place_of
from cleancut.dataflow._model.infos import begun
from cleancut.dataflow._model.records import EdgeCut, MemberCut, MemberRecord, VectorRecord
from cleancut.dataflow._operations.member_plans import MemberPlan, MemberPlans
from cleancut.dataflow._store.members import MemberView
from cleancut.dataflow._store.places import Places
from cleancut.dataflow._store.store import FlowStore, refused
from cleancut.errors import CleancutError, error_of
from cleancut.sinks._core.query_side import Act
from cleancut.sinks._epoch_log.retention import published_epochs
from cleancut.sinks._epoch_log.rollback import follow

_READ = 64


# Plans to roll a query back to a savepoint of its checkpoint.
RollBack = Callable[[str, str], MemberPlan]


@dataclass(frozen=True, repr=False)
class MemberChange(Brief):
    """What an operation on a dataflow does to one member.

    Attributes:
        member: name of the member.
        epoch: epoch of its last cut; None if it has not started.
        target_epoch: epoch whose state it will have; None if it had not started.
        operation: "rollback", "clone", "stays" if it has that state already, or "add".
        checkpoint: the checkpoint that is changed or created.
    """

    member: str
    epoch: int | None
    target_epoch: int | None
    operation: str
    checkpoint: str


@dataclass(frozen=True, repr=False)
class ChannelChange(Brief):
    """What an operation on a dataflow does to one channel.

    Attributes:
        sender: the member that writes.
        after: the epoch after which published epochs become hidden; None for a clone.
        epochs: the epochs that become hidden, or are copied.
        channel: the channel that is changed or created.
    """

    sender: str
    after: int | None
    epochs: tuple[int, ...]
    channel: str


@dataclass(frozen=True, repr=False)
class DataflowPlan(Brief):
    """What an operation on a dataflow will do, or has done. Nothing has changed until `apply`.

    Attributes:
        operation: "rollback" or "clone".
        location: location of the dataflow.
        number: number of the cut.
        members: the change of each member.
        channels: the change of each channel.
        running: the members that have not recorded their end, and what is known of their drivers.
        target: location of the dataflow that a clone creates; None for a rollback.
        notes: what to know before the plan is applied.
        is_applied: whether the plan has been applied.
    """

    operation: str
    location: str
    number: int
    members: tuple[MemberChange, ...]
    channels: tuple[ChannelChange, ...]
    running: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    notes: tuple[str, ...] = ()
    is_applied: bool = False
    _do: Callable[["DataflowPlan", str | None], "DataflowPlan"] | None = field(
        default=None, compare=False
    )

    def apply(self, *, fence: str | None = None) -> "DataflowPlan":
        """Executes the plan. After a kill at any moment, plan and apply it again; it continues.

        It changes nothing if the dataflow has changed since the plan was made, except for epochs
        that members in `running` have committed.

        Args:
            fence: if members have not recorded their end, the reason to fence them: those that run
                stop with CLEANCUT_FENCED and this text.

        Returns:
            The plan as it was executed.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_REFUSED, members run, or the plan has been applied;
                CLEANCUT_PLAN_OUTDATED, a query or a channel has changed since the plan was made;
                CLEANCUT_OPERATION_REFUSED, a checkpoint refuses.
            FencedError: CLEANCUT_DATAFLOW_FENCED.
        """
        if self.is_applied or self._do is None:
            raise refused(self.location, self.operation, "this plan has been carried out")
        if self.running and fence is None:
            told = "; ".join(f"{name}: {who}" for name, who in sorted(self.running.items()))
            reason = f"members have not recorded their end (stop them, or fence them): {told}"
            raise refused(self.location, self.operation, reason)
        return replace(self._do(self, fence), is_applied=True, _do=None)

    def to_dict(self) -> Mapping[str, Any]:
        """The plan as plain values, for JSON."""
        return plain(self)

    def __str__(self) -> str:
        what = f"{self.operation} of {self.location}"
        to = f", cut {self.number}, to {self.target}" if self.target else f" to cut {self.number}"
        lines = [f"{what}{to}"]
        rows = [
            [one.member, one.operation, one.epoch, one.target_epoch, one.checkpoint]
            for one in self.members
        ]
        names = ["member", "operation", "epoch", "target_epoch", "checkpoint"]
        lines.append(tables.text_table(names, rows))
        if self.channels:
            done = "copied" if self.target else "hidden"
            hidden = [[of.channel, of.sender, of.after, len(of.epochs)] for of in self.channels]
            lines.append(tables.text_table(["channel", "sender", "after", done], hidden))
        lines += [f"{name} may run: {who}" for name, who in sorted(self.running.items())]
        lines += [*self.notes, *([] if self.is_applied else ["Nothing has changed yet."])]
        return "\n".join(lines)


def check_current(planned: DataflowPlan, now: DataflowPlan) -> None:
    """Compares a plan with the same one made now.

    Raises:
        RequestError: CLEANCUT_PLAN_OUTDATED.
    """
    before = {of.member: of for of in planned.members}
    changes = [
        f"{of.member} had {_epoch(before[of.member].epoch)}, and has {_epoch(of.epoch)} now"
        for of in now.members
        if of != before[of.member] and of.member not in planned.running
    ]
    changes += [f"{name} runs now" for name in sorted(set(now.running) - set(planned.running))]
    changes += [
        f"other epochs of {of.channel} are in question"
        for of in now.channels
        if of not in planned.channels and of.sender not in planned.running
    ]
    if changes:
        target = f" {planned.target}" if planned.target else ""
        raise error_of(
            "CLEANCUT_PLAN_OUTDATED",
            operation=planned.operation,
            location=planned.location,
            reason="; ".join(changes),
            command=f"cleancut dataflow {planned.location} {planned.operation}{target}",
        )


def _epoch(last: int | None) -> str:
    return "not started" if last is None else f"epoch {last}"


@dataclass(frozen=True)
class Restoring:
    """Has all queries of a dataflow go back to one of its cuts.

    Attributes:
        store: of the dataflow.
        places: where checkpoints and channels are.
        record: the cut.
        roll_back: plans to roll one query back.
        coordinating: does something while no other coordinator makes cuts.
        allows_missing_input: whether to do it although input files are missing.
    """

    store: FlowStore
    places: Places
    record: VectorRecord
    roll_back: RollBack
    coordinating: Callable[[Callable[[], DataflowPlan]], DataflowPlan]
    allows_missing_input: bool = False

    def plan(self) -> DataflowPlan:
        """What is to be done; nothing is changed.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_REFUSED, a member cannot go back.
        """
        plan = self._planned()
        return replace(plan, notes=(*plan.notes, *self._member_plans(plan).notes()))

    def _planned(self) -> DataflowPlan:
        """The plan without the plans of its members."""
        members = self.store.members()
        views = {of.name: self._view(of) for of in self.record.members}
        for of in self.record.members:
            there = members.get(of.name)
            if there is not None and place_of(there.checkpoint) != place_of(of.checkpoint):
                reason = f"{of.name} has another checkpoint by now, {there.checkpoint}"
                raise self.store.refused("rollback", reason)
            if of.epoch < 0 <= views[of.name].newest:
                reason = (
                    f"{of.name} had not begun at that cut, and has by now; start it with a new "
                    "checkpoint location, and add it anew"
                )
                raise self.store.refused("rollback", reason)
        acts = tuple(self._act(of, views[of.name]) for of in self.record.members)
        going = {of.member for of in acts if of.operation == "rollback"}
        new = sorted(set(members) - {of.name for of in self.record.members})
        notes = (f"{', '.join(new)} came after that cut, and stays as it is.",) if new else ()
        return DataflowPlan(
            operation="rollback",
            location=self.store.location,
            number=self.record.number,
            members=acts,
            channels=tuple(self._hidden(of) for of in self._channels(going)),
            running=self._running(going),
            notes=notes,
            _do=self._do,
        )

    def _view(self, of: MemberCut) -> MemberView:
        view = MemberView(MemberRecord(of.name, of.checkpoint, 0), self.places.root, _wanted=_READ)
        view.held = of if of.pin else None
        view.look()
        if view.trouble is not None:
            raise self.store.refused("rollback", f"{of.name}: {view.trouble}")
        self.store.machinery.each(view.read, view.unread())
        view.read_held()
        return view

    def _act(self, of: MemberCut, view: MemberView) -> MemberChange:
        act = "stays" if of.epoch < 0 or _is_there(of, view) else "rollback"
        return MemberChange(of.name, begun(view.newest), begun(of.epoch), act, of.checkpoint)

    def _channels(self, going: set[str]) -> list[EdgeCut]:
        """The edges of senders that go back, one for each channel."""
        edges = {of.channel: of for of in self.record.edges if of.sender in going}
        return [edges[channel] for channel in sorted(edges)]

    def _hidden(self, edge: EdgeCut) -> ChannelChange:
        assert edge.sender is not None
        assert edge.sent is not None
        found = published_epochs(self.places.records(edge.channel), after=edge.sent)
        epochs = tuple(of.epoch for of in found)
        return ChannelChange(edge.sender, edge.sent, epochs, edge.channel)

    def _running(self, going: set[str]) -> Mapping[str, str]:
        found = {}
        for of in self.record.members:
            alive = owner_alive(self.places.root(of.checkpoint)) if of.name in going else None
            if alive is not None:
                found[of.name] = alive
        return found

    def _do(self, planned: DataflowPlan, why: str | None) -> DataflowPlan:
        return self.coordinating(lambda: self._done(planned, why))

    def _member_plans(self, plan: DataflowPlan) -> MemberPlans:
        planned: dict[str, Callable[[], MemberPlan]] = {}
        for act in plan.members:
            cut = self.record.member(act.member)
            if act.operation == "rollback" and cut is not None and cut.pin is not None:
                planned[act.member] = partial(self.roll_back, cut.checkpoint, cut.pin)
        return MemberPlans(planned, self.allows_missing_input)

    def _done(self, planned: DataflowPlan, why: str | None) -> DataflowPlan:
        plan = self._planned()
        check_current(planned, plan)
        member_plans = self._member_plans(plan)
        # A refusal must not fence a query.
        plans = member_plans.checked(self._refused)
        if why is not None and plan.running:
            for name in plan.running:
                cut = self.record.member(name)
                assert cut is not None
                fence(self.places.root(cut.checkpoint), why)
            # A query may have committed an epoch before it was fenced.
            plans = member_plans.checked(self._refused)
        for of_member in plans:
            of_member.apply()
        # Also of those that an earlier try has had go back, and died before it came here.
        for edge in self._channels({of.name for of in self.record.members}):
            self._follow(edge)
        return plan

    def _refused(self, reason: str) -> CleancutError:
        return self.store.refused("rollback", reason)

    def _follow(self, edge: EdgeCut) -> None:
        """Has a channel go back with its sender, as that would when it runs the next time."""
        cut = None if edge.sender is None else self.record.member(edge.sender)
        if cut is not None and cut.epoch >= 0:
            acts = [Act(*act) for act in self._view(cut).lineage().acts]
            if acts:
                follow(self.places.records(edge.channel), _Side(acts))


@dataclass(frozen=True)
class _Side:
    """Implements `Acted` for a query that does not run."""

    done: Sequence[Act]

    def acts(self, after: int) -> Sequence[Act]:
        return [of for of in self.done if of.epoch > after]


def _is_there(of: MemberCut, view: MemberView) -> bool:
    """Whether a query has the state of a cut: that is its last one, or it went back to it."""
    cuts = view.cuts()
    last = cuts[-1] if cuts else None
    if last is None or last.epoch < view.newest:
        return False
    return last.token == of.token or last.source == of.epoch
