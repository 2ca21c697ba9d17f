"""The capture of shuffle inputs in an epoch: alignment times and in-flight rows."""

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
        """Milliseconds from the order until the input had arrived, by the driver's clock."""
        if self.arrived_ms is None or self.overtaken_ms is None:
            return None
        return self.arrived_ms - self.overtaken_ms


@dataclass(frozen=True, repr=False)
class OperatorCut(Brief):
    """The capture of one stateful operator in an epoch. Values that were not measured are None.

    Attributes:
        operator: Spark's operator id.
        mode: "unaligned" if it has in-flight rows, else "aligned".
        alignment_ms: milliseconds between the first and the last shuffle input to arrive, by the
            driver's clock.
        barrier_to_capture_ms: longest time from the driver's order to overtake a shuffle input
            until the input arrived, by the driver's clock; also None if none was overtaken.
        capture_ms: longest time from the order's arrival at the executor until the in-flight rows
            were written, by the executor's clock; also None if none was overtaken.
        in_flight_rows: number of in-flight rows.
        in_flight_bytes: size of these rows.
        replayed_rows: number of in-flight rows of the previous epoch.
        over_limit_rows: number of rows that were processed because `maxInFlightBytes` was reached.
        overtaken: the overtaken partitions.
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
        text = f"{self.mode}, {self.in_flight_rows} in-flight rows"
        if self.alignment_ms is not None:
            text += f", alignment {self.alignment_ms} ms"
        if self.overtaken:
            text += f", {len(self.overtaken)} partitions overtaken"
        if self.barrier_to_capture_ms is not None:
            text += f", barrier to capture {self.barrier_to_capture_ms} ms"
        return text


def operator_cuts(channels: Iterable[ShuffleInputInfo]) -> tuple[OperatorCut, ...]:
    """Combines shuffle inputs by operator."""
    by_place = sorted(
        channels,
        key=lambda shuffle_input: (
            shuffle_input.operator,
            shuffle_input.partition,
            shuffle_input.store,
        ),
    )
    grouped = groupby(by_place, key=lambda shuffle_input: shuffle_input.operator)
    return tuple(
        _operator_cut(operator, list(shuffle_input)) for operator, shuffle_input in grouped
    )


def _operator_cut(operator: int, channels: list[ShuffleInputInfo]) -> OperatorCut:
    arrived = _known(shuffle_input.arrived_ms for shuffle_input in channels)
    in_flight_rows = sum(shuffle_input.in_flight_rows for shuffle_input in channels)
    return OperatorCut(
        operator=operator,
        mode="unaligned" if in_flight_rows else "aligned",
        alignment_ms=max(arrived) - min(arrived) if arrived else None,
        barrier_to_capture_ms=longest(
            shuffle_input.barrier_to_capture_ms for shuffle_input in channels
        ),
        capture_ms=longest(shuffle_input.capture_ms for shuffle_input in channels),
        in_flight_rows=in_flight_rows,
        in_flight_bytes=_total(shuffle_input.in_flight_bytes for shuffle_input in channels),
        replayed_rows=_total(shuffle_input.replayed_rows for shuffle_input in channels),
        over_limit_rows=_total(shuffle_input.over_limit_rows for shuffle_input in channels),
        overtaken=tuple(
            sorted(
                {
                    shuffle_input.partition
                    for shuffle_input in channels
                    if shuffle_input.overtaken_ms is not None
                }
            )
        ),
    )


def longest(times_ms: Iterable[int | None]) -> int | None:
    """The longest known time; None if none is known."""
    return max(_known(times_ms), default=None)


def _known(numbers: Iterable[int | None]) -> list[int]:
    return [number for number in numbers if number is not None]


def _total(numbers: Iterable[int | None]) -> int | None:
    known = _known(numbers)
    return sum(known) if known else None


def channels_of(fields: Any) -> tuple[ShuffleInputInfo, ...]:
    """The shuffle inputs in a cut.

    Raises:
        ValueError: the value is invalid.
    """
    if not isinstance(fields, list):
        raise ValueError("channels is not a JSON array")
    return tuple(map(_channel, fields))


def _channel(fields: Any) -> ShuffleInputInfo:
    if not isinstance(fields, dict):
        raise ValueError("a channel is not a JSON object")
    is_measured = "arrivedMs" in fields

    def number(name: str, default: int | None = None) -> int | None:
        value: int | None = typed(fields, name, int, default) if is_measured else None
        return value

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
