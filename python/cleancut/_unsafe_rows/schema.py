"""Converts Spark's schemas, as JSON, to columns that can be decoded."""

import re
from collections.abc import Callable, Mapping
from itertools import chain, count
from typing import Any

import pyarrow as pa

from cleancut._unsafe_rows.rows import Field, List, Map, Struct
from cleancut._unsafe_rows.scalars import (
    Binary,
    Bool,
    CalendarInterval,
    Column,
    Decimal,
    Fixed,
    Null,
    Text,
    YearMonthInterval,
)
from cleancut.errors import CleancutError, error_of

_PLAIN: Mapping[str, Column] = {
    "void": Null(),
    "boolean": Bool(),
    "byte": Fixed(pa.int8(), 1, "b"),
    "short": Fixed(pa.int16(), 2, "h"),
    "integer": Fixed(pa.int32(), 4, "i"),
    "long": Fixed(pa.int64(), 8, "q"),
    "float": Fixed(pa.float32(), 4, "f"),
    "double": Fixed(pa.float64(), 8, "d"),
    "date": Fixed(pa.date32(), 4, "i"),
    "timestamp": Fixed(pa.timestamp("us", tz="UTC"), 8, "q"),
    "timestamp_ntz": Fixed(pa.timestamp("us"), 8, "q"),
    "binary": Binary(),
}

_Maker = Callable[[re.Match[str], str], Column]
_PATTERNS: list[tuple[re.Pattern[str], _Maker]] = [
    (re.compile(r"decimal\((\d+),(-?\d+)\)"), lambda m, _: Decimal(int(m[1]), int(m[2]))),
    (re.compile(r"string( collate \w+)?|(var)?char\(\d+\)"), lambda _, path: Text(path)),
    (re.compile(r"time\(\d\)"), lambda _, __: Fixed(pa.time64("ns"), 8, "q")),
    (re.compile(r"interval (year|month)( to month)?"), lambda _, __: YearMonthInterval()),
    (
        re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?"),
        lambda _, __: Fixed(pa.duration("us"), 8, "q"),
    ),
    (re.compile(r"interval"), lambda _, path: CalendarInterval(path)),
]


def struct_of(schema: Mapping[str, Any], path: str) -> Struct:
    """The columns of a `StructType`.

    Args:
        schema: Spark's JSON, parsed.
        path: name of the struct, for errors.

    Raises:
        RequestError: CLEANCUT_COLUMN_UNREADABLE, for a type that this release cannot read.
    """
    fields = schema.get("fields")
    if not isinstance(fields, list):
        raise _unreadable(schema, path)
    taken: set[str] = set()
    return Struct(tuple(_field(field, path, taken) for field in fields))


def _field(field: Any, path: str, taken: set[str]) -> Field:
    match field:
        case {"name": str(name), "type": spark_type}:
            unique_name = _unique(name, taken)
            return Field(unique_name, _column(spark_type, f"{path}.{unique_name}"))
    raise _unreadable(field, path)


def _unique(name: str, taken: set[str]) -> str:
    """The name, with a number appended if an earlier field has it.

    Spark names the buffers of an aggregation by their content, so that `avg(x)` and `count(x)`
    together have two fields `count`; Arrow supports duplicate names poorly.
    """
    names = chain([name], (f"{name}_{number}" for number in count(2)))
    unique_name = next(candidate for candidate in names if candidate not in taken)
    taken.add(unique_name)
    return unique_name


def _column(spark_type: Any, path: str) -> Column:
    if isinstance(spark_type, str):
        return _scalar(spark_type, path)
    match spark_type:
        case {"type": "struct"}:
            return struct_of(spark_type, path)
        case {"type": "array", "elementType": element}:
            return List(_column(element, f"{path}.element"))
        case {"type": "map", "keyType": key, "valueType": value}:
            return Map(_column(key, f"{path}.key"), _column(value, f"{path}.value"))
        case {"type": "udt", "sqlType": stored}:
            return _column(stored, path)
    raise _unreadable(spark_type, path)


def _scalar(name: str, path: str) -> Column:
    if name in _PLAIN:
        return _PLAIN[name]
    for pattern, make in _PATTERNS:
        match = pattern.fullmatch(name)
        if match is not None:
            return make(match, path)
    raise _unreadable(name, path)


def _unreadable(spark_type: object, path: str) -> CleancutError:
    return error_of(
        "CLEANCUT_COLUMN_UNREADABLE",
        column=path,
        type=spark_type,
        reason="this release does not support its layout",
    )
