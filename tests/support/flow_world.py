"""Queries that send to each other by channels in an in-memory bucket, and their coordinator."""

import secrets
from dataclasses import dataclass, field

from cleancut.dataflow._cuts.coordinator import Coordinator
from cleancut.dataflow._model.names import member_name
from cleancut.dataflow._model.records import MemberRecord
from cleancut.dataflow._store.machinery import Machinery
from cleancut.dataflow._store.store import DataflowStore
from cleancut.sinks._epoch_log.rollback import hide
from tests.support.flow_places import (
    Bucket,
    claim_channel,
    open_records_in,
    open_root_in,
    publish,
    write_cut,
)

FLOW = "mem:flow"


@dataclass
class Still(Machinery):
    """A clock that advances only with waits, and sequential requests.

    Attributes:
        seconds: the time of the clock.
        waited: the duration of each wait.
    """

    seconds: float = 1000.0
    waited: list[float] = field(default_factory=list)

    def now_ms(self) -> int:
        return round(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.seconds += seconds


@dataclass
class Query:
    """A member: its sent, consumed and committed epochs.

    Attributes:
        name: the name of the member, of its checkpoint and of its channel.
        bucket: the bucket of both.
        reads: the names of the senders whose channels it reads, by source.
    """

    name: str
    bucket: Bucket
    reads: tuple[str, ...] = ()
    epoch: int = -1
    at: dict[str, tuple[str, int, str | None]] = field(default_factory=dict)
    sent: dict[int, str] = field(default_factory=dict)
    cuts: dict[int, dict[str, tuple[str, int, str | None]]] = field(default_factory=dict)

    @property
    def checkpoint(self) -> str:
        return f"{self.bucket.prefix}ckpt/{self.name}"

    @property
    def channel(self) -> str:
        return f"{self.bucket.prefix}channel/{self.name}"

    @property
    def query_id(self) -> str:
        return f"id-{self.name}"

    def publish(self, rows: int = 1) -> int:
        """Publishes the next epoch, without its cut."""
        self.epoch += 1
        place = self.bucket.place(self.channel)
        claim_channel(place, self.query_id, self.checkpoint)
        self.sent[self.epoch] = secrets.token_hex(16)
        publish(place, self.epoch, self.sent[self.epoch], self.query_id, rows)
        return self.epoch

    def consume(self, sender: "Query", epoch: int) -> None:
        """Includes an epoch of another query in the next cut."""
        source = str(self.reads.index(sender.name))
        attempt = sender.sent.get(epoch)
        self.at[source] = (sender.channel, epoch, attempt)

    def commit(self, *, act_source: int | None = None) -> int:
        """Writes the cut of the epoch that was published last."""
        if act_source is not None:
            self.epoch += 1
            self.at = dict(self.cuts[act_source])
        self.cuts[self.epoch] = dict(self.at)
        write_cut(
            self.bucket.place(self.checkpoint),
            self.epoch,
            self.query_id,
            secrets.token_hex(16),
            self.at,
            act_source=act_source,
        )
        return self.epoch

    def run(self, rows: int = 1) -> int:
        """Publishes and commits an epoch."""
        self.publish(rows)
        return self.commit()

    def hide_epochs(self, after: int) -> None:
        """Hides the channel's epochs after an epoch."""
        hide(open_records_in(self.bucket)(self.channel), after)

    def delete_cuts(self, *epochs: int) -> None:
        """Deletes cuts."""
        for epoch in epochs:
            self.bucket.place(self.checkpoint).delete(f"cleancut/cuts/{epoch:020d}.cut")

    def savepoints(self) -> list[str]:
        """Returns the names of its savepoints."""
        listed = self.bucket.place(self.checkpoint).list("cleancut/savepoints")
        return sorted(key.rpartition("/")[2].removesuffix(".cut") for key in listed)


@dataclass
class World:
    """A dataflow in a bucket.

    Attributes:
        bucket: the bucket with all objects.
        queries: the queries, by name.
    """

    bucket: Bucket = field(default_factory=Bucket)
    queries: dict[str, Query] = field(default_factory=dict)
    machinery: Machinery = field(default_factory=Still)

    @property
    def store(self) -> DataflowStore:
        return DataflowStore(FLOW, self.bucket.place(FLOW), self.machinery)

    def query(self, name: str, *reads: str) -> Query:
        """Adds a query as a member."""
        self.store.flow_id(create=True)
        made = Query(name, self.bucket, reads)
        record = MemberRecord(name, made.checkpoint, 0)
        self.store.create(member_name(name), record.encode())
        self.queries[name] = made
        return made

    def coordinator(self) -> Coordinator:
        """Returns a coordinator that has begun."""
        made = Coordinator(self.store, open_root_in(self.bucket), open_records_in(self.bucket))
        made.begin()
        return made
