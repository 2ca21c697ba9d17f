"""What the objects of a dataflow say: JSON with a version, whole or refused."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cleancut._format import versioned
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
        name: what it is called.
        checkpoint: its checkpoint location, as it was given.
        added_ms: when, in Unix time.
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
            lambda of: MemberRecord(
                typed(of, "name", str), typed(of, "checkpoint", str), typed(of, "addedMs", int)
            ),
        )


@dataclass(frozen=True)
class MemberCut:
    """What a vector has of a member.

    Attributes:
        name: of the member.
        checkpoint: its location.
        query_id: Spark's id of the query, where it is known.
        epoch: of its cut; -1 for a query that had not begun.
        token: of that cut; empty likewise.
        written_ms: when the cut was written; 0 likewise.
        pin: the savepoint that keeps it; None likewise.
        newest: the epoch of the last cut that the member had.
        why: why the vector does not have that one; None if it does.
        acts: epoch and source of acts on the query that are known, ascending.
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
    acts: tuple[tuple[int, int], ...] = ()

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
            "acts": [list(act) for act in self.acts],
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
            acts=_acts(fields),
        )


@dataclass(frozen=True)
class EdgeCut:
    """What a vector has of an edge: what lies between is in flight.

    Attributes:
        channel: where the channel is.
        sender: the member that sends there; None if it is none of the dataflow.
        receiver: the member that reads it.
        source: the number of the source in the receiver.
        consumed: the last epoch that the receiver's cut has consumed; -1 for none.
        attempt: by which that was published; None for none.
        sent: the epoch of the sender's cut; None without a sender.
        acts: epoch and source of acts on the sender up to that cut, ascending, as its cuts and the
            channel know them. What the sender has gone back behind by them was not sent.
    """

    channel: str
    sender: str | None
    receiver: str
    source: str
    consumed: int
    attempt: str | None
    sent: int | None
    acts: tuple[tuple[int, int], ...] = ()

    @property
    def lineage(self) -> Lineage:
        """Which epochs of the channel are in the state of the sender's cut."""
        return Lineage(NOT_BEGUN if self.sent is None else self.sent, self.acts)

    def to_json(self) -> dict[str, Any]:
        return {
            "channel": self.channel,
            "sender": self.sender,
            "receiver": self.receiver,
            "source": self.source,
            "consumed": self.consumed,
            "attempt": self.attempt,
            "sent": self.sent,
            "acts": [list(act) for act in self.acts],
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
            acts=_acts(fields),
        )


@dataclass(frozen=True)
class VectorRecord:
    """An entry of the log of vectors: a vector, or that a coordinator has begun.

    Attributes:
        number: its own; each is taken once.
        generation: of the coordinator that wrote it.
        token: 32 hexadecimal digits that no other entry has.
        written_ms: when, in Unix time.
        members: in the order of their names; none of an entry by which a coordinator begins.
        edges: likewise, by receiver and source.
        is_begin: whether it is such an entry.
        asked: the members that were asked to close their epochs and have not, and why.
    """

    number: int
    generation: int
    token: str
    written_ms: int
    members: tuple[MemberCut, ...] = ()
    edges: tuple[EdgeCut, ...] = ()
    is_begin: bool = False
    asked: Mapping[str, str] = field(default_factory=dict)

    @property
    def epochs(self) -> Mapping[str, int]:
        """The epoch of each member."""
        return {of.name: of.epoch for of in self.members}

    def member(self, name: str) -> MemberCut | None:
        """What it has of a member."""
        return next((of for of in self.members if of.name == name), None)

    def encode(self) -> bytes:
        return encoded(
            {
                "kind": "begin" if self.is_begin else "vector",
                "number": self.number,
                "generation": self.generation,
                "token": self.token,
                "writtenMs": self.written_ms,
                "members": [of.to_json() for of in self.members],
                "edges": [of.to_json() for of in self.edges],
                "asked": dict(self.asked),
            }
        )

    @staticmethod
    def decode(body: bytes, path: str, number: int) -> "VectorRecord":
        def parsed(of: dict[str, Any]) -> VectorRecord:
            kind = typed(of, "kind", str)
            if kind not in ("begin", "vector"):
                raise ValueError(f"{kind} is no kind of entry")
            if typed(of, "number", int) != number:
                raise ValueError(f"it is entry {of['number']}")
            return VectorRecord(
                number=number,
                generation=typed(of, "generation", int),
                token=typed(of, "token", str),
                written_ms=typed(of, "writtenMs", int),
                members=tuple(map(MemberCut.of_json, typed(of, "members", list))),
                edges=tuple(map(EdgeCut.of_json, typed(of, "edges", list))),
                is_begin=kind == "begin",
                asked=typed(of, "asked", dict),
            )

        return decoded(body, path, parsed)


@dataclass(frozen=True)
class AnswerRecord:
    """What a member answers that was asked to close its epoch.

    Attributes:
        epoch: the one after whose cut it has done so; -1 before the first.
        is_closing: whether its tasks were told to end.
    """

    epoch: int
    is_closing: bool

    def encode(self) -> bytes:
        return encoded({"epoch": self.epoch, "closing": self.is_closing})

    @staticmethod
    def decode(body: bytes, path: str) -> "AnswerRecord":
        return decoded(
            body, path, lambda of: AnswerRecord(typed(of, "epoch", int), typed(of, "closing", bool))
        )


def _acts(fields: dict[str, Any]) -> tuple[tuple[int, int], ...]:
    return tuple((int(epoch), int(source)) for epoch, source in typed(fields, "acts", list))


def _text(fields: dict[str, Any], name: str) -> str | None:
    if name not in fields:
        raise ValueError(f"{name} is missing")
    value: str | None = None if fields[name] is None else typed(fields, name, str)
    return value


def encoded(fields: Mapping[str, Any]) -> bytes:
    """A record as it is written."""
    return versioned.encoded(fields, FORMAT_VERSION)


def decoded(body: bytes, path: str, parse: Callable[[dict[str, Any]], Record]) -> Record:
    """Reads a record.

    Raises:
        CorruptedError: CLEANCUT_DATAFLOW_CORRUPTED.
        RequestError: CLEANCUT_FORMAT_UNKNOWN, a later release wrote it.
    """
    return versioned.decoded(
        body, path, parse, version=FORMAT_VERSION, damaged="CLEANCUT_DATAFLOW_CORRUPTED"
    )
