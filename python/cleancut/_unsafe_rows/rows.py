"""Columns of nested types, and whole rows: from Spark's UnsafeRow form to Arrow.

A row is a bit set of nulls in whole words of 8 bytes, then a cell of 8 bytes for each field, then
the values of variable length. Such a value's cell holds its offset from the start of the row in the
upper and its size in the lower 32 bits. An array is its length in 8 bytes, a bit set, then cells of
the natural width of the element; a map is the size of its array of keys, then both arrays.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from cleancut._unsafe_rows.column_cells import Cells, MisfitError
from cleancut._unsafe_rows.scalars import Column

_WORD = 8


@dataclass(frozen=True)
class Field:
    """A named column of a struct."""

    name: str
    column: Column

    @property
    def arrow(self) -> pa.Field:
        # Always nullable: Spark's state has nulls in fields that its schema calls non-null.
        return pa.field(self.name, self.column.arrow)


@dataclass(frozen=True)
class Struct:
    """A row, or a row within a row."""

    fields: tuple[Field, ...]
    width = 8

    @property
    def arrow(self) -> pa.DataType:
        return pa.struct([field.arrow for field in self.fields])

    def decode(self, cells: Cells) -> pa.Array:
        return cells.spread(self.decode_rows(cells.pieces()))

    def decode_rows(self, rows: Sequence[bytes]) -> pa.StructArray:
        """Whole rows to a struct array; raises MisfitError."""
        if not self.fields:
            return pa.array([{}] * len(rows), self.arrow)
        null_words = _words(len(self.fields))
        row_words = null_words + len(self.fields)
        heads = [row[: _WORD * row_words] for row in rows]
        if any(len(head) < _WORD * row_words for head in heads):
            raise MisfitError(f"a row is too short for {len(self.fields)} fields")
        words = memoryview(b"".join(heads)).cast("Q")
        columns = []
        for i, field in enumerate(self.fields):
            bits = words[i // 64 :: row_words].tolist()
            nulls = [bool(word >> (i % 64) & 1) for word in bits] if any(bits) else None
            raw = words[null_words + i :: row_words].tobytes()
            columns.append(field.column.decode(Cells(_WORD, raw, nulls, rows)))
        return pa.StructArray.from_arrays(columns, fields=[field.arrow for field in self.fields])


@dataclass(frozen=True)
class List:
    """An array of one element type."""

    element: Column
    width = 8

    @property
    def arrow(self) -> pa.DataType:
        return pa.list_(pa.field("element", self.element.arrow))

    def decode(self, cells: Cells) -> pa.Array:
        offsets, elements = _flatten(cells.pieces(), self.element)
        lists = pa.ListArray.from_arrays(offsets, elements, type=self.arrow)
        return cells.spread(lists)


@dataclass(frozen=True)
class Map:
    """An array of keys and one of values."""

    key: Column
    value: Column
    width = 8

    @property
    def arrow(self) -> pa.DataType:
        return pa.map_(self.key.arrow, self.value.arrow)

    def decode(self, cells: Cells) -> pa.Array:
        pieces = cells.pieces()
        ends = [_WORD + int.from_bytes(piece[:_WORD], "little") for piece in pieces]
        halves = list(zip(pieces, ends, strict=True))
        offsets, keys = _flatten([piece[_WORD:end] for piece, end in halves], self.key)
        value_offsets, values = _flatten([piece[end:] for piece, end in halves], self.value)
        if not offsets.equals(value_offsets):
            raise MisfitError("a map has more keys than values, or fewer")
        if keys.null_count:
            raise MisfitError("a map has a key that is null")
        return cells.spread(pa.MapArray.from_arrays(offsets, keys, values, type=self.arrow))


def _flatten(arrays: Sequence[bytes], element: Column) -> tuple[pa.Array, pa.Array]:
    """All elements of many arrays as one column, and the offset of each array in it."""
    offsets, raws, nulls = [0], [], list[bool]()
    owners: list[bytes] = []
    for array in arrays:
        count = int.from_bytes(array[:_WORD], "little")
        start = _WORD * (1 + _words(count))
        end = start + count * element.width
        if len(array) < max(end, _WORD):
            raise MisfitError(f"an array of {count} elements does not fit into {len(array)} bytes")
        bits = int.from_bytes(array[_WORD:start], "little")
        nulls += [bool(bits >> i & 1) for i in range(count)] if bits else [False] * count
        raws.append(array[start:end])
        owners += [array] * count
        offsets.append(len(owners))
    cells = Cells(element.width, b"".join(raws), nulls if any(nulls) else None, owners)
    return pa.array(offsets, pa.int32()), element.decode(cells)


def _words(bits: int) -> int:
    return (bits + 63) // 64
