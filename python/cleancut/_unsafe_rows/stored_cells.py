"""The cells of a row in Spark's UnsafeRow form, and the values that Spark hashes of nested ones."""

from collections.abc import Sequence

from cleancut._unsafe_rows.column_cells import MisfitError
from cleancut._unsafe_rows.encoder import Cell
from cleancut._unsafe_rows.rows import List, Map, Struct
from cleancut._unsafe_rows.scalars import (
    Binary,
    CalendarInterval,
    Column,
    Decimal,
    Text,
)

_WORD = 8
_SMALL_DECIMAL_DIGITS = 18
_BEHIND = Text | Binary | Struct | Decimal | List | Map | CalendarInterval


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
    if not isinstance(column, _BEHIND) or is_small:
        return Cell(column, word[: _WORD if is_small else column.width])
    size, offset = int.from_bytes(word[:4], "little"), int.from_bytes(word[4:], "little")
    piece = row[offset : offset + size]
    if len(piece) < size:
        raise MisfitError(f"a value of {size} bytes ends after its row")
    return Cell(column, piece, _within(column, piece))


def _within(column: Column, piece: bytes) -> Sequence[Cell]:
    """The values that Spark hashes of a nested value, in order."""
    match column:
        case Struct():
            return stored_cells(column, piece)
        case List(element):
            return _elements(element, piece)
        case Map(key, value):
            end = _WORD + int.from_bytes(piece[:_WORD], "little")
            keys, values = _elements(key, piece[_WORD:end]), _elements(value, piece[end:])
            if len(keys) != len(values):
                raise MisfitError("a map has more keys than values, or fewer")
            return [cell for pair in zip(keys, values, strict=True) for cell in pair]
    return ()


def _elements(element: Column, array: bytes) -> Sequence[Cell]:
    count = int.from_bytes(array[:_WORD], "little")
    start = _WORD * (1 + (count + 63) // 64)
    if len(array) < max(start + count * element.width, _WORD):
        raise MisfitError(f"an array of {count} elements does not fit into {len(array)} bytes")
    nulls = int.from_bytes(array[_WORD:start], "little")
    return [
        Cell(element, None)
        if nulls >> at & 1
        else _cell(element, array, start + at * element.width)
        for at in range(count)
    ]
