"""Descriptions of a dataflow, its members and its cuts."""

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
class DataflowMember(Brief):
    """A query of a dataflow, now or in a cut of the dataflow.

    Attributes:
        name: name of the member.
        epoch: epoch of its cut, or of its last cut now; None for a query that has not started.
        written: time at which that cut was written, in UTC; None for a query that has not started.
        newest: epoch of its last cut when the cut of the dataflow was made; None for a query that
            has not started.
        reason: why that is not the chosen one, or now, why the member cannot be read; None if
            there is no reason.
        checkpoint: its checkpoint location.
        query_id: Spark's query id; None before it is known.
        savepoint: the savepoint of the cut in its checkpoint; None now.
    """

    name: str
    epoch: int | None
    written: datetime | None
    newest: int | None
    reason: str | None
    checkpoint: str = field(metadata=rank(1))
    query_id: str | None = field(default=None, metadata=rank(2))
    savepoint: str | None = field(default=None, metadata=rank(3))


@dataclass(frozen=True, repr=False)
class DataflowEdge(Brief):
    """A channel from one member to another, at a cut of the dataflow or now.

    Attributes:
        sender: the member that writes; None if no member does.
        receiver: the member that reads.
        consumed: last epoch of the sender that the receiver's cut has consumed; None for none.
        sent: epoch of the sender's cut; None if it has not started, or is unknown.
        channel: location of the channel.
        source: number of the source in the receiver.
    """

    sender: str | None
    receiver: str
    consumed: int | None
    sent: int | None
    channel: str
    source: str = field(default="0", metadata=rank(1))


@dataclass(frozen=True, repr=False)
class DataflowInFlight(Brief):
    """The epochs on an edge at a cut of the dataflow that are sent and not consumed.

    Attributes:
        sender: the member that wrote it.
        receiver: the member that reads it after that cut.
        epochs: the epochs of the sender.
        rows: number of rows in these epochs.
        bytes: size of their files.
        channel: location of the channel.
        source: number of the source in the receiver.
    """

    sender: str
    receiver: str
    epochs: tuple[int, ...]
    rows: int
    bytes: int = field(metadata=BARS)
    channel: str
    source: str = field(default="0", metadata=rank(1))


@dataclass(frozen=True, repr=False)
class DataflowCut(Brief):
    """A consistent cut of a dataflow: a retained cut of each query.

    Attributes:
        number: number of the cut; later cuts have greater numbers.
        written: time at which it was written, in UTC.
        names: names of its savepoints.
        epochs: the epoch of each member; None for one that had not started.
        members: the cut of each member.
        edges: the state of each edge.
        not_closed: members that did not close their epoch in time, with the reason.
        generation: generation of the coordinator that wrote it.
    """

    number: int
    written: datetime
    names: tuple[str, ...]
    epochs: Mapping[str, int | None]
    members: InfoList[DataflowMember] = field(metadata={"column": False})
    edges: InfoList[DataflowEdge] = field(metadata={"column": False})
    not_closed: Mapping[str, str] = field(default_factory=dict, metadata={"column": False})
    generation: int = field(default=0, metadata=rank(1))

    def to_dict(self) -> dict[str, Any]:
        """The description as a plain dictionary."""
        return asdict(self)

    def __str__(self) -> str:
        facts: list[tuple[str, object]] = [("cut", str(self.number))]
        facts += [("written", f"{self.written:%Y-%m-%d %H:%M:%S} UTC")]
        facts += [("names", ", ".join(self.names))] if self.names else []
        facts += [(f"{name} did not close", reason) for name, reason in self.not_closed.items()]
        return f"{tables.text_facts(facts)}\n\n{self.members}\n\n{self.edges}"


@dataclass(frozen=True, repr=False)
class MemberAge(Brief):
    """The age of one member in one cut of a dataflow.

    Attributes:
        number: number of the cut.
        written: time at which it was written, in UTC.
        member: name of the member.
        epoch: epoch of its cut; None for a query that had not started.
        lag_ms: milliseconds from that cut to the cut of the dataflow; None for a query that had
            not started.
        reason: why the member's last cut was not chosen; None if it was.
    """

    number: int
    written: datetime
    member: str
    epoch: int | None
    lag_ms: int | None
    reason: str | None


