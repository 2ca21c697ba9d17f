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
from cleancut.dataflow._store.store import DataflowStore, refused
from cleancut.errors import CleancutError, error_of
from cleancut.sinks._core.query_side import Operation
from cleancut.sinks._epoch_log.retention import published_epochs
from cleancut.sinks._epoch_log.rollback import follow

_READ = 64


# Plans to roll a query back to a savepoint of its checkpoint.
RollBack = Callable[[str, str], MemberPlan]


@dataclass(frozen=True, repr=False)
class MemberChange(Brief):
    """The effect of an operation on one member of a dataflow.

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
    """The effect of an operation on one channel of a dataflow.

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
    """The plan of an operation on a dataflow, or its result. Nothing has changed until `apply`.

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
            RequestError: CLEANCUT_DATAFLOW_REFUSED, members run, or the plan was applied before;
                CLEANCUT_PLAN_OUTDATED, a query or a channel has changed since the plan was made;
                CLEANCUT_OPERATION_REFUSED, a checkpoint refuses.
            FencedError: CLEANCUT_DATAFLOW_FENCED.
        """
        if self.is_applied or self._do is None:
            raise refused(self.location, self.operation, "this plan has been applied before")
        if self.running and fence is None:
            drivers = "; ".join(f"{name}: {who}" for name, who in sorted(self.running.items()))
            reason = f"members have not recorded their end (stop them, or fence them): {drivers}"
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
        lines.append(tables.fitted(names, rows))
        if self.channels:
            done = "copied" if self.target else "hidden"
            hidden = [
                [change.sender, change.after, len(change.epochs), change.channel]
                for change in self.channels
            ]
            lines.append(tables.fitted(["sender", "after", done, "channel"], hidden))
        lines += [f"{name} may run: {who}" for name, who in sorted(self.running.items())]
        lines += [*self.notes, *([] if self.is_applied else ["Nothing has changed yet."])]
        return "\n".join(lines)


