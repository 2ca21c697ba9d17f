"""Invariants of each vector that counts, checked at each change of the bucket."""

from dataclasses import dataclass, field

from cleancut._format.layout import savepoint_name
from cleancut.dataflow._cuts.channels import in_flight_epochs
from cleancut.dataflow._model import names
from cleancut.dataflow._model.records import EdgeCut, MemberCut, VectorRecord
from tests.sim.queries import Sent, State, Truth, token_in
from tests.support.flow_places import Bucket, open_records_in
from tests.support.flow_world import FLOW


class ViolationError(AssertionError):
    """A violated invariant."""


@dataclass
class Invariants:
    """Checks a bucket.

    Attributes:
        data: the objects of the bucket.
        truth: the state that only the simulation knows.
        reads: for each query the names of its senders, by source.
        promised: numbers of vectors that a coordinator has given to a caller, and of which no
            coordinator has begun to give them up.
        checked: the number of checked vectors.
    """

    data: dict[str, bytes]
    truth: Truth
    reads: dict[str, tuple[str, ...]]
    promised: set[int] = field(default_factory=set)
    checked: int = 0
    _entries: dict[bytes, VectorRecord] = field(default_factory=dict)
    _changed: bool = True
    _right: set[bytes] = field(default_factory=set)
    _quiet: Bucket = field(default_factory=Bucket)

    def __post_init__(self) -> None:
        self._quiet.data = self.data

    def check(self, key: str | None = None) -> None:
        """Raises a ViolationError.

        Args:
            key: the changed key; None checks all.
        """
        counted = []
        self._changed = key is None or key.startswith("channel/")
        prefix = f"{FLOW.removeprefix('mem:')}/"
        for at in [name for name in self.data if name.startswith(f"{prefix}{names.VECTORS}/")]:
            record = self._entry(at, self.data[at])
            if record.is_begin:
                continue
            if all(map(self._is_kept, record.members)):
                counted.append(record.number)
                self._check_vector(self.data[at], record)
            elif self.data[at] in self._right:
                raise ViolationError(f"vector {record.number} is there, has counted, and does not")
        lost = self.promised - set(counted)
        if lost:
            raise ViolationError(f"vector {min(lost)} was given to a caller, and counts no more")

    def _entry(self, key: str, body: bytes) -> VectorRecord:
        if body not in self._entries:
            number = int(key.rpartition("/")[2].removesuffix(".json"))
            self._entries[body] = VectorRecord.decode(body, key, number)
        return self._entries[body]

    def _pin_key(self, cut: MemberCut) -> str:
        return f"{cut.checkpoint.removeprefix('mem:')}/cleancut/{savepoint_name(cut.pin or '')}"

    def _is_kept(self, cut: MemberCut) -> bool:
        return cut.pin is None or self._pin_key(cut) in self.data

    def _check_vector(self, body: bytes, record: VectorRecord) -> None:
        for cut in record.members:
            if cut.pin is not None:
                token = token_in(self.data[self._pin_key(cut)])
                if token != cut.token:
                    raise ViolationError(f"{record.number}: {cut.pin} keeps another cut")
                if self.truth.segments[token] not in self.data:
                    raise ViolationError(
                        f"{record.number}: epoch {cut.epoch} of {cut.name} was swept"
                    )
        # The rows of a vector never change.
        is_new = body not in self._right
        if is_new:
            self.checked += 1
            self._check_rows(record)
            self._right.add(body)
        if is_new or self._changed:
            for edge in record.edges:
                self._check_flying(record, edge)

    def _state(self, record: VectorRecord, name: str) -> State:
        cut = record.member(name)
        assert cut is not None
        if cut.token:
            return self.truth.states[cut.token]
        return State(tuple(() for _ in self.reads[name]))

    def _check_rows(self, record: VectorRecord) -> None:
        there = {member.name for member in record.members}
        for name in there:
            state = self._state(record, name)
            for sender, read in zip(self.reads[name], state.consumed, strict=True):
                if sender not in there:
                    continue
                sent = set(self._state(record, sender).sent)
                if len(set(read)) != len(read):
                    raise ViolationError(f"{record.number}: {name} has rows of {sender} twice")
                if set(read) - sent:
                    raise ViolationError(
                        f"{record.number}: {name} has received of {sender} what was not sent: "
                        f"{sorted(set(read) - sent)}"
                    )

    def _check_flying(self, record: VectorRecord, edge: EdgeCut) -> None:
        if edge.sent is None or edge.sender is None:
            return
        received = self._state(record, edge.receiver).consumed[int(edge.source)]
        wanted: set[Sent] = set(self._state(record, edge.sender).sent) - set(received)
        records = open_records_in(self._quiet)(edge.channel)
        in_flight = in_flight_epochs(records, edge)
        flies = [(published.epoch, published.attempt) for published in in_flight]
        if set(flies) != wanted or len(flies) != len(wanted):
            raise ViolationError(
                f"{record.number}: from {edge.sender} to {edge.receiver} fly {flies}, and "
                f"{sorted(wanted)} were sent and not received"
            )
