"""From what has been seen to the vector that is to be written; no store is asked."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cleancut.dataflow._cuts.channels import ChannelView
from cleancut.dataflow._model.facts import Consumed, CutFacts, Lineage, place_of
from cleancut.dataflow._model.records import EdgeCut, MemberCut
from cleancut.dataflow._model.vector import NOT_BEGUN, Candidate, Received, newest
from cleancut.dataflow._store.members import MemberView


@dataclass(frozen=True)
class Seen:
    """What has been seen of all members and channels.

    Attributes:
        members: by name.
        channels: by location.
        moved: the channels that lie elsewhere than offsets say.
    """

    members: Mapping[str, MemberView]
    channels: Mapping[str, ChannelView]
    moved: Mapping[str, str]

    def senders(self) -> Mapping[str, str]:
        """The member that sends into each channel, where one does."""
        ids: dict[str, str] = {}
        places: dict[str, str] = {}
        for name, view in self.members.items():
            cuts = view.cuts()
            ids.update((of.query_id, name) for of in cuts if of.query_id is not None)
            if not cuts:
                # What it has published before its first cut tells of its checkpoint, too.
                places[place_of(view.record.checkpoint)] = name
        found = {}
        for place, channel in self.channels.items():
            if channel.owner is not None:
                sender = ids.get(channel.owner.query_id)
                found[place] = sender or places.get(place_of(channel.owner.checkpoint))
        return {place: sender for place, sender in found.items() if sender is not None}

    def place(self, of: Consumed) -> str:
        """Where the channel is that a source reads."""
        place = of.channel
        for _ in self.moved:
            place = self.moved.get(place, place)
        return place


@dataclass(frozen=True)
class Chosen:
    """What a vector is to have of a member.

    Attributes:
        facts: of its cut; None where it has not begun.
        why: why it is not the last one.
    """

    facts: CutFacts | None
    why: str | None


@dataclass(frozen=True)
class Decision:
    """The vector that is to be written, or why there is none.

    Attributes:
        chosen: by member; None where there is no consistent vector.
        edges: of that vector.
        wanting: where there is none, the members whose older cuts are wanted, and why.
    """

    chosen: Mapping[str, Chosen] | None
    edges: tuple[EdgeCut, ...]
    wanting: Mapping[str, str]


def decide(seen: Seen) -> Decision:
    """The newest consistent vector of what has been seen."""
    senders = seen.senders()
    lineages = {name: view.lineage() for name, view in seen.members.items()}
    cuts = {name: view.cuts() for name, view in seen.members.items()}
    usable: dict[str, list[CutFacts]] = {}
    unusable: dict[str, dict[int, str]] = {}
    history: dict[str, list[Candidate]] = {}
    for name, view in seen.members.items():
        wrong = {of.epoch: _wrong_with(of, seen, senders, lineages) for of in cuts[name]}
        usable[name] = [of for of in cuts[name] if wrong[of.epoch] is None]
        unusable[name] = {epoch: why for epoch, why in wrong.items() if why is not None}
        history[name] = [_candidate(of, seen, senders) for of in usable[name]]
        if not view.has_begun and view.trouble is None:
            history[name] = [Candidate(NOT_BEGUN)]
    empty = {
        name: _none(seen.members[name], unusable[name]) for name, of in history.items() if not of
    }
    if empty:
        return Decision(None, (), empty)
    found = newest(history)
    if found.vector is None:
        return Decision(None, (), {name: str(why) for name, why in found.exhausted.items()})
    chosen = {}
    for name, epoch in found.vector.items():
        facts = next((of for of in usable[name] if of.epoch == epoch), None)
        ahead = found.why.get(name)
        why = None if ahead is None else str(ahead)
        chosen[name] = Chosen(facts, _reason(seen.members[name], epoch, unusable[name], why))
    return Decision(chosen, tuple(_edges(chosen, seen, senders)), {})


def _candidate(cut: CutFacts, seen: Seen, senders: Mapping[str, str]) -> Candidate:
    received = []
    for of in cut.consumed:
        place = seen.place(of)
        received.append(Received(of.source, place, senders.get(place), of.epoch))
    return Candidate(cut.epoch, tuple(received))


def _wrong_with(
    cut: CutFacts, seen: Seen, senders: Mapping[str, str], lineages: Mapping[str, Lineage]
) -> str | None:
    """Why a cut cannot be used, whatever the others are."""
    for of in cut.consumed:
        place = seen.place(of)
        channel, sender = seen.channels.get(place), senders.get(place)
        problem = None if channel is None else channel.problem(of.epoch, of.attempt)
        acts = () if channel is None else channel.acts
        if sender is not None and not lineages[sender].also(acts).counts(of.epoch):
            problem = f"{sender} has gone back behind epoch {of.epoch}"
        if problem is not None:
            return f"epoch {cut.epoch} has consumed of {place} what does not count: {problem}"
    return None


def _none(view: MemberView, unusable: Mapping[int, str]) -> str:
    if unusable:
        return unusable[max(unusable)]
    if view.trouble is not None:
        return view.trouble
    return "none of its cuts can be read" if view.damaged else "no cut of it is there"


def _reason(
    view: MemberView, epoch: int, unusable: Mapping[int, str], ahead: str | None
) -> str | None:
    """Why a vector has no later cut of a member; None if it has the last one."""
    if epoch >= view.newest:
        return view.trouble
    newer = [of for of in unusable if of > epoch]
    damaged = [of for of in view.damaged if of > epoch]
    if ahead is not None:
        return ahead
    if newer:
        return unusable[min(newer)]
    if damaged:
        return view.damaged[min(damaged)]
    return view.trouble or "later cuts have not been read yet"


def _edges(chosen: Mapping[str, Chosen], seen: Seen, senders: Mapping[str, str]) -> list[EdgeCut]:
    found = []
    for name, of in sorted(chosen.items()):
        for consumed in () if of.facts is None else of.facts.consumed:
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
            found.append(with_acts(edge, seen))
    return found


def with_acts(edge: EdgeCut, seen: Seen) -> EdgeCut:
    """An edge with the acts on its sender that are known by now."""
    if edge.sender is None or edge.sent is None:
        return edge
    lineage = seen.members[edge.sender].lineage().also(seen.channels[edge.channel].acts)
    return replace(edge, acts=lineage.at(edge.sent).acts)


def member_cut(view: MemberView, chosen: Chosen, pin: str | None, lineage: Lineage) -> MemberCut:
    """What the vector has of a member."""
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
        acts=lineage.at(facts.epoch).acts,
    )
