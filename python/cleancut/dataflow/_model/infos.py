"""What a dataflow tells of itself."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from cleancut._brief import Brief
from cleancut._display import graphs, html, tables
from cleancut._display.info_list import InfoList
from cleancut._display.tables import BARS, rank
from cleancut._format.ages import moment
from cleancut.dataflow._model.records import VectorRecord
from cleancut.dataflow._model.vector import NOT_BEGUN


@dataclass(frozen=True, repr=False)
class FlowMember(Brief):
    """A query of a dataflow, or what one of its cuts has of it.

    Attributes:
        name: what it is called.
        epoch: of its cut; None for a query that has not begun. Of a query itself, its last cut.
        written: when that cut was written, in UTC; None likewise.
        newest: the epoch of the last cut that it had when this one was chosen; None likewise.
        why: why that is not the one; for a query itself, why it cannot be looked at. None if
            there is no reason.
        checkpoint: its checkpoint location.
        query_id: Spark's id of the query; None before it is known.
        savepoint: the name by which its checkpoint keeps the cut; None for a query itself.
    """

    name: str
    epoch: int | None
    written: datetime | None
    newest: int | None
    why: str | None
    checkpoint: str = field(metadata=rank(1))
    query_id: str | None = field(default=None, metadata=rank(2))
    savepoint: str | None = field(default=None, metadata=rank(3))


@dataclass(frozen=True, repr=False)
class FlowEdge(Brief):
    """A channel from one member to another, and how far a cut of the dataflow has come on it.

    Attributes:
        sender: the member that sends; None if it is none of the dataflow.
        receiver: the member that reads.
        consumed: the last epoch of the sender that the receiver's cut has consumed; None for none.
        sent: the epoch of the sender's cut; None if that has not begun, or is not known.
        channel: the location of the channel.
        source: the number of the source in the receiver.
    """

    sender: str | None
    receiver: str
    consumed: int | None
    sent: int | None
    channel: str
    source: str = field(default="0", metadata=rank(1))


@dataclass(frozen=True, repr=False)
class FlowInFlight(Brief):
    """What was sent on an edge and not consumed, at a cut of the dataflow.

    Attributes:
        sender: the member that has sent it.
        receiver: the member that reads it after that cut.
        epochs: the epochs of the sender.
        rows: how many there are in them.
        bytes: the size of their files.
        channel: the location of the channel.
        source: the number of the source in the receiver.
    """

    sender: str
    receiver: str
    epochs: tuple[int, ...]
    rows: int
    bytes: int = field(metadata=BARS)
    channel: str
    source: str = field(default="0", metadata=rank(1))


@dataclass(frozen=True, repr=False)
class FlowCut(Brief):
    """A consistent cut of a whole dataflow: a cut of each query, which are kept.

    Attributes:
        number: its own; later ones are greater.
        written: when it was written, in UTC.
        names: of the savepoints that it has.
        epochs: the epoch of each member; None for one that had not begun.
        members: what it has of each.
        edges: how far it has come on each.
        asked: members that were asked to close their epochs and have not, and why.
        generation: of the coordinator that wrote it.
    """

    number: int
    written: datetime
    names: tuple[str, ...]
    epochs: Mapping[str, int | None]
    members: InfoList[FlowMember] = field(metadata={"column": False})
    edges: InfoList[FlowEdge] = field(metadata={"column": False})
    asked: Mapping[str, str] = field(default_factory=dict, metadata={"column": False})
    generation: int = field(default=0, metadata=rank(1))

    def to_dict(self) -> dict[str, Any]:
        """The same as a plain dictionary."""
        return asdict(self)

    def __str__(self) -> str:
        facts: list[tuple[str, object]] = [("cut", str(self.number))]
        facts += [("written", f"{self.written:%Y-%m-%d %H:%M:%S} UTC")]
        facts += [("names", ", ".join(self.names))] if self.names else []
        facts += [(f"{name} was late", why) for name, why in self.asked.items()]
        return f"{tables.text_facts(facts)}\n\n{self.members}\n\n{self.edges}"


@dataclass(frozen=True, repr=False)
class FlowAge(Brief):
    """How old one member was in one cut of a dataflow.

    Attributes:
        number: of the cut.
        written: when it was written, in UTC.
        member: the name of the query.
        epoch: of its cut; None for a query that had not begun.
        behind_ms: how long before the vector that cut had been written; None likewise.
        why: why the member's last cut was not taken; None if it was.
    """

    number: int
    written: datetime
    member: str
    epoch: int | None
    behind_ms: int | None
    why: str | None


@dataclass(frozen=True, repr=False)
class FlowStatus(Brief):
    """Where a dataflow stands.

    Attributes:
        location: of the dataflow.
        generation: of the last coordinator; None before the first.
        runs: whether that has not said that it has ended.
        coordinator: what it has told of itself: host, process, and when it began.
        last: the last cut of the dataflow; None before the first.
        members: each query as it is now.
        edges: how far the last cuts of the queries have come, whether they fit or not.
        next: the epoch of each member in the cut that could be made now; None if there is none.
        why: for each member why it would be older than its last cut; where no cut can be made, why.
        failures: how often the coordinator of this process has failed in a row.
        trouble: why it has, the last time.
    """

    location: str
    generation: int | None
    runs: bool
    coordinator: Mapping[str, Any]
    last: FlowCut | None
    members: InfoList[FlowMember]
    edges: InfoList[FlowEdge]
    next: Mapping[str, int | None] | None
    why: Mapping[str, str]
    failures: int = 0
    trouble: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The same as a plain dictionary."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{tables.text_facts(self._facts())}\n\n{self.members}\n\n{self.edges}"

    def _repr_html_(self) -> str:
        parts = (self._drawn(), self.members._repr_html_(), self.edges._repr_html_())
        return html.facts(self._facts()) + "".join(parts)

    def _drawn(self) -> str:
        nodes = [
            graphs.Node(of.name, _epoch(of.epoch), is_other=of.name in self.why, title=title)
            for of in self.members
            for title in [f"{of.name}, {_epoch(of.epoch)}. {self.why.get(of.name, '')}".rstrip()]
        ]
        known = {of.name for of in self.members}
        told: dict[tuple[str, str], list[str]] = {}
        for of in self.edges:
            if of.sender is not None and {of.sender, of.receiver} <= known:
                text = f"{_number(of.consumed)} of {_number(of.sent)}"
                told.setdefault((of.sender, of.receiver), []).append(text)
        arrows = [graphs.Arrow(*ends, ", ".join(texts)) for ends, texts in told.items()]
        label = f"Queries that send to each other: {', '.join(sorted(known))}"
        caption = (
            "On each arrow, the last epoch that the receiver's last cut has consumed, of the last"
            " that the sender's has sent. A dashed box is kept back."
        )
        return html.wide_figure(graphs.graph(nodes, arrows, label), caption, label)

    def _facts(self) -> list[tuple[str, object]]:
        facts: list[tuple[str, object]] = [("dataflow", self.location)]
        state = "none yet"
        if self.generation is not None:
            where = f"process {self.coordinator.get('process')} on {self.coordinator.get('host')}"
            state = f"generation {self.generation}, {where}{'' if self.runs else ', has ended'}"
        facts += [("coordinator", state)]
        if self.last is not None:
            facts += [
                ("last cut", f"{self.last.number}, written at {tables.cell(self.last.written)}")
            ]
            facts += [(f"{name} was late", why) for name, why in self.last.asked.items()]
        if self.next is None:
            facts += [("next cut", "there is none that is consistent")]
        facts += [(f"{name} is kept back", why) for name, why in sorted(self.why.items())]
        if self.trouble is not None:
            facts += [(f"failed {self.failures} times", self.trouble)]
        return facts


def flow_cut(record: VectorRecord, names: Mapping[str, int]) -> FlowCut:
    """Describes a vector."""
    return FlowCut(
        number=record.number,
        written=moment(record.written_ms),
        names=tuple(sorted(name for name, number in names.items() if number == record.number)),
        epochs={of.name: begun(of.epoch) for of in record.members},
        members=InfoList(
            FlowMember(
                name=of.name,
                epoch=begun(of.epoch),
                written=moment(of.written_ms) if of.token else None,
                newest=begun(of.newest),
                why=of.why,
                checkpoint=of.checkpoint,
                query_id=of.query_id,
                savepoint=of.pin,
            )
            for of in record.members
        ),
        edges=InfoList(
            FlowEdge(
                sender=of.sender,
                receiver=of.receiver,
                consumed=begun(of.consumed),
                sent=None if of.sent is None else begun(of.sent),
                channel=of.channel,
                source=of.source,
            )
            for of in record.edges
        ),
        asked=dict(record.asked),
        generation=record.generation,
    )


def ages(record: VectorRecord) -> list[FlowAge]:
    """How old each member is in a vector."""
    return [
        FlowAge(
            number=record.number,
            written=moment(record.written_ms),
            member=of.name,
            epoch=begun(of.epoch),
            behind_ms=record.written_ms - of.written_ms if of.token else None,
            why=of.why,
        )
        for of in record.members
    ]


def _epoch(epoch: int | None) -> str:
    return "not begun" if epoch is None else f"epoch {epoch}"


def _number(epoch: int | None) -> str:
    return "none" if epoch is None else str(epoch)


def begun(epoch: int) -> int | None:
    """An epoch; None for that of a query that has not begun."""
    return None if epoch == NOT_BEGUN else epoch
