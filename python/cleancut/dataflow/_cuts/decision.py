"""Decides which vector to write, from the results of a scan; pure functions."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cleancut.dataflow._cuts.channels import ChannelView
from cleancut.dataflow._model.facts import Consumed, CutFacts, Lineage, place_of
from cleancut.dataflow._model.records import EdgeCut, MemberCut
from cleancut.dataflow._model.vector import NOT_BEGUN, Candidate, Received, newest
from cleancut.dataflow._store.members import MemberView


@dataclass(frozen=True)
class Seen:
    """The results of a scan of all members and channels.

    Attributes:
        members: the members, by name.
        channels: the channels, by location.
        moved: new locations of channels that have moved since offsets named them.
    """

    members: Mapping[str, MemberView]
    channels: Mapping[str, ChannelView]
    moved: Mapping[str, str]

    def senders(self) -> Mapping[str, str]:
        """The member that sends into each channel, if there is one."""
        ids: dict[str, str] = {}
        places: dict[str, str] = {}
        for name, view in self.members.items():
            cuts = view.cuts()
            ids.update((cut.query_id, name) for cut in cuts if cut.query_id is not None)
            if not cuts:
                # A sender without a cut is found by the checkpoint of its owner record.
                places[place_of(view.record.checkpoint)] = name
        senders = {}
        for place, channel in self.channels.items():
            if channel.owner is not None:
                sender = ids.get(channel.owner.query_id)
                senders[place] = sender or places.get(place_of(channel.owner.checkpoint))
        return {place: sender for place, sender in senders.items() if sender is not None}

    def place(self, consumed: Consumed) -> str:
        """The location of the channel that a source reads."""
        place = consumed.channel
        for _ in self.moved:
            place = self.moved.get(place, place)
        return place


@dataclass(frozen=True)
class Chosen:
    """The part of a member in a vector.

    Attributes:
        facts: its cut; None if the query has not started.
        why: the reason why it is not the last cut.
    """

    facts: CutFacts | None
    why: str | None


@dataclass(frozen=True)
class Decision:
    """The vector to write, or the reason why there is none.

    Attributes:
        chosen: the part of each member; None if there is no consistent vector.
        edges: the edges of that vector.
        wanting: if there is none, the members whose older cuts are required, with the reason.
    """

    chosen: Mapping[str, Chosen] | None
    edges: tuple[EdgeCut, ...]
    wanting: Mapping[str, str]


def decide(seen: Seen) -> Decision:
    """The newest consistent vector of a scan."""
    senders = seen.senders()
    lineages = {name: view.lineage() for name, view in seen.members.items()}
    cuts = {name: view.cuts() for name, view in seen.members.items()}
    usable: dict[str, list[CutFacts]] = {}
    unusable: dict[str, dict[int, str]] = {}
    history: dict[str, list[Candidate]] = {}
    for name, view in seen.members.items():
        wrong = {cut.epoch: _wrong_with(cut, seen, senders, lineages) for cut in cuts[name]}
        usable[name] = [cut for cut in cuts[name] if wrong[cut.epoch] is None]
        unusable[name] = {epoch: why for epoch, why in wrong.items() if why is not None}
        history[name] = [_candidate(cut, seen, senders) for cut in usable[name]]
        if not view.has_begun and view.trouble is None:
            history[name] = [Candidate(NOT_BEGUN)]
    empty = {
        name: _none(seen.members[name], unusable[name])
        for name, candidates in history.items()
        if not candidates
    }
    if empty:
        return Decision(None, (), empty)
    outcome = newest(history)
    if outcome.vector is None:
        return Decision(None, (), {name: str(why) for name, why in outcome.exhausted.items()})
    chosen = {}
    for name, epoch in outcome.vector.items():
        facts = next((cut for cut in usable[name] if cut.epoch == epoch), None)
        ahead = outcome.why.get(name)
        why = None if ahead is None else str(ahead)
        chosen[name] = Chosen(facts, _reason(seen.members[name], epoch, unusable[name], why))
    return Decision(chosen, tuple(_edges(chosen, seen, senders)), {})


def _candidate(cut: CutFacts, seen: Seen, senders: Mapping[str, str]) -> Candidate:
    received = []
    for consumed in cut.consumed:
        place = seen.place(consumed)
        received.append(Received(consumed.source, place, senders.get(place), consumed.epoch))
    return Candidate(cut.epoch, tuple(received))


def _wrong_with(
    cut: CutFacts, seen: Seen, senders: Mapping[str, str], lineages: Mapping[str, Lineage]
) -> str | None:
    """The reason why a cut cannot be used in any vector."""
    for consumed in cut.consumed:
        place = seen.place(consumed)
        channel, sender = seen.channels.get(place), senders.get(place)
        problem = None if channel is None else channel.problem(consumed.epoch, consumed.attempt)
        operations = () if channel is None else channel.operations
        if sender is not None and not lineages[sender].also(operations).counts(consumed.epoch):
            problem = f"{sender} was rolled back to before epoch {consumed.epoch}"
        if problem is not None:
            return f"epoch {cut.epoch} has consumed an invalid epoch of {place}: {problem}"
    return None


def _none(view: MemberView, unusable: Mapping[int, str]) -> str:
    if unusable:
        return unusable[max(unusable)]
    if view.trouble is not None:
        return view.trouble
    return "none of its cuts can be read" if view.damaged else "it has no cut"


def _reason(
    view: MemberView, epoch: int, unusable: Mapping[int, str], ahead: str | None
) -> str | None:
    """The reason why a vector has no later cut of a member; None if it has the last one."""
    if epoch >= view.newest:
        return view.trouble
    newer = [number for number in unusable if number > epoch]
    damaged = [number for number in view.damaged if number > epoch]
    if ahead is not None:
        return ahead
    if newer:
        return unusable[min(newer)]
    if damaged:
        return view.damaged[min(damaged)]
    return view.trouble or "later cuts have not been read yet"


def _edges(chosen: Mapping[str, Chosen], seen: Seen, senders: Mapping[str, str]) -> list[EdgeCut]:
    edges = []
    for name, choice in sorted(chosen.items()):
        for consumed in () if choice.facts is None else choice.facts.consumed:
            place = seen.place(consumed)
            sender = senders.get(place)
            sent = None
            if sender is not None:
                facts = chosen[sender].facts
                sent = NOT_BEGUN if facts is None else facts.epoch
            edge = EdgeCut(
                channel=place,
                sender=sender,
                receiver=name,
                source=consumed.source,
                consumed=consumed.epoch,
                attempt=consumed.attempt,
                sent=sent,
            )
            edges.append(with_acts(edge, seen))
    return edges


def with_acts(edge: EdgeCut, seen: Seen) -> EdgeCut:
    """An edge with the operations on its sender that are known now."""
    if edge.sender is None or edge.sent is None:
        return edge
    lineage = seen.members[edge.sender].lineage().also(seen.channels[edge.channel].operations)
    return replace(edge, operations=lineage.at(edge.sent).operations)


def member_cut(view: MemberView, chosen: Chosen, pin: str | None, lineage: Lineage) -> MemberCut:
    """The part of a member in a vector, for its record."""
    facts = chosen.facts
    if facts is None:
        return MemberCut(
            name=view.name,
            checkpoint=view.record.checkpoint,
            query_id=None,
            epoch=NOT_BEGUN,
            token="",
            written_ms=0,
            pin=None,
            newest=view.newest,
            why=chosen.why,
        )
    return MemberCut(
        name=view.name,
        checkpoint=view.record.checkpoint,
        query_id=facts.query_id,
        epoch=facts.epoch,
        token=facts.token,
        written_ms=facts.written_ms,
        pin=pin,
        newest=max(view.newest, facts.epoch),
        why=chosen.why,
        operations=lineage.at(facts.epoch).operations,
    )
