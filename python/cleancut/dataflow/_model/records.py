"""The records of a dataflow: JSON with a version, read completely or refused."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cleancut._format import json_records
from cleancut._format.fields import typed
from cleancut.dataflow._model.facts import Lineage
from cleancut.dataflow._model.vector import NOT_BEGUN

FORMAT_VERSION = 1
FORMAT = "cleancut-dataflow"

Record = TypeVar("Record")


@dataclass(frozen=True)
class MemberRecord:
    """A query of the dataflow.

    Attributes:
        name: name of the member.
        checkpoint: its checkpoint location, as it was given.
        added_ms: time at which it was added, in Unix time.
    """

    name: str
    checkpoint: str
    added_ms: int

    def encode(self) -> bytes:
        fields = {"name": self.name, "checkpoint": self.checkpoint, "addedMs": self.added_ms}
        return encoded(fields)

    @staticmethod
    def decode(body: bytes, path: str) -> "MemberRecord":
        return decoded(
            body,
            path,
            lambda fields: MemberRecord(
                typed(fields, "name", str),
                typed(fields, "checkpoint", str),
                typed(fields, "addedMs", int),
            ),
        )


@dataclass(frozen=True)
class MemberCut:
    """The part of a member in a vector.

    Attributes:
        name: name of the member.
        checkpoint: its checkpoint location.
        query_id: Spark's query id, if it is known.
        epoch: epoch of its cut; -1 for a query that had not started.
        token: token of the cut; empty if the query had not started.
        written_ms: time at which the cut was written; 0 if the query had not started.
        pin: the savepoint that retains the cut; None if the query had not started.
        newest: epoch of the last cut that the member had.
        why: the reason why the vector does not have the last cut; None if it does.
        operations: epoch and source of known operations on the query, ascending.
    """

    name: str
    checkpoint: str
    query_id: str | None
    epoch: int
    token: str
    written_ms: int
    pin: str | None
    newest: int
    why: str | None = None
    operations: tuple[tuple[int, int], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "checkpoint": self.checkpoint,
            "queryId": self.query_id,
            "epoch": self.epoch,
            "token": self.token,
            "writtenMs": self.written_ms,
            "pin": self.pin,
            "newest": self.newest,
            "why": self.why,
            "acts": [list(operation) for operation in self.operations],
        }

    @staticmethod
    def of_json(fields: dict[str, Any]) -> "MemberCut":
        return MemberCut(
            name=typed(fields, "name", str),
            checkpoint=typed(fields, "checkpoint", str),
            query_id=_text(fields, "queryId"),
            epoch=typed(fields, "epoch", int),
            token=typed(fields, "token", str),
            written_ms=typed(fields, "writtenMs", int),
            pin=_text(fields, "pin"),
            newest=typed(fields, "newest", int),
            why=_text(fields, "why"),
            operations=_operations_in(fields),
        )


@dataclass(frozen=True)
class EdgeCut:
    """An edge in a vector; the epochs after `consumed` up to `sent` are in flight.

    Attributes:
        channel: location of the channel.
        sender: the member that sends; None if no member does.
        receiver: the member that reads.
        source: number of the source in the receiver.
        consumed: the last epoch that the receiver's cut has consumed; -1 for none.
        attempt: the attempt that published it; None for none.
        sent: epoch of the sender's cut; None without a sender.
        operations: epoch and source of operations on the sender up to that cut, ascending, from
            its cuts and the channel. Epochs that they have rolled back were not sent.
    """

    channel: str
    sender: str | None
    receiver: str
    source: str
    consumed: int
    attempt: str | None
    sent: int | None
    operations: tuple[tuple[int, int], ...] = ()

    @property
    def lineage(self) -> Lineage:
        """The epochs of the channel that are in the state of the sender's cut."""
        return Lineage(NOT_BEGUN if self.sent is None else self.sent, self.operations)

    def to_json(self) -> dict[str, Any]:
        return {
            "channel": self.channel,
            "sender": self.sender,
            "receiver": self.receiver,
            "source": self.source,
            "consumed": self.consumed,
            "attempt": self.attempt,
            "sent": self.sent,
            "acts": [list(operation) for operation in self.operations],
        }

    @staticmethod
    def of_json(fields: dict[str, Any]) -> "EdgeCut":
        sent = fields.get("sent")
        return EdgeCut(
            channel=typed(fields, "channel", str),
            sender=_text(fields, "sender"),
            receiver=typed(fields, "receiver", str),
            source=typed(fields, "source", str),
            consumed=typed(fields, "consumed", int),
            attempt=_text(fields, "attempt"),
            sent=None if sent is None else typed(fields, "sent", int),
            operations=_operations_in(fields),
        )


