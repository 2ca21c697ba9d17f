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
class ChannelInfo(Brief):
    """One channel of one partition in an epoch, in the attempt that decided on it.

    What was not measured is None: an older release wrote the cut, or an earlier run decided.

    Attributes:
        operator: Spark's id of the stateful operator that the channel leads to.
        partition: of its state.
        channel: its name; `Checkpoint.in_flight` takes the `side`.
        rows: how many came through it, those of the epoch before included.
        rows_in_flight: how many of them stayed.
        bytes_in_flight: their size.
        rows_replayed: rows of the epoch before, which came first.
        rows_beyond_bound: rows that were handed on although the task was overtaken, because more
            than `maxInFlightBytes` would have stayed.
        arrived_ms: milliseconds, by the driver's clock, from when the first task of the epoch
            began to read a channel until this one had been read to its end.
        overtaken_ms: likewise, until the order was given that its task be overtaken; None too if
            it was not, or had arrived before.
        capture_ms: milliseconds, by the executor's clock, from when it heard of that until the
            rows in flight were written.
    """

    operator: int
    partition: int
    channel: str
    rows: int
    rows_in_flight: int
    bytes_in_flight: int | None = field(metadata=rank(1))
    rows_replayed: int | None = field(metadata=rank(3))
    rows_beyond_bound: int | None = field(metadata=rank(4))
    arrived_ms: int | None = field(metadata=rank(2))
    overtaken_ms: int | None = field(metadata=rank(2))
    capture_ms: int | None = field(metadata=rank(1))

    @property
    def side(self) -> int:
        """Which input of the operator it is; a join has 0 and 1."""
        return int(self.channel.removeprefix(CHANNEL_PREFIX))

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
        rows_in_flight: rows that stayed.
        bytes_in_flight: their size.
        rows_replayed: rows of the epoch before.
        rows_beyond_bound: rows that the epoch waited for because of `maxInFlightBytes`.
        overtaken: the partitions that were overtaken.
    """

    operator: int
    mode: CutMode
    alignment_ms: int | None
    barrier_to_capture_ms: int | None
    capture_ms: int | None
    rows_in_flight: int
    bytes_in_flight: int | None
    rows_replayed: int | None
    rows_beyond_bound: int | None
    overtaken: tuple[int, ...]

    def __str__(self) -> str:
        text = f"{self.mode}, {self.rows_in_flight} rows in flight"
        if self.alignment_ms is not None:
            text += f", alignment {self.alignment_ms} ms"
        if self.overtaken:
            text += f", {len(self.overtaken)} partitions overtaken"
        if self.barrier_to_capture_ms is not None:
            text += f", barrier to capture {self.barrier_to_capture_ms} ms"
        return text


def operator_cuts(channels: Iterable[ChannelInfo]) -> tuple[OperatorCut, ...]:
    """Draws channels together by operator."""
    by_place = sorted(channels, key=lambda of: (of.operator, of.partition, of.channel))
    grouped = groupby(by_place, key=lambda of: of.operator)
    return tuple(_operator_cut(operator, list(of)) for operator, of in grouped)


def _operator_cut(operator: int, channels: list[ChannelInfo]) -> OperatorCut:
    arrived = _known(of.arrived_ms for of in channels)
    rows_in_flight = sum(of.rows_in_flight for of in channels)
    return OperatorCut(
        operator=operator,
        mode="unaligned" if rows_in_flight else "aligned",
        alignment_ms=max(arrived) - min(arrived) if arrived else None,
        barrier_to_capture_ms=longest(of.barrier_to_capture_ms for of in channels),
        capture_ms=longest(of.capture_ms for of in channels),
        rows_in_flight=rows_in_flight,
        bytes_in_flight=_total(of.bytes_in_flight for of in channels),
        rows_replayed=_total(of.rows_replayed for of in channels),
        rows_beyond_bound=_total(of.rows_beyond_bound for of in channels),
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


def channels_of(fields: Any) -> tuple[ChannelInfo, ...]:
    """The channels in a cut.

    Raises:
        ValueError: they are not what a writer makes.
    """
    if not isinstance(fields, list):
        raise ValueError("channels is not a JSON array")
    return tuple(map(_channel, fields))


def _channel(fields: Any) -> ChannelInfo:
    if not isinstance(fields, dict):
        raise ValueError("a channel is not a JSON object")
    is_measured = "arrivedMs" in fields

    def number(name: str, default: int | None = None) -> int | None:
        found: int | None = typed(fields, name, int, default) if is_measured else None
        return found

    return ChannelInfo(
        operator=typed(fields, "operator", int),
        partition=typed(fields, "partition", int),
        channel=typed(fields, "store", str),
        rows=typed(fields, "rows", int),
        rows_in_flight=typed(fields, "rowsInFlight", int),
        bytes_in_flight=number("bytesInFlight", 0),
        rows_replayed=number("rowsReplayed", 0),
        rows_beyond_bound=number("rowsBeyondBound", 0),
        arrived_ms=number("arrivedMs"),
        overtaken_ms=number("overtakenMs"),
        capture_ms=number("captureMs"),
    )
