"""The cost of an epoch in its cut: requests, bytes and time; docs/FORMAT.md, "Costs"."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cleancut._brief import Brief
from cleancut._format.fields import typed

_NUMBERS = (
    "bytesSent",
    "bytesReceived",
    "frames",
    "frameBytes",
    "segments",
    "segmentBytes",
    "sentMs",
    "waitedMs",
)


@dataclass(frozen=True, repr=False)
class RequestCount(Brief):
    """Requests of one kind to the object store.

    Attributes:
        requests: number of sent requests, retries included, as the object store bills them.
        retries: number of requests that repeated a failed one.
        failures: number of calls that ended with an error.
    """

    requests: int
    retries: int
    failures: int


class RequestsByKind(dict[str, RequestCount]):
    """Requests by the name of their kind, without kinds that did not occur."""

    def __repr__(self) -> str:
        return f"RequestsByKind({self})"

    def __str__(self) -> str:
        return ", ".join(f"{kind} {count.requests}" for kind, count in sorted(self.items()))

    @property
    def total(self) -> RequestCount:
        """The sum over all kinds."""
        counts = self.values()
        return RequestCount(
            requests=sum(count.requests for count in counts),
            retries=sum(count.retries for count in counts),
            failures=sum(count.failures for count in counts),
        )

    def __add__(self, other: Mapping[str, RequestCount]) -> "RequestsByKind":
        none = RequestCount(0, 0, 0)
        pairs = {kind: (self.get(kind, none), other.get(kind, none)) for kind in {*self, *other}}
        return RequestsByKind(
            {
                kind: RequestCount(
                    one.requests + two.requests,
                    one.retries + two.retries,
                    one.failures + two.failures,
                )
                for kind, (one, two) in sorted(pairs.items())
            }
        )


@dataclass(frozen=True, repr=False)
class Usage(Brief):
    """Requests and bytes of one side: the driver, or all executors together.

    Attributes:
        requests: requests by kind.
        bytes_sent: bytes in request bodies.
        bytes_received: bytes in response bodies.
        frames: number of frames made durable, whether they count or not.
        frame_bytes: size of these frames.
        segments: number of objects that contain these frames.
        segment_bytes: size of these objects.
        sent_ms: total milliseconds of successful requests that sent a body.
        waited_ms: total milliseconds of failed requests, until they were repeated.
    """

    requests: RequestsByKind
    bytes_sent: int
    bytes_received: int
    frames: int
    frame_bytes: int
    segments: int
    segment_bytes: int
    sent_ms: int = 0
    waited_ms: int = 0

    def __str__(self) -> str:
        return str(self.requests) or "nothing"

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            requests=self.requests + other.requests,
            bytes_sent=self.bytes_sent + other.bytes_sent,
            bytes_received=self.bytes_received + other.bytes_received,
            frames=self.frames + other.frames,
            frame_bytes=self.frame_bytes + other.frame_bytes,
            segments=self.segments + other.segments,
            segment_bytes=self.segment_bytes + other.segment_bytes,
            sent_ms=self.sent_ms + other.sent_ms,
            waited_ms=self.waited_ms + other.waited_ms,
        )


@dataclass(frozen=True, repr=False)
class StoreTime(Brief):
    """The time of a store in one epoch, by the driver's clock.

    Attributes:
        operator: Spark's operator id.
        partition: Spark's partition id.
        store: Spark's name of the store.
        executor: Spark's id of the executor; "driver" if tasks run in the driver's process.
        host: host of the executor.
        ms: milliseconds from the task's open of the store until its frame was accepted.
    """

    operator: int
    partition: int
    store: str
    executor: str
    host: str
    ms: int

    def __str__(self) -> str:
        where = f" on {self.executor} at {self.host}" if self.executor else ""
        return f"{self.operator}/{self.partition} {self.store} {self.ms} ms{where}"


class StoreTimes(tuple[StoreTime, ...]):
    """The slowest stores, the slowest first."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"StoreTimes({len(self)} stores, the slowest {self[0]})" if self else "StoreTimes()"

    def __str__(self) -> str:
        return "; ".join(map(str, self))


@dataclass(frozen=True, repr=False)
class Costs(Brief):
    """The cost of an epoch.

    Requests and bytes are counted from the assembly of the previous cut to that of this one, so the
    write of a cut counts for the next epoch. The first cut of a run counts from the time at which
    the run took over the query.

    Attributes:
        driver: requests and bytes of the driver.
        executors: requests and bytes of all executors, by their reports until then.
        executor_count: number of executors that have reported since the driver started.
        slowest: the slowest stores.
    """

    driver: Usage
    executors: Usage
    executor_count: int
    slowest: StoreTimes

    @property
    def all(self) -> Usage:
        """The sum of the driver and the executors."""
        return self.driver + self.executors


def costs_of(fields: Any) -> Costs:
    """The costs in a cut.

    Raises:
        ValueError: the value is invalid.
    """
    if not isinstance(fields, dict):
        raise ValueError("costs is not a JSON object")
    executors = typed(fields, "executors", dict)
    return Costs(
        driver=usage_of(typed(fields, "driver", dict)),
        executors=usage_of(executors),
        executor_count=typed(executors, "count", int, 0),
        slowest=store_times_of(typed(fields, "slowest", list)),
    )


def usage_of(fields: dict[str, Any]) -> Usage:
    """The usage of one side. Numbers that an older release did not count are 0."""
    requests = typed(fields, "requests", dict)
    return Usage(
        RequestsByKind({kind: _count(count, kind) for kind, count in sorted(requests.items())}),
        *(typed(fields, name, int, 0) for name in _NUMBERS),
    )


def store_times_of(fields: list[Any]) -> StoreTimes:
    """The times of stores."""
    return StoreTimes(map(_store_time, fields))


def _count(fields: Any, kind: str) -> RequestCount:
    if not isinstance(fields, dict):
        raise ValueError(f"the requests of kind {kind} are no JSON object")
    names = ("requests", "retries", "failures")
    return RequestCount(*(typed(fields, name, int, 0) for name in names))


def _store_time(fields: Any) -> StoreTime:
    if not isinstance(fields, dict):
        raise ValueError("the time of a store is not a JSON object")
    return StoreTime(
        operator=typed(fields, "operator", int),
        partition=typed(fields, "partition", int),
        store=typed(fields, "store", str),
        executor=typed(fields, "executor", str, ""),
        host=typed(fields, "host", str, ""),
        ms=typed(fields, "ms", int, 0),
    )
