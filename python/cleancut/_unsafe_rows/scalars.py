"""Columns of scalar types: from cells in Spark's UnsafeRow form to Arrow."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from cleancut._unsafe_rows.column_cells import Cells, MisfitError
from cleancut.errors import error_of

_DECIMAL_BYTES = 16
_INTERVAL_BYTES = 16
_NANOS_PER_MICRO = 1000


class Column(Protocol):
    """The decoding of one column.

    Attributes:
        arrow: its type in Arrow.
        width: bytes of a cell within an array; a cell within a row always has 8.
    """

    @property
    def arrow(self) -> pa.DataType: ...

    @property
    def width(self) -> int: ...

    def decode(self, cells: Cells) -> pa.Array:
        """Cells to an Arrow array of the same length; raises MisfitError."""
        ...


@dataclass(frozen=True)
class Fixed:
    """A type whose cell has the same form in Arrow.

    Attributes:
        code: type code of Python's `array`.
    """

    arrow: pa.DataType
    width: int
    code: str

    def decode(self, cells: Cells) -> pa.Array:
        data = pa.py_buffer(cells.numbers(self.code))
        return pa.Array.from_buffers(self.arrow, len(cells), [cells.validity(), data])


@dataclass(frozen=True)
class Bool:
    """One byte to a bit."""

    arrow = pa.bool_()
    width = 1

    def decode(self, cells: Cells) -> pa.Array:
        return Fixed(pa.uint8(), 1, "B").decode(cells).cast(self.arrow)


@dataclass(frozen=True)
class Null:
    """The type of a column that can only be null; it has no values."""

    arrow = pa.null()
    width = 0

    def decode(self, cells: Cells) -> pa.Array:
        return pa.nulls(len(cells))


@dataclass(frozen=True)
class Binary:
    """Bytes, unchanged."""

    arrow = pa.binary()
    width = 8

    def decode(self, cells: Cells) -> pa.Array:
        return cells.spread(pa.array(cells.pieces(), self.arrow))


@dataclass(frozen=True)
class Text:
    """UTF-8, which Spark does not enforce.

    Attributes:
        path: name of the column, for errors.
    """

    path: str
    arrow = pa.string()
    width = 8

    def decode(self, cells: Cells) -> pa.Array:
        try:
            return Binary().decode(cells).cast(self.arrow)
        except pa.ArrowInvalid as error:
            raise error_of(
                "CLEANCUT_COLUMN_UNREADABLE",
                column=self.path,
                type="string",
                reason="it has bytes that are not UTF-8",
            ) from error


@dataclass(frozen=True)
class Decimal:
    """A decimal: up to 18 digits as a long in its cell, larger ones big-endian after the cells."""

    precision: int
    scale: int
    width = 8

    @property
    def arrow(self) -> pa.DataType:
        return pa.decimal128(self.precision, self.scale)

    def decode(self, cells: Cells) -> pa.Array:
        if self.precision <= 18:
            small = _decimals(self.arrow, [int(value) for value in cells.numbers("q")])
            return pa.Array.from_buffers(
                self.arrow, len(cells), [cells.validity(), small.buffers()[1]]
            )
        pieces = cells.pieces()
        unscaled = [int.from_bytes(piece, "big", signed=True) for piece in pieces]
        return cells.spread(_decimals(self.arrow, unscaled))


def _decimals(arrow: pa.DataType, unscaled: Sequence[int]) -> pa.Array:
    try:
        raw = b"".join(value.to_bytes(_DECIMAL_BYTES, "little", signed=True) for value in unscaled)
    except OverflowError as error:
        raise MisfitError("a decimal has more than 38 digits") from error
    return pa.Array.from_buffers(arrow, len(unscaled), [None, pa.py_buffer(raw)])


@dataclass(frozen=True)
class YearMonthInterval:
    """A number of months, which Arrow for Python supports only with days and nanoseconds."""

    arrow = pa.month_day_nano_interval()
    width = 4

    def decode(self, cells: Cells) -> pa.Array:
        nulls = cells.nulls or [False] * len(cells)
        months = zip(cells.numbers("i"), nulls, strict=True)
        return pa.array([None if null else (n, 0, 0) for n, null in months], self.arrow)


@dataclass(frozen=True)
class CalendarInterval:
    """Months, days and microseconds, stored after the row's cells."""

    path: str
    arrow = pa.month_day_nano_interval()
    width = 8

    def decode(self, cells: Cells) -> pa.Array:
        pieces = cells.pieces()
        if any(len(piece) != _INTERVAL_BYTES for piece in pieces):
            raise MisfitError("an interval does not have 16 bytes")
        try:
            intervals = pa.array([_interval(piece) for piece in pieces], self.arrow)
        except (OverflowError, pa.ArrowInvalid) as error:
            raise error_of(
                "CLEANCUT_COLUMN_UNREADABLE",
                column=self.path,
                type="interval",
                reason="it has more nanoseconds than Arrow can represent",
            ) from error
        return cells.spread(intervals)


def _interval(piece: bytes) -> tuple[int, int, int]:
    months = int.from_bytes(piece[:4], "little", signed=True)
    days = int.from_bytes(piece[4:8], "little", signed=True)
    micros = int.from_bytes(piece[8:], "little", signed=True)
    return months, days, micros * _NANOS_PER_MICRO
