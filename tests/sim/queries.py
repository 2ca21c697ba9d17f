"""A simulated query: it reads channels, publishes, commits, deletes cuts, crashes, and is rolled
back.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from cleancut._format.envelope import unwrapped
from cleancut._format.layout import CUTS, SAVEPOINTS, parse_cut_name
from cleancut._storage.objects import Place
from cleancut.errors import CleancutError
from cleancut.sinks._core.query_side import Operation, QuerySide
from cleancut.sinks._epoch_log.manifest import read_manifest
from cleancut.sinks._epoch_log.names import EPOCHS, HIDDEN, hidden_attempts, manifest_epochs
from cleancut.sinks._epoch_log.records import Records
from cleancut.sinks._epoch_log.rollback import follow
from tests.sim.schedule import CrashError, Schedule
from tests.support.flow_places import (
    Bucket,
    claim_channel,
    open_records_in,
    publish,
    write_cut,
)

Sent = tuple[int, str]
_DAMAGES = (CleancutError, OSError)


@dataclass(frozen=True)
class State:
    """The state of a query, as the simulation knows it.

    Attributes:
        consumed: by source, epoch and attempt of all that it has read, in order.
        sent: epoch and attempt of all published epochs that were not rolled back.
    """

    consumed: tuple[tuple[Sent, ...], ...]
    sent: tuple[Sent, ...] = ()


@dataclass
class Truth:
    """The state that only the simulation knows.

    Attributes:
        states: by the token of a cut.
        segments: the key of the segment of the cut of a token.
        operations: epoch and source of the operations of each query.
    """

    states: dict[str, State] = field(default_factory=dict)
    segments: dict[str, str] = field(default_factory=dict)
    operations: dict[str, list[Operation]] = field(default_factory=dict)


class _Stuck(Exception):  # noqa: N818  # no error of anybody
    """An epoch that it has consumed was hidden."""


@dataclass
class SimQuery:
    """One query with sequential runs.

    Attributes:
        name: the name of the member.
        reads: the names of the senders, by source.
        keep: the number of retained cuts.
    """

    name: str
    reads: tuple[str, ...]
    keep: int
    bucket: Bucket
    truth: Truth
    schedule: Schedule
    # The plan of an epoch is in Spark's log: a second run has the same input.
    plans: dict[int, State] = field(default_factory=dict)
    numbered: int = -1

    @property
    def checkpoint(self) -> str:
        return f"mem:ckpt/{self.name}"

    @property
    def channel(self) -> str:
        return f"mem:channel/{self.name}"

    @property
    def query_id(self) -> str:
        return f"id-{self.name}"

    @property
    def _objects(self) -> Place:
        return self.bucket.place(f"{self.checkpoint}/cleancut")

    @property
    def _draw(self) -> random.Random:
        return self.schedule.draw

    def live(self) -> None:
        """Runs, crashes, is rolled back, and runs again."""
        while True:
            try:
                self._run(self._draw.randrange(2, 8))
                if self._draw.random() < 0.25:
                    self._go_back()
            except CrashError:
                if self.schedule.is_ending:
                    raise
            except _Stuck:
                self.schedule.log.append(f"{self.name} is stuck")
                self.schedule.met.add("consumed epoch hidden")
                self._go_back_as_far_as_needed()
            except _DAMAGES:
                continue
            self.schedule.pause()

    def _run(self, epochs: int) -> None:
        last, state = self._recovered()
        self._follow(last)
        for _ in range(epochs):
            last, state = self._epoch(last, state)
            self.schedule.pause()

    def _cuts(self) -> dict[int, str]:
        """Returns the token of each retained cut."""
        return {epoch: self._token(name) for name, epoch in self._names().items()}

    def _names(self) -> dict[str, int]:
        epochs = {name: parse_cut_name(name) for name in self._objects.list(CUTS)}
        return {name: epoch for name, epoch in epochs.items() if epoch is not None}

    def _token(self, name: str) -> str:
        # A driver needs no request for its own cuts.
        return token_in(self.bucket.data[f"ckpt/{self.name}/cleancut/{name}"])

    def _recovered(self) -> tuple[int, State]:
        cuts = self._cuts()
        if not cuts:
            return -1, State(tuple(() for _ in self.reads))
        last = max(cuts)
        self.numbered = max(self.numbered, last)
        return last, self.truth.states[cuts[last]]

    def _follow(self, last: int) -> None:
        """The sink follows rollbacks of the query before it publishes."""
        operations = [
            operation
            for operation in self.truth.operations.get(self.name, [])
            if operation.epoch <= last
        ]
        if operations:
            follow(open_records_in(self.bucket)(self.channel), cast("QuerySide", _Side(operations)))

    def _epoch(self, last: int, before: State) -> tuple[int, State]:
        epoch = last + 1
        if epoch not in self.plans:
            self.plans[epoch] = self._planned(before)
        else:
            self._require_all(self.plans[epoch])
        self.numbered = max(self.numbered, epoch)
        planned = self.plans[epoch]
        attempt = self._published(epoch)
        state = State(planned.consumed, (*before.sent, (epoch, attempt)))
        self._commit(epoch, state)
        self._sweep()
        return epoch, state

    def _planned(self, before: State) -> State:
        consumed = []
        for source, sender in enumerate(self.reads):
            read = before.consumed[source]
            records = open_records_in(self.bucket)(f"mem:channel/{sender}")
            if read:
                self._require(records, read[-1])
            last = read[-1][0] if read else -1
            more = [epoch for epoch in manifest_epochs(records.names(EPOCHS)) if epoch > last]
            for epoch in more[: self._draw.randrange(len(more) + 1)]:
                manifest = read_manifest(records, epoch)
                if manifest is None:
                    break
                read = (*read, (epoch, manifest.attempt.token))
            # An epoch that was hidden during the read is not taken, nor one with another
            # predecessor than the last read epoch: each epoch of a channel names its predecessor.
            for of_both in (before.consumed[source][-1:], read[-1:]):
                for sent in of_both:
                    self._require(records, sent)
            consumed.append(read)
        return State(tuple(consumed))

    def _require_all(self, planned: State) -> None:
        for sender, read in zip(self.reads, planned.consumed, strict=True):
            if read:
                self._require(open_records_in(self.bucket)(f"mem:channel/{sender}"), read[-1])

    def _require(self, records: Records, last: Sent) -> None:
        hidden = hidden_attempts(records.names(HIDDEN))
        if last in {(record.epoch, record.token) for record in hidden}:
            raise _Stuck

    def _published(self, epoch: int) -> str:
        place = self.bucket.place(self.channel)
        claim_channel(place, self.query_id, self.checkpoint)
        token = f"{self._draw.getrandbits(128):032x}"
        if publish(place, epoch, token, self.query_id, rows=1):
            return token
        manifest = read_manifest(open_records_in(self.bucket)(self.channel), epoch)
        if manifest is None:
            raise OSError("it was taken back meanwhile")
        return manifest.attempt.token

    def _commit(self, epoch: int, state: State, source: int | None = None) -> None:
        token = f"{self._draw.getrandbits(128):032x}"
        segment = f"segments/{epoch:020d}/driver-{token}.seg"
        self.truth.states[token] = state
        self.truth.segments[token] = f"ckpt/{self.name}/cleancut/{segment}"
        self._objects.create(segment, b"")
        consumed = {
            str(number): (f"mem:channel/{sender}", *read[-1])
            for number, (sender, read) in enumerate(zip(self.reads, state.consumed, strict=True))
            if read
        }
        place = self.bucket.place(self.checkpoint)
        written_ms = round(self.schedule.seconds * 1000)
        if not write_cut(
            place,
            epoch,
            self.query_id,
            token,
            consumed,
            act_source=source,
            written_ms=written_ms,
            segment=segment,
        ):
            raise OSError("it was committed before")

    def _sweep(self) -> None:
        """Deletes cuts first, and reads savepoints afterwards."""
        names = self._names()
        going = sorted(names, key=names.__getitem__)[: -self.keep]
        if not going:
            return
        for name in going:
            self._objects.delete(name)
        needed = {self._segment(self._objects.read(name)) for name in set(names) - set(going)}
        for name in self._objects.list(SAVEPOINTS):
            try:
                needed.add(self._segment(self._objects.read(name)))
            except FileNotFoundError:
                continue
        oldest = min(names[name] for name in set(names) - set(going))
        for name in list(self._objects.list("segments")):
            if int(name.split("/")[1]) < oldest and name not in needed:
                self._objects.delete(name)

    def _segment(self, cut: bytes) -> str:
        return self.truth.segments[token_in(cut)].partition("/cleancut/")[2]

    # Operations

    def _go_back(self) -> None:
        """Writes a rollback: an epoch after all others, with the result of an earlier one."""
        cuts = self._cuts()
        if len(cuts) > 1:
            self._act(self._draw.choice(sorted(cuts)), cuts)

    def _go_back_as_far_as_needed(self) -> None:
        try:
            cuts = self._cuts()
            for epoch in sorted(cuts, reverse=True):
                if all(self._counts(channel, read) for channel, read in self._read(cuts[epoch])):
                    self._act(epoch, cuts)
                    return
        except _DAMAGES:
            return
        except CrashError:
            if self.schedule.is_ending:
                raise

    def _read(self, token: str) -> list[tuple[str, Sent]]:
        states = self.truth.states[token].consumed
        return [
            (channel, read[-1]) for channel, read in zip(self.reads, states, strict=True) if read
        ]

    def _counts(self, sender: str, sent: Sent) -> bool:
        records = open_records_in(self.bucket)(f"mem:channel/{sender}")
        hidden = hidden_attempts(records.names(HIDDEN))
        return sent not in {(record.epoch, record.token) for record in hidden}

    def _act(self, source: int, cuts: dict[int, str]) -> None:
        epoch = self.numbered = max(self.numbered, *self.plans, max(cuts)) + 1
        operations = self.truth.operations.setdefault(self.name, [])
        operations.append(Operation(epoch, source))
        try:
            self._commit(epoch, self.truth.states[cuts[source]], source)
        finally:
            if f"ckpt/{self.name}/cleancut/cuts/{epoch:020d}.cut" not in self.bucket.data:
                operations.pop()
        self.schedule.log.append(f"{self.name} was rolled back to {source} by {epoch}")
        self.schedule.met.add("query rolled back")


@dataclass
class _Side:
    """The parts of a query that `follow` uses."""

    done: Sequence[Operation]

    def operations(self, after: int) -> Sequence[Operation]:
        return [operation for operation in self.done if operation.epoch > after]


_tokens: dict[bytes, str] = {}


def token_in(cut: bytes) -> str:
    """Returns the token of a cut, by its bytes."""
    token = _tokens.get(cut)
    if token is None:
        raw = unwrapped(cut, "cut", "cut", b"CCCT")
        token = str(json.loads(raw)["token"])
        if len(_tokens) > 10_000:
            _tokens.clear()
        _tokens[cut] = token
    return token
