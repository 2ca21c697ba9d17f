"""What an epoch made of its channels: how long it aligned, and what it left in flight."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal

from cleancut._brief import Brief
from cleancut._display.tables import rank
from cleancut._format.fields import typed
from cleancut._format.layout import CHANNEL_PREFIX

CutMode = Literal["aligned", "unaligned"]


@dataclass(frozen=True, repr=False)
class ShuffleInputInfo(Brief):
    """One shuffle input of one partition in an epoch, in the attempt that counts.

    Values that were not measured are None, as when an earlier run decided.

    Attributes:
        operator: Spark's operator id of the stateful operator.
        partition: Spark's partition id.
        store: name of the store of its in-flight rows; `Checkpoint.in_flight` takes the `side`.
        rows: number of rows of the shuffle input, including replayed ones.
        in_flight_rows: number of rows that the cut stores.
        in_flight_bytes: size of these rows.
        replayed_rows: number of in-flight rows of the previous epoch, which are processed first.
        over_limit_rows: number of rows that were processed although the task was overtaken, because
            `maxInFlightBytes` was reached.
        arrived_ms: milliseconds, by the driver's clock, from the first read of a shuffle input in
            the epoch to the end of this one.
        overtaken_ms: milliseconds, by the driver's clock, from the first read of a shuffle input to
            the order to overtake this task; None if it was not overtaken.
        capture_ms: milliseconds, by the executor's clock, from the order until the in-flight rows
            were written.
    """

    operator: int
    partition: int
    store: str
    rows: int
    in_flight_rows: int
    in_flight_bytes: int | None = field(metadata=rank(1))
    replayed_rows: int | None = field(metadata=rank(3))
    over_limit_rows: int | None = field(metadata=rank(4))
    arrived_ms: int | None = field(metadata=rank(2))
    overtaken_ms: int | None = field(metadata=rank(2))
    capture_ms: int | None = field(metadata=rank(1))

    @property
    def side(self) -> int:
        """The input of the operator; a join has 0 and 1."""
        return int(self.store.removeprefix(CHANNEL_PREFIX))

    @property
    def barrier_to_capture_ms(self) -> int | None:
        """Milliseconds from the order until the channel had arrived, by the driver's clock."""
        if self.arrived_ms is None or self.overtaken_ms is None:
            return None
        return self.arrived_ms - self.overtaken_ms


@dataclass(frozen=True, repr=False)
class OperatorCut(Brief):
    """How one stateful operator was cut in an epoch. What was not measured is None.

    Attributes:
        operator: Spark's id of it.
        mode: "unaligned" where rows of it are in flight, else "aligned".
        alignment_ms: how long the channel that arrived first waited for the last, in
            milliseconds by the driver's clock.
        barrier_to_capture_ms: the longest that an overtaken channel took from the driver's order
            until it had arrived, by the driver's clock; None too where none was overtaken.
        capture_ms: the longest that one took from when its executor heard of that until its rows
            were written, by the executor's clock; likewise.
        in_flight_rows: rows that stayed.
        in_flight_bytes: their size.
        replayed_rows: rows of the epoch before.
        over_limit_rows: rows that the epoch waited for because of `maxInFlightBytes`.
        overtaken: the partitions that were overtaken.
    """

    operator: int
    mode: CutMode
    alignment_ms: int | None
    barrier_to_capture_ms: int | None
    capture_ms: int | None
    in_flight_rows: int
    in_flight_bytes: int | None
    replayed_rows: int | None
    over_limit_rows: int | None
    overtaken: tuple[int, ...]

    def __str__(self) -> str:
        text = f"{self.mode}, {self.in_flight_rows} rows in flight"
        if self.alignment_ms is not None:
            text += f", alignment {self.alignment_ms} ms"
        if self.overtaken:
            text += f", {len(self.overtaken)} partitions overtaken"
        if self.barrier_to_capture_ms is not None:
            text += f", barrier to capture {self.barrier_to_capture_ms} ms"
        return text


def operator_cuts(channels: Iterable[ShuffleInputInfo]) -> tuple[OperatorCut, ...]:
    """Draws channels together by operator."""
    by_place = sorted(channels, key=lambda of: (of.operator, of.partition, of.store))
    grouped = groupby(by_place, key=lambda of: of.operator)
    return tuple(_operator_cut(operator, list(of)) for operator, of in grouped)


def _operator_cut(operator: int, channels: list[ShuffleInputInfo]) -> OperatorCut:
    arrived = _known(of.arrived_ms for of in channels)
    in_flight_rows = sum(of.in_flight_rows for of in channels)
    return OperatorCut(
        operator=operator,
        mode="unaligned" if in_flight_rows else "aligned",
        alignment_ms=max(arrived) - min(arrived) if arrived else None,
        barrier_to_capture_ms=longest(of.barrier_to_capture_ms for of in channels),
        capture_ms=longest(of.capture_ms for of in channels),
        in_flight_rows=in_flight_rows,
        in_flight_bytes=_total(of.in_flight_bytes for of in channels),
        replayed_rows=_total(of.replayed_rows for of in channels),
        over_limit_rows=_total(of.over_limit_rows for of in channels),
        overtaken=tuple(sorted({of.partition for of in channels if of.overtaken_ms is not None})),
    )


def longest(times_ms: Iterable[int | None]) -> int | None:
    """The longest of those that are known; None if none is."""
    return max(_known(times_ms), default=None)


def _known(numbers: Iterable[int | None]) -> list[int]:
    return [number for number in numbers if number is not None]


def _total(numbers: Iterable[int | None]) -> int | None:
    known = _known(numbers)
    return sum(known) if known else None


def channels_of(fields: Any) -> tuple[ShuffleInputInfo, ...]:
    """The channels in a cut.

    Raises:
        ValueError: they are not what a writer makes.
    """
    if not isinstance(fields, list):
        raise ValueError("channels is not a JSON array")
    return tuple(map(_channel, fields))


def _channel(fields: Any) -> ShuffleInputInfo:
    if not isinstance(fields, dict):
        raise ValueError("a channel is not a JSON object")
    is_measured = "arrivedMs" in fields

    def number(name: str, default: int | None = None) -> int | None:
        found: int | None = typed(fields, name, int, default) if is_measured else None
        return found

    return ShuffleInputInfo(
        operator=typed(fields, "operator", int),
        partition=typed(fields, "partition", int),
        store=typed(fields, "store", str),
        rows=typed(fields, "rows", int),
        in_flight_rows=typed(fields, "rowsInFlight", int),
        in_flight_bytes=number("bytesInFlight", 0),
        replayed_rows=number("rowsReplayed", 0),
        over_limit_rows=number("rowsBeyondBound", 0),
        arrived_ms=number("arrivedMs"),
        overtaken_ms=number("overtakenMs"),
        capture_ms=number("captureMs"),
    )