@dataclass(frozen=True)
class VectorRecord:
    """An entry of the log of vectors: a vector, or the start of a coordinator.

    Attributes:
        number: number of the entry; each is used once.
        generation: generation of the coordinator that wrote it.
        token: 32 hexadecimal digits, unique to the entry.
        written_ms: time at which it was written, in Unix time.
        members: the members, ordered by name; empty for the start of a coordinator.
        edges: the edges, ordered by receiver and source; empty for the start of a coordinator.
        is_begin: whether it is the start of a coordinator.
        not_closed: the members that were requested to close their epochs and have not, with the
            reason.
    """

    number: int
    generation: int
    token: str
    written_ms: int
    members: tuple[MemberCut, ...] = ()
    edges: tuple[EdgeCut, ...] = ()
    is_begin: bool = False
    not_closed: Mapping[str, str] = field(default_factory=dict)

    @property
    def epochs(self) -> Mapping[str, int]:
        """The epoch of each member."""
        return {member.name: member.epoch for member in self.members}

    def member(self, name: str) -> MemberCut | None:
        """The part of a member."""
        return next((member_cut for member_cut in self.members if member_cut.name == name), None)

    def encode(self) -> bytes:
        return encoded(
            {
                "kind": "begin" if self.is_begin else "vector",
                "number": self.number,
                "generation": self.generation,
                "token": self.token,
                "writtenMs": self.written_ms,
                "members": [item.to_json() for item in self.members],
                "edges": [item.to_json() for item in self.edges],
                "asked": dict(self.not_closed),
            }
        )

    @staticmethod
    def decode(body: bytes, path: str, number: int) -> "VectorRecord":
        def parsed(fields: dict[str, Any]) -> VectorRecord:
            kind = typed(fields, "kind", str)
            if kind not in ("begin", "vector"):
                raise ValueError(f"{kind} is no kind of entry")
            if typed(fields, "number", int) != number:
                raise ValueError(f"it is entry {fields['number']}")
            return VectorRecord(
                number=number,
                generation=typed(fields, "generation", int),
                token=typed(fields, "token", str),
                written_ms=typed(fields, "writtenMs", int),
                members=tuple(map(MemberCut.of_json, typed(fields, "members", list))),
                edges=tuple(map(EdgeCut.of_json, typed(fields, "edges", list))),
                is_begin=kind == "begin",
                not_closed=typed(fields, "asked", dict),
            )

        return decoded(body, path, parsed)


@dataclass(frozen=True)
class AnswerRecord:
    """The answer of a member to a request to close its epoch.

    Attributes:
        epoch: the epoch after whose cut it is closed; -1 before the first.
        is_closing: whether its tasks were stopped.
    """

    epoch: int
    is_closing: bool

    def encode(self) -> bytes:
        return encoded({"epoch": self.epoch, "closing": self.is_closing})

    @staticmethod
    def decode(body: bytes, path: str) -> "AnswerRecord":
        return decoded(
            body,
            path,
            lambda fields: AnswerRecord(
                typed(fields, "epoch", int), typed(fields, "closing", bool)
            ),
        )


def _operations_in(fields: dict[str, Any]) -> tuple[tuple[int, int], ...]:
    return tuple((int(epoch), int(source)) for epoch, source in typed(fields, "acts", list))


def _text(fields: dict[str, Any], name: str) -> str | None:
    if name not in fields:
        raise ValueError(f"{name} is missing")
    value: str | None = None if fields[name] is None else typed(fields, name, str)
    return value


def encoded(fields: Mapping[str, Any]) -> bytes:
    """A record as bytes."""
    return json_records.encoded(fields, FORMAT_VERSION)


def decoded(body: bytes, path: str, parse: Callable[[dict[str, Any]], Record]) -> Record:
    """Parses a record.

    Raises:
        CorruptedError: CLEANCUT_DATAFLOW_CORRUPTED.
        RequestError: CLEANCUT_FORMAT_UNKNOWN, a later release wrote it.
    """
    return json_records.decoded(
        body, path, parse, version=FORMAT_VERSION, damaged="CLEANCUT_DATAFLOW_CORRUPTED"
    )
