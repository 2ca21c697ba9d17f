"""Encodes rows in Spark's UnsafeRow form; it shares no code with the package under test.

Types are those of Spark's schema JSON. Values are those that pyarrow returns for them: `date`,
`datetime` (with a time zone for `timestamp`), `timedelta`, `Decimal`, dictionaries for structs,
lists for arrays, lists of pairs for maps, (months, days, nanoseconds) for intervals.
"""

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

MICROSECOND = timedelta(microseconds=1)

# Types that are stored in their cell: the format for `struct`, and the packed value.
FIXED: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "boolean": ("<?", bool),
    "byte": ("<b", int),
    "short": ("<h", int),
    "integer": ("<i", int),
    "long": ("<q", int),
    "float": ("<f", float),
    "double": ("<d", float),
    "date": ("<i", lambda value: (value - date(1970, 1, 1)).days),
    "timestamp": ("<q", lambda value: (value - datetime(1970, 1, 1, tzinfo=UTC)) // MICROSECOND),
    "timestamp_ntz": ("<q", lambda value: (value - datetime(1970, 1, 1)) // MICROSECOND),
    "time(6)": ("<q", lambda value: nanos_of_day(value)),
    "interval year to month": ("<i", lambda value: value[0]),
    "interval day to second": ("<q", lambda value: value // MICROSECOND),
}


def struct_type(**types: Any) -> dict[str, Any]:
    """Returns a `StructType` with nullable fields of these types, as JSON."""
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in types.items()
    ]
    return {"type": "struct", "fields": fields}


def encode_row(schema: Mapping[str, Any], values: Mapping[str, Any]) -> bytes:
    cells = [(field["type"], values[field["name"]]) for field in schema["fields"]]
    return _encode_cells(b"", cells, lambda _: 8, decimal_room=16)


def cell_width(kind: Any) -> int:
    """Returns the bytes of a cell within an array; within a row it always has 8."""
    format_of = FIXED.get(kind) if isinstance(kind, str) else None
    return struct.calcsize(format_of[0]) if format_of else 8


def nanos_of_day(value: time) -> int:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return (seconds * 1_000_000 + value.microsecond) * 1000


def _encode_cells(
    prefix: bytes,
    cells: Sequence[tuple[Any, Any]],
    width: Callable[[Any], int],
    decimal_room: int = 0,
) -> bytes:
    """Encodes null bits, then cells, then variable-length values, each in words of 8 bytes."""
    nulls = sum(1 << i for i, (_, value) in enumerate(cells) if value is None)
    head = prefix + nulls.to_bytes((len(cells) + 63) // 64 * 8, "little")
    behind_at = len(head) + len(_padded(bytes(sum(width(kind) for kind, _ in cells))))
    fixed, behind = b"", b""
    for kind, value in cells:
        cell = b"" if value is None else _in_cell(kind, value)
        # A row has space for any value of a large decimal, also if it is null now.
        digits = _decimal_type(kind)
        room = decimal_room if digits is not None and digits[0] > 18 else 0
        if cell is None or room:
            raw = b"" if value is None else _variable_part(kind, value)
            cell = struct.pack("<II", len(raw), behind_at + len(behind))
            behind += _padded(raw).ljust(room, b"\0")
        fixed += cell.ljust(width(kind), b"\0")
    return head + _padded(fixed) + behind


def _in_cell(kind: Any, value: Any) -> bytes | None:
    if isinstance(kind, str) and kind in FIXED:
        code, stored = FIXED[kind]
        return struct.pack(code, stored(value))
    digits = _decimal_type(kind)
    if digits is not None and digits[0] <= 18:
        return struct.pack("<q", _unscaled(value, digits[1]))
    return None


def _variable_part(kind: Any, value: Any) -> bytes:
    match kind:
        case "string":
            return bytes(value.encode())
        case "binary":
            return bytes(value)
        case "interval":
            months, days, nanos = value
            return struct.pack("<iiq", months, days, nanos // 1000)
        case {"type": "struct"}:
            return encode_row(kind, value)
        case {"type": "array", "elementType": element}:
            return _encode_array(element, value)
        case {"type": "map", "keyType": key, "valueType": mapped}:
            keys = _encode_array(key, [pair[0] for pair in value])
            return (
                struct.pack("<q", len(keys)) + keys + _encode_array(mapped, [v for _, v in value])
            )
    digits = _decimal_type(kind)
    assert digits is not None, kind
    unscaled = _unscaled(value, digits[1])
    # The shortest two's complement, like BigInteger.toByteArray.
    size = ((unscaled if unscaled >= 0 else ~unscaled).bit_length()) // 8 + 1
    return unscaled.to_bytes(size, "big", signed=True)


def _encode_array(element: Any, values: Sequence[Any]) -> bytes:
    cells = [(element, value) for value in values]
    return _encode_cells(struct.pack("<q", len(values)), cells, cell_width)


def _decimal_type(kind: Any) -> tuple[int, int] | None:
    match = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind) if isinstance(kind, str) else None
    return (int(match[1]), int(match[2])) if match else None


def _unscaled(value: Decimal, scale: int) -> int:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    unscaled: int = int("".join(map(str, digits))) * 10 ** (exponent + scale)
    return -unscaled if sign else unscaled


def _padded(raw: bytes) -> bytes:
    return raw.ljust((len(raw) + 7) // 8 * 8, b"\0")
