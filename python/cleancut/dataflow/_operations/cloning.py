"""Makes another dataflow of a cut: a checkpoint of each query, and what was in flight."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from cleancut.dataflow._cuts.channels import ChannelView, FlyingEpoch, flying
from cleancut.dataflow._model import names
from cleancut.dataflow._model.facts import place_of
from cleancut.dataflow._model.infos import begun
from cleancut.dataflow._model.records import EdgeCut, MemberCut, MemberRecord, VectorRecord
from cleancut.dataflow._model.vector import NOT_BEGUN
from cleancut.dataflow._operations.acts import (
    ChannelChange,
    DataflowPlan,
    MemberChange,
    check_current,
)
from cleancut.dataflow._operations.member_plans import MemberPlan, MemberPlans
from cleancut.dataflow._store.members import looked_at
from cleancut.dataflow._store.places import Places
from cleancut.dataflow._store.store import FlowStore
from cleancut.errors import CleancutError
from cleancut.sinks._epoch_log.manifest import Owner, claim_for, owner_of
from cleancut.sinks._epoch_log.names import manifest_name

# Plans to make a checkpoint of a savepoint of another one, in an empty location.
Clone = Callable[[str, str, str], MemberPlan]


@dataclass(frozen=True)
class Cloning:
    """Makes a dataflow beside another one, under identities of its own.

    Attributes:
        store: of the dataflow.
        places: where checkpoints and channels are.
        record: the cut that is cloned.
        into: the new dataflow.
        members: the checkpoint of each member there, by name.
        channels: where each channel is to be, by where it is.
        clone: plans to make one checkpoint.
        allows_missing_input: whether to do it although input files are missing.
    """

    store: FlowStore
    places: Places
    record: VectorRecord
    into: FlowStore
    members: Mapping[str, str]
    channels: Mapping[str, str]
    clone: Clone
    allows_missing_input: bool = False

    def plan(self) -> DataflowPlan:
        """What is to be done; nothing is changed.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_REFUSED, a member or a channel has no new place, or its
                new place is taken.
        """
        plan = self._planned(self._edges())
        return replace(plan, notes=(*plan.notes, *self._member_plans(plan).notes()))

    def _member_plans(self, plan: DataflowPlan) -> MemberPlans:
        """Leaves out checkpoints that an interrupted attempt has completed."""
        planned: dict[str, Callable[[], MemberPlan]] = {}
        for act in plan.members:
            cut = self.record.member(act.member)
            if act.operation == "clone" and cut is not None and self._made(act) is None:
                assert cut.pin is not None
                planned[act.member] = partial(self.clone, cut.checkpoint, act.checkpoint, cut.pin)
        return MemberPlans(planned, self.allows_missing_input)

    def _planned(self, edges: Mapping[str, list[EdgeCut]]) -> DataflowPlan:
        wanted = {of.name for of in self.record.members}
        lacking = sorted(wanted - set(self.members)) + sorted(set(edges) - set(self.channels))
        strange = sorted(set(self.members) - wanted)
        strange += [of for of in sorted(set(self.channels) - set(edges)) if self._is_others(of)]
        for what, found in (("have no new place", lacking), ("are no part of it", strange)):
            if found:
                raise self._refused(f"{', '.join(found)} {what}")
        new = [place_of(of) for of in (*self.members.values(), *self.channels.values())]
        old = {place_of(of.checkpoint) for of in self.record.members} | set(edges)
        if len(set(new)) < len(new) or set(new) & old:
            raise self._refused("two of the places are the same")
        return DataflowPlan(
            operation="clone",
            location=self.store.location,
            number=self.record.number,
            members=tuple(map(self._member, self.record.members)),
            channels=tuple(self._channel(place, of) for place, of in edges.items()),
            target=self.into.location,
            notes=(
                "Start the queries with the new checkpoint locations and the new channels; what "
                "else they write to is theirs alone to keep apart.",
            ),
            _do=lambda planned, _: self._done(planned),
        )

    def _edges(self) -> dict[str, list[EdgeCut]]:
        """The edges between members, by their channels, and those that nobody has read yet."""
        found: dict[str, list[EdgeCut]] = {}
        for of in self.record.edges:
            if of.sender is not None:
                found.setdefault(of.channel, []).append(of)
        # Whatever a query reads that has not begun, it reads from the beginning.
        are_begun = all(of.epoch != NOT_BEGUN for of in self.record.members)
        for place in set(self.channels) - (set(found) if are_begun else set()):
            unread = self._unread(place)
            if unread is not None:
                found.setdefault(place, []).append(unread)
        return dict(sorted(found.items()))

    def _unread(self, place: str) -> EdgeCut | None:
        """What a member has sent into a channel that no cut here has begun to read."""
        view = ChannelView(self.places.records(place))
        view.begin()
        if view.trouble is not None:
            raise self._refused(f"{place} cannot be read: {view.trouble}")
        owner = view.owner
        for of in self.record.members:
            # Of one that had not begun, the cut does not know the id.
            if owner is not None and (
                of.query_id == owner.query_id
                or place_of(of.checkpoint) == place_of(owner.checkpoint)
            ):
                acts = tuple(sorted({*of.acts, *view.acts}))
                return EdgeCut(place, of.name, "", "", NOT_BEGUN, None, of.epoch, acts)
        return None

    def _is_others(self, place: str) -> bool:
        """Whether somebody else sends there; where nobody has sent yet, there is no edge."""
        return owner_of(self.places.records(place)) is not None

    def _member(self, of: MemberCut) -> MemberChange:
        act = "add" if of.epoch < 0 else "clone"
        return MemberChange(of.name, begun(of.epoch), begun(of.epoch), act, self.members[of.name])

    def _channel(self, place: str, edges: list[EdgeCut]) -> ChannelChange:
        sender = edges[0].sender
        assert sender is not None
        epochs = tuple(sorted({of.epoch for edge in edges for of in self._copied(edge)}))
        return ChannelChange(sender, None, epochs, self.channels[place])

    def _copied(self, edge: EdgeCut) -> list[FlyingEpoch]:
        """What is in flight, and the epoch before it: what comes next says that it follows it."""
        records = self.places.records(edge.channel)
        return flying(records, replace(edge, consumed=edge.consumed - 1))

    def _done(self, planned: DataflowPlan) -> DataflowPlan:
        edges = self._edges()
        plan = self._planned(edges)
        check_current(planned, plan)
        plans = self._member_plans(plan).checked(self._refused)
        self.into.flow_id(create=True)
        for of_member in plans:
            of_member.apply()
        for place, of_channel in edges.items():
            self._copy(place, of_channel)
            self.into.move(place, self.channels[place])
        # The last to come: who finds the dataflow finds it whole.
        for of in plan.members:
            record = MemberRecord(of.member, of.checkpoint, self.store.machinery.now_ms())
            if not self.into.create(names.member_name(of.member), record.encode()):
                there = self.into.members().get(of.member, record)
                if there.checkpoint != of.checkpoint:
                    raise self._refused(f"{of.member} has the checkpoint {there.checkpoint} there")
        return plan

    def _made(self, of: MemberChange) -> str | None:
        """The id of the query whose checkpoint was made; None if it was not."""
        record = MemberRecord(of.member, of.checkpoint, 0)
        cuts = looked_at(record, self.places.root, self.store.machinery, cuts=1).cuts()
        return cuts[-1].query_id if cuts else None

    def _copy(self, place: str, edges: list[EdgeCut]) -> None:
        sender = self.record.member(edges[0].sender or "")
        assert sender is not None
        act = self._member(sender)
        query_id = self._made(act)
        if query_id is None:
            # It has sent nothing, and whoever is first is its owner.
            return
        records, into = self.places.records(place), self.places.records(self.channels[place])
        if not claim_for(into, Owner(query_id, act.checkpoint)):
            raise self._refused(f"{into.location} is the channel of another query")
        copied: dict[int, FlyingEpoch] = {}
        for edge in edges:
            copied.update((of.epoch, of) for of in self._copied(edge))
        for epoch in sorted(copied):
            of = copied[epoch]
            # Files first: an epoch is published by its manifest. Those of the epoch before what is
            # in flight may be gone: its readers have them.
            self.store.machinery.each(
                lambda file: records.copy(file.name, file.bytes, into), of.manifest.files
            )
            manifest = replace(of.manifest, query_id=query_id)
            into.create(manifest_name(epoch), manifest.encode())

    def _refused(self, reason: str) -> CleancutError:
        return self.store.refused("clone", reason)