def check_current(planned: DataflowPlan, now: DataflowPlan) -> None:
    """Compares a plan with the same one made now.

    Raises:
        RequestError: CLEANCUT_PLAN_OUTDATED.
    """
    before = {change.member: change for change in planned.members}
    changes = [
        f"{change.member} had {_epoch(before[change.member].epoch)}, and has "
        f"{_epoch(change.epoch)} now"
        for change in now.members
        if change != before[change.member] and change.member not in planned.running
    ]
    changes += [f"{name} runs now" for name in sorted(set(now.running) - set(planned.running))]
    changes += [
        f"the epochs of {change.channel} have changed"
        for change in now.channels
        if change not in planned.channels and change.sender not in planned.running
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
class DataflowRollback:
    """Rolls all queries of a dataflow back to one of its cuts.

    Attributes:
        store: store of the dataflow.
        places: opens checkpoints and channels.
        record: the cut.
        roll_back: plans to roll one query back.
        coordinating: runs a function while no other coordinator makes cuts.
        allows_missing_input: whether missing input files are accepted.
    """

    store: DataflowStore
    places: Places
    record: VectorRecord
    roll_back: RollBack
    coordinating: Callable[[Callable[[], DataflowPlan]], DataflowPlan]
    allows_missing_input: bool = False

    def plan(self) -> DataflowPlan:
        """Plans the operation; nothing is changed.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_REFUSED, a member cannot be rolled back.
        """
        plan = self._planned()
        return replace(plan, notes=(*plan.notes, *self._member_plans(plan).notes()))

    def _planned(self) -> DataflowPlan:
        """The plan without the plans of its members."""
        members = self.store.members()
        views = {cut.name: self._view(cut) for cut in self.record.members}
        for cut in self.record.members:
            there = members.get(cut.name)
            if there is not None and place_of(there.checkpoint) != place_of(cut.checkpoint):
                reason = f"{cut.name} has another checkpoint now, {there.checkpoint}"
                raise self.store.refused("rollback", reason)
            if cut.epoch < 0 <= views[cut.name].newest:
                reason = (
                    f"{cut.name} had not started at that cut, and has since; start it with a new "
                    "checkpoint location, and add it again"
                )
                raise self.store.refused("rollback", reason)
        changes = tuple(self._change(cut, views[cut.name]) for cut in self.record.members)
        going = {change.member for change in changes if change.operation == "rollback"}
        new = sorted(set(members) - {cut.name for cut in self.record.members})
        notes = (f"{', '.join(new)} was added after that cut, and is not changed.",) if new else ()
        return DataflowPlan(
            operation="rollback",
            location=self.store.location,
            number=self.record.number,
            members=changes,
            channels=tuple(self._hidden(edge) for edge in self._channels(going)),
            running=self._running(going),
            notes=notes,
            _do=self._do,
        )

    def _view(self, cut: MemberCut) -> MemberView:
        view = MemberView(
            MemberRecord(cut.name, cut.checkpoint, 0), self.places.root, _wanted=_READ
        )
        view.held = cut if cut.pin else None
        view.scan()
        if view.trouble is not None:
            raise self.store.refused("rollback", f"{cut.name}: {view.trouble}")
        self.store.machinery.each(view.read, view.unread())
        view.read_held()
        return view

    def _change(self, cut: MemberCut, view: MemberView) -> MemberChange:
        operation = "stays" if cut.epoch < 0 or _is_there(cut, view) else "rollback"
        return MemberChange(
            cut.name, begun(view.newest), begun(cut.epoch), operation, cut.checkpoint
        )

    def _channels(self, going: set[str]) -> list[EdgeCut]:
        """The edges of senders that are rolled back, one for each channel."""
        edges = {edge.channel: edge for edge in self.record.edges if edge.sender in going}
        return [edges[channel] for channel in sorted(edges)]

    def _hidden(self, edge: EdgeCut) -> ChannelChange:
        assert edge.sender is not None
        assert edge.sent is not None
        published = published_epochs(self.places.records(edge.channel), after=edge.sent)
        epochs = tuple(manifest.epoch for manifest in published)
        return ChannelChange(edge.sender, edge.sent, epochs, edge.channel)

    def _running(self, going: set[str]) -> Mapping[str, str]:
        running = {}
        for cut in self.record.members:
            alive = owner_alive(self.places.root(cut.checkpoint)) if cut.name in going else None
            if alive is not None:
                running[cut.name] = alive
        return running

    def _do(self, planned: DataflowPlan, why: str | None) -> DataflowPlan:
        return self.coordinating(lambda: self._done(planned, why))

    def _member_plans(self, plan: DataflowPlan) -> MemberPlans:
        planned: dict[str, Callable[[], MemberPlan]] = {}
        for operation in plan.members:
            cut = self.record.member(operation.member)
            if operation.operation == "rollback" and cut is not None and cut.pin is not None:
                planned[operation.member] = partial(self.roll_back, cut.checkpoint, cut.pin)
        return MemberPlans(planned, self.allows_missing_input)

    def _done(self, planned: DataflowPlan, why: str | None) -> DataflowPlan:
        plan = self._planned()
        check_current(planned, plan)
        member_plans = self._member_plans(plan)
        # Checked first: a refusal must not fence a query.
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
        # Includes senders that an interrupted attempt has rolled back.
        for edge in self._channels({cut.name for cut in self.record.members}):
            self._follow(edge)
        return plan

    def _refused(self, reason: str) -> CleancutError:
        return self.store.refused("rollback", reason)

    def _follow(self, edge: EdgeCut) -> None:
        """Hides epochs of a channel after a rollback of its sender, as its next run would."""
        cut = None if edge.sender is None else self.record.member(edge.sender)
        if cut is not None and cut.epoch >= 0:
            operations = [
                Operation(*operation) for operation in self._view(cut).lineage().operations
            ]
            if operations:
                follow(self.places.records(edge.channel), _Side(operations))


@dataclass(frozen=True)
class _Side:
    """Implements `OperationSource` for a stopped query."""

    done: Sequence[Operation]

    def operations(self, after: int) -> Sequence[Operation]:
        return [operation for operation in self.done if operation.epoch > after]


def _is_there(cut: MemberCut, view: MemberView) -> bool:
    """Whether a query has the state of a cut: as its last cut, or by a rollback to it."""
    cuts = view.cuts()
    last = cuts[-1] if cuts else None
    if last is None or last.epoch < view.newest:
        return False
    return last.token == cut.token or last.source == cut.epoch
