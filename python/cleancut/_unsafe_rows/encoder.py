"""Encodes Python values as a row in Spark's UnsafeRow form, exactly as Spark's writer does.

The bytes are compared with keys that Spark has written, so every bit counts: unused bytes of a cell
are zero, a value of variable length begins at a multiple of 8, and a large decimal has its 16 bytes
even if it is null.
"""

import json
import math
import struct
from collections.abc import Mapping, Sequence
from decimal import Context
from typing import Any, NamedTuple

import pyarrow as pa

from cleancut._unsafe_rows.rows import Struct
from cleancut._unsafe_rows.scalars import (
    Binary,
    Bool,
    Column,
    Decimal,
    Fixed,
    Text,
    YearMonthInterval,
)

_WORD = 8
_LARGE_DECIMAL_BYTES = 16
_SMALL_DECIMAL_DIGITS = 18
_ALL_DIGITS = Context(prec=40)


class Texts(tuple[str, ...]):
    """The columns of a key as texts, which are parsed by type; a nested row is JSON."""


class Cell(NamedTuple):
    """A value in its encoded form.

    Attributes:
        column: its type.
        raw: its bytes: a number in its natural width, a text or a row as a whole; None is null.
        fields: the cells of a nested row.
    """

    column: Column
    raw: bytes | None
    fields: "Sequence[Cell]" = ()


def cells_of(row: Struct, values: object, path: str, *, normalized: bool = True) -> list[Cell]:
    """The values of a row, checked against its types.

    Args:
        row: the columns.
        values: the values by column name or in order; for a row of one column its value.
        path: name of the row, for errors.
        normalized: whether -0.0 becomes 0.0 and all NaN become equal, as in the keys that Spark
            groups and joins by.

    Raises:
        TypeError: a value is missing, surplus, or does not fit its column.
    """
    names = [field.name for field in row.fields]
    given = _by_name(names, values, path)
    if isinstance(values, Texts):
        given = _parsed(row, given, path)
    return [
        _cell(field.column, given[field.name], f"{path}.{field.name}", normalized=normalized)
        for field in row.fields
    ]


def encoded(cells: Sequence[Cell]) -> bytes:
    """The encoded row."""
    start = _WORD * ((len(cells) + 63) // 64 + len(cells))
    nulls, words, behind = 0, [], b""
    for at, cell in enumerate(cells):
        if cell.raw is None:
            nulls |= 1 << at
        room = _room(cell)
        if room is None:
            words.append((cell.raw or b"").ljust(_WORD, b"\0"))
            continue
        size = len(cell.raw or b"")
        is_placed = cell.raw is not None or isinstance(cell.column, Decimal)
        place = (start + len(behind)) << 32 if is_placed else 0
        words.append(struct.pack("<Q", place | size))
        behind += (cell.raw or b"").ljust(room, b"\0")
    bits = nulls.to_bytes(_WORD * ((len(cells) + 63) // 64), "little")
    return bits + b"".join(words) + behind


def _room(cell: Cell) -> int | None:
    """The size of a value after the cells; None if it is in its cell."""
    if isinstance(cell.column, Decimal):
        is_small = cell.column.precision <= _SMALL_DECIMAL_DIGITS
        return None if is_small else _LARGE_DECIMAL_BYTES
    if isinstance(cell.column, Text | Binary | Struct):
        return (len(cell.raw or b"") + _WORD - 1) // _WORD * _WORD
    return None


def _parsed(row: Struct, texts: Mapping[str, str], path: str) -> Mapping[str, object]:
    parsed_values: dict[str, object] = {}
    for field in row.fields:
        text, field_path = texts[field.name], f"{path}.{field.name}"
        try:
            if isinstance(field.column, Struct):
                inner = {name: str(value) for name, value in json.loads(text).items()}
                parsed_values[field.name] = _parsed(field.column, inner, field_path)
            elif isinstance(field.column, Binary):
                parsed_values[field.name] = bytes.fromhex(text)
            else:
                parsed_values[field.name] = pa.scalar(text).cast(field.column.arrow).as_py()
        except (ValueError, AttributeError, KeyError, pa.ArrowException) as error:
            kind = field.column.arrow
            raise TypeError(
                f"{field_path} is of type {kind}, and cannot be read from {text!r}"
            ) from error
    return parsed_values


def _by_name(names: Sequence[str], values: object, path: str) -> Mapping[str, Any]:
    if isinstance(values, Mapping):
        given: Mapping[str, Any] = values
    elif isinstance(values, list | tuple):
        if len(values) != len(names):
            raise TypeError(f"{path} has {len(names)} fields, {', '.join(names)}, not {values!r}")
        given = dict(zip(names, values, strict=True))
    elif len(names) == 1:
        given = {names[0]: values}
    else:
        raise TypeError(f"{path} has the fields {', '.join(names)}, and is given as {values!r}")
    if set(given) != set(names):
        raise TypeError(f"{path} has the fields {', '.join(names)}, and not {', '.join(given)}")
    return given


def _cell(column: Column, value: object, path: str, *, normalized: bool) -> Cell:
    if value is None:
        return Cell(column, None)
    if isinstance(column, Struct):
        fields = cells_of(column, value, path, normalized=normalized)
        return Cell(column, encoded(fields), fields)
    try:
        raw = _scalar(column, value)
        is_float = pa.types.is_floating(column.arrow)
        return Cell(column, _normalized(raw) if is_float and normalized else raw)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError) as error:
        raise TypeError(f"{path} is of type {column.arrow}, and {value!r} is none") from error


def _scalar(column: Column, value: object) -> bytes:
    match column:
        case Text():
            return bytes(pa.scalar(value, pa.string()).as_py().encode())
        case Binary():
            return bytes(pa.scalar(value, pa.binary()).as_py())
        case Decimal(scale=scale):
            # Fails if digits would be lost.
            exact = pa.scalar(value, column.arrow).as_py()
            unscaled = int(exact.scaleb(scale, context=_ALL_DIGITS))
            if column.precision <= _SMALL_DECIMAL_DIGITS:
                return struct.pack("<q", unscaled)
            return unscaled.to_bytes(_signed_bytes(unscaled), "big", signed=True)
        case Bool():
            if not isinstance(value, bool):
                raise TypeError(value)
            return bytes([value])
        case Fixed():
            is_whole = pa.types.is_integer(column.arrow)
            if isinstance(value, bool) or (is_whole and not hasattr(value, "__index__")):
                raise TypeError(value)
            array = pa.array([value], column.arrow)
            return bytes(array.buffers()[1])[: column.width]
        case YearMonthInterval():
            return struct.pack("<i", pa.scalar(value, column.arrow).as_py().months)
    raise TypeError("no key")


def _normalized(raw: bytes) -> bytes:
    """Spark's form of a floating-point number in a key: one zero, and one NaN."""
    form = "<d" if len(raw) == _WORD else "<f"
    number: float = struct.unpack(form, raw)[0]
    return struct.pack(form, math.nan if math.isnan(number) else number + 0.0)


def _signed_bytes(number: int) -> int:
    """The minimum number of bytes, as for Java's `BigInteger`."""
    return (number if number >= 0 else ~number).bit_length() // 8 + 1