@dataclass(frozen=True, repr=False)
class DataflowStatus(Brief):
    """The status of a dataflow.

    Attributes:
        location: location of the dataflow.
        generation: generation of the last coordinator; None before the first.
        is_running: whether that coordinator has not recorded its end.
        coordinator: its record: host, process, and start time.
        last: the last cut of the dataflow; None before the first.
        members: each query now.
        edges: the state of each edge at the last cuts of the queries, consistent or not.
        next: the epoch of each member in the cut that could be made now; None if there is none.
        reasons: for each member, why that cut would not have its last one; if no cut can be made,
            why.
        failures: number of consecutive failures of the coordinator of this process.
        last_error: the last of them.
    """

    location: str
    generation: int | None
    is_running: bool
    coordinator: Mapping[str, Any]
    last: DataflowCut | None
    members: InfoList[DataflowMember]
    edges: InfoList[DataflowEdge]
    next: Mapping[str, int | None] | None
    reasons: Mapping[str, str]
    failures: int = 0
    last_error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The description as a plain dictionary."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{tables.text_facts(self._facts())}\n\n{self.members}\n\n{self.edges}"

    def _repr_html_(self) -> str:
        parts = (self._drawn(), self.members._repr_html_(), self.edges._repr_html_())
        return html.facts(self._facts()) + "".join(parts)

    def _drawn(self) -> str:
        nodes = [
            graphs.Node(
                member.name, _epoch(member.epoch), is_other=member.name in self.reasons, title=title
            )
            for member in self.members
            for title in [
                f"{member.name}, {_epoch(member.epoch)}. "
                f"{self.reasons.get(member.name, '')}".rstrip()
            ]
        ]
        known = {member.name for member in self.members}
        texts_of_ends: dict[tuple[str, str], list[str]] = {}
        for edge in self.edges:
            if edge.sender is not None and {edge.sender, edge.receiver} <= known:
                text = f"{_number(edge.consumed)} of {_number(edge.sent)}"
                texts_of_ends.setdefault((edge.sender, edge.receiver), []).append(text)
        arrows = [graphs.Arrow(*ends, ", ".join(texts)) for ends, texts in texts_of_ends.items()]
        label = f"Queries connected by channels: {', '.join(sorted(known))}"
        caption = (
            "On each arrow, the last epoch that the receiver's last cut has consumed, of the last"
            " epoch that the sender's last cut has sent. A dashed box is held back."
        )
        return html.wide_figure(graphs.graph(nodes, arrows, label), caption, label)

    def _facts(self) -> list[tuple[str, object]]:
        facts: list[tuple[str, object]] = [("dataflow", self.location)]
        state = "none yet"
        if self.generation is not None:
            where = f"process {self.coordinator.get('process')} on {self.coordinator.get('host')}"
            state = (
                f"generation {self.generation}, {where}{'' if self.is_running else ', has ended'}"
            )
        facts += [("coordinator", state)]
        if self.last is not None:
            facts += [
                ("last cut", f"{self.last.number}, written at {tables.cell(self.last.written)}")
            ]
            closing = self.last.not_closed
            facts += [(f"{name} did not close", reason) for name, reason in closing.items()]
        if self.next is None:
            facts += [("next cut", "there is none that is consistent")]
        facts += [(f"{name} is held back", reason) for name, reason in sorted(self.reasons.items())]
        if self.last_error is not None:
            facts += [(f"failed {self.failures} times", self.last_error)]
        return facts


def flow_cut(record: VectorRecord, names: Mapping[str, int]) -> DataflowCut:
    """Describes a cut of a dataflow."""
    return DataflowCut(
        number=record.number,
        written=moment(record.written_ms),
        names=tuple(sorted(name for name, number in names.items() if number == record.number)),
        epochs={item.name: begun(item.epoch) for item in record.members},
        members=InfoList(
            DataflowMember(
                name=item.name,
                epoch=begun(item.epoch),
                written=moment(item.written_ms) if item.token else None,
                newest=begun(item.newest),
                reason=item.why,
                checkpoint=item.checkpoint,
                query_id=item.query_id,
                savepoint=item.pin,
            )
            for item in record.members
        ),
        edges=InfoList(
            DataflowEdge(
                sender=item.sender,
                receiver=item.receiver,
                consumed=begun(item.consumed),
                sent=None if item.sent is None else begun(item.sent),
                channel=item.channel,
                source=item.source,
            )
            for item in record.edges
        ),
        not_closed=dict(record.not_closed),
        generation=record.generation,
    )


def ages(record: VectorRecord) -> list[MemberAge]:
    """The age of each member in a cut of a dataflow."""
    return [
        MemberAge(
            number=record.number,
            written=moment(record.written_ms),
            member=member.name,
            epoch=begun(member.epoch),
            lag_ms=record.written_ms - member.written_ms if member.token else None,
            reason=member.why,
        )
        for member in record.members
    ]


def _epoch(epoch: int | None) -> str:
    return "not started" if epoch is None else f"epoch {epoch}"


def _number(epoch: int | None) -> str:
    return "none" if epoch is None else str(epoch)


def begun(epoch: int) -> int | None:
    """An epoch; None for a query that has not started."""
    return None if epoch == NOT_BEGUN else epoch
