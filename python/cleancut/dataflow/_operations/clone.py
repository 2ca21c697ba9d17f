"""Clones a dataflow from a cut: a checkpoint of each query, and the in-flight epochs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from cleancut.dataflow._cuts.channels import ChannelView, InFlightEpoch, in_flight_epochs
from cleancut.dataflow._model import names
from cleancut.dataflow._model.facts import place_of
from cleancut.dataflow._model.infos import begun
from cleancut.dataflow._model.records import EdgeCut, MemberCut, MemberRecord, VectorRecord
from cleancut.dataflow._model.vector import NOT_BEGUN
from cleancut.dataflow._operations.member_plans import MemberPlan, MemberPlans
from cleancut.dataflow._operations.rollback import (
    ChannelChange,
    DataflowPlan,
    MemberChange,
    check_current,
)
from cleancut.dataflow._store.members import scan_member
from cleancut.dataflow._store.places import Places
from cleancut.dataflow._store.store import DataflowStore
from cleancut.errors import CleancutError
from cleancut.sinks._epoch_log.manifest import Owner, claim_for, owner_of
from cleancut.sinks._epoch_log.names import manifest_name

# Plans to create a checkpoint from a savepoint of another one, in an empty location.
Clone = Callable[[str, str, str], MemberPlan]


@dataclass(frozen=True)
class DataflowClone:
    """Creates a dataflow from a cut of another one, with new identities.

    Attributes:
        store: store of the dataflow.
        places: opens checkpoints and channels.
        record: the cloned cut.
        into: the new dataflow.
        members: the new checkpoint of each member, by name.
        channels: the new location of each channel, by its location.
        clone: plans to create one checkpoint.
        allows_missing_input: whether missing input files are accepted.
    """

    store: DataflowStore
    places: Places
    record: VectorRecord
    into: DataflowStore
    members: Mapping[str, str]
    channels: Mapping[str, str]
    clone: Clone
    allows_missing_input: bool = False

    def plan(self) -> DataflowPlan:
        """Plans the operation; nothing is changed.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_REFUSED, a member or a channel has no new location, or
                its new location is not empty.
        """
        plan = self._planned(self._edges())
        return replace(plan, notes=(*plan.notes, *self._member_plans(plan).notes()))

    def _member_plans(self, plan: DataflowPlan) -> MemberPlans:
        """Leaves out checkpoints that an interrupted attempt has completed."""
        planned: dict[str, Callable[[], MemberPlan]] = {}
        for operation in plan.members:
            cut = self.record.member(operation.member)
            if operation.operation == "clone" and cut is not None and self._made(operation) is None:
                assert cut.pin is not None
                planned[operation.member] = partial(
                    self.clone, cut.checkpoint, operation.checkpoint, cut.pin
                )
        return MemberPlans(planned, self.allows_missing_input)

    def _planned(self, edges: Mapping[str, list[EdgeCut]]) -> DataflowPlan:
        wanted = {cut.name for cut in self.record.members}
        lacking = sorted(wanted - set(self.members)) + sorted(set(edges) - set(self.channels))
        strange = sorted(set(self.members) - wanted)
        strange += [
            place for place in sorted(set(self.channels) - set(edges)) if self._is_others(place)
        ]
        for what, wrong in (("have no new location", lacking), ("are no part of it", strange)):
            if wrong:
                raise self._refused(f"{', '.join(wrong)} {what}")
        new = [place_of(location) for location in (*self.members.values(), *self.channels.values())]
        old = {place_of(cut.checkpoint) for cut in self.record.members} | set(edges)
        if len(set(new)) < len(new) or set(new) & old:
            raise self._refused("two of the locations are equal")
        return DataflowPlan(
            operation="clone",
            location=self.store.location,
            number=self.record.number,
            members=tuple(map(self._member, self.record.members)),
            channels=tuple(self._channel(place, item) for place, item in edges.items()),
            target=self.into.location,
            notes=(
                "Start the queries with the new checkpoint locations and the new channels. Their "
                "other sinks are not cloned; configure separate targets.",
            ),
            _do=lambda planned, _: self._done(planned),
        )

    def _edges(self) -> dict[str, list[EdgeCut]]:
        """The edges between members, by channel, and channels that no member has read yet."""
        edges: dict[str, list[EdgeCut]] = {}
        for edge in self.record.edges:
            if edge.sender is not None:
                edges.setdefault(edge.channel, []).append(edge)
        # A query that has not started reads from the beginning of each channel.
        are_begun = all(cut.epoch != NOT_BEGUN for cut in self.record.members)
        for place in set(self.channels) - (set(edges) if are_begun else set()):
            unread = self._unread(place)
            if unread is not None:
                edges.setdefault(place, []).append(unread)
        return dict(sorted(edges.items()))

    def _unread(self, place: str) -> EdgeCut | None:
        """The edge of a channel that no cut here has read, if a member sends there."""
        view = ChannelView(self.places.records(place))
        view.begin()
        if view.trouble is not None:
            raise self._refused(f"{place} cannot be read: {view.trouble}")
        owner = view.owner
        for cut in self.record.members:
            # The cut of a query that had not started does not have its id.
            if owner is not None and (
                cut.query_id == owner.query_id
                or place_of(cut.checkpoint) == place_of(owner.checkpoint)
            ):
                operations = tuple(sorted({*cut.operations, *view.operations}))
                return EdgeCut(place, cut.name, "", "", NOT_BEGUN, None, cut.epoch, operations)
        return None

    def _is_others(self, place: str) -> bool:
        """Whether a query outside the dataflow sends there; without a sender there is no edge."""
        return owner_of(self.places.records(place)) is not None

    def _member(self, cut: MemberCut) -> MemberChange:
        operation = "add" if cut.epoch < 0 else "clone"
        return MemberChange(
            cut.name, begun(cut.epoch), begun(cut.epoch), operation, self.members[cut.name]
        )

    def _channel(self, place: str, edges: list[EdgeCut]) -> ChannelChange:
        sender = edges[0].sender
        assert sender is not None
        epochs = tuple(
            sorted({in_flight.epoch for edge in edges for in_flight in self._copied(edge)})
        )
        return ChannelChange(sender, None, epochs, self.channels[place])

    def _copied(self, edge: EdgeCut) -> list[InFlightEpoch]:
        """The in-flight epochs and the one before them, which the first of them references."""
        records = self.places.records(edge.channel)
        return in_flight_epochs(records, replace(edge, consumed=edge.consumed - 1))

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
        # The members last, so that a dataflow that exists is complete.
        for change in plan.members:
            record = MemberRecord(change.member, change.checkpoint, self.store.machinery.now_ms())
            if not self.into.create(names.member_name(change.member), record.encode()):
                there = self.into.members().get(change.member, record)
                if there.checkpoint != change.checkpoint:
                    raise self._refused(
                        f"{change.member} has the checkpoint {there.checkpoint} there"
                    )
        return plan

    def _made(self, change: MemberChange) -> str | None:
        """The id of the query whose checkpoint was created; None if it was not."""
        record = MemberRecord(change.member, change.checkpoint, 0)
        cuts = scan_member(record, self.places.root, self.store.machinery, cuts=1).cuts()
        return cuts[-1].query_id if cuts else None

    def _copy(self, place: str, edges: list[EdgeCut]) -> None:
        sender = self.record.member(edges[0].sender or "")
        assert sender is not None
        operation = self._member(sender)
        query_id = self._made(operation)
        if query_id is None:
            # It has no epochs, and its first sender becomes the owner.
            return
        records, into = self.places.records(place), self.places.records(self.channels[place])
        if not claim_for(into, Owner(query_id, operation.checkpoint)):
            raise self._refused(f"{into.location} is the channel of another query")
        copied: dict[int, InFlightEpoch] = {}
        for edge in edges:
            copied.update((in_flight.epoch, in_flight) for in_flight in self._copied(edge))
        for epoch in sorted(copied):
            in_flight = copied[epoch]
            # Files first: the manifest publishes an epoch. Files of the epoch before the in-flight
            # epochs may have expired: its readers have read them.
            self.store.machinery.each(
                lambda file: records.copy(file.name, file.bytes, into), in_flight.manifest.files
            )
            manifest = replace(in_flight.manifest, query_id=query_id)
            into.create(manifest_name(epoch), manifest.encode())

    def _refused(self, reason: str) -> CleancutError:
        return self.store.refused("clone", reason)
