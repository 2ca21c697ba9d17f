"""The cells of a row in Spark's UnsafeRow form, as far as Spark's hash of them is known."""

from collections.abc import Sequence

from cleancut._unsafe_rows.column_cells import MisfitError
from cleancut._unsafe_rows.encoded import Cell
from cleancut._unsafe_rows.rows import Struct
from cleancut._unsafe_rows.scalars import (
    Binary,
    Bool,
    Column,
    Decimal,
    Fixed,
    Null,
    Text,
    YearMonthInterval,
)

_WORD = 8
_SMALL_DECIMAL_DIGITS = 18


def is_hashed(column: Column) -> bool:
    """Whether the hash of such a column is known."""
    if isinstance(column, Struct):
        return all(is_hashed(field.column) for field in column.fields)
    return isinstance(column, Fixed | Bool | Null | Binary | Text | Decimal | YearMonthInterval)


def stored_cells(columns: Struct, row: bytes) -> Sequence[Cell]:
    """The cells of a row.

    Raises:
        MisfitError: the row does not fit its columns.
    """
    null_bytes = _WORD * ((len(columns.fields) + 63) // 64)
    if len(row) < null_bytes + _WORD * len(columns.fields):
        raise MisfitError(f"a row is too short for {len(columns.fields)} fields")
    nulls = int.from_bytes(row[:null_bytes], "little")
    return [
        Cell(field.column, None)
        if nulls >> at & 1
        else _cell(field.column, row, null_bytes + _WORD * at)
        for at, field in enumerate(columns.fields)
    ]


def _cell(column: Column, row: bytes, at: int) -> Cell:
    word = row[at : at + _WORD]
    is_small = isinstance(column, Decimal) and column.precision <= _SMALL_DECIMAL_DIGITS
    if not isinstance(column, Text | Binary | Struct | Decimal) or is_small:
        return Cell(column, word[: _WORD if is_small else column.width])
    size, offset = int.from_bytes(word[:4], "little"), int.from_bytes(word[4:], "little")
    piece = row[offset : offset + size]
    if len(piece) < size:
        raise MisfitError(f"a value of {size} bytes ends beyond its row")
    return Cell(column, piece, stored_cells(column, piece) if isinstance(column, Struct) else ())
