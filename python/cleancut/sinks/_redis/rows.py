"""The form of rows in Redis: their key, and the fields of a hash, a string or a stream entry."""

import datetime
import itertools
import secrets
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cleancut.errors import error_of
from cleancut.sinks._core.columns import JSON_OPTIONS, as_json, by_name
from cleancut.sinks._core.database import scrubbed
from cleancut.sinks._redis.server import RedisServer

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

# Types whose cast to text by Spark, or whose bytes, are the expected form.
_PLAIN = {
    "BooleanType", "ByteType", "ShortType", "IntegerType", "LongType", "FloatType", "DoubleType",
    "DecimalType", "StringType", "CharType", "VarcharType", "DateType", "TimestampNTZType",
    "TimeType", "DayTimeIntervalType", "YearMonthIntervalType",
}  # fmt: skip
_NESTED = {"StructType", "MapType", "ArrayType", "VariantType"}
_AS_THEY_ARE = {"BinaryType", "TimestampType"}
_ROWS_AT_ONCE = 500


@dataclass(frozen=True)
class KeyTemplate:
    """The template of the keys of rows.

    Attributes:
        parts: texts, each with the name of the column that follows it; None after the last text.
    """

    parts: tuple[tuple[str, str | None], ...]

    @staticmethod
    def parse(template: str) -> "KeyTemplate":
        """Parses a template.

        Raises:
            ValueError: the template is invalid.
        """
        parts = []
        for text, name, spec, conversion in string.Formatter().parse(template):
            if name is not None and (not name or spec or conversion):
                raise ValueError("the template of a key contains column names, as in 'k:{k}'")
            parts.append((text, name))
        if not parts or not any(text or name for text, name in parts):
            raise ValueError("the template of a key is empty")
        for (_, before), (text, after) in itertools.pairwise(parts):
            if before and after and not text:
                raise ValueError(f"there is no text between {before} and {after} in the key")
        return KeyTemplate(tuple(parts))

    @property
    def columns(self) -> list[str]:
        """The names of its columns, in order."""
        return [name for _, name in self.parts if name]

    def key(self, values: Sequence[str | None]) -> str:
        """The key of a row.

        Raises:
            ValueError: a value is null, or contains the text that follows it in the template, so
                that two rows could have the same key.
        """
        made, given = "", iter(values)
        texts = [text for text, _ in self.parts[1:]]
        for at, (text, name) in enumerate(self.parts):
            made += text
            if name is None:
                continue
            value = next(given)
            if value is None:
                raise ValueError(f"a row has no {name}, which is in the key")
            after = texts[at] if at < len(texts) else ""
            # After the last column there is no ambiguity.
            is_last = not any(name for _, name in self.parts[at + 1 :])
            if not is_last and (value + after).find(after) != len(value):
                raise ValueError(
                    f"{name} is {value!r} in a row, and contains the text that follows it in the"
                    f" template of the key, {after!r}: two rows could have the same key"
                )
            made += value
        return made


@dataclass(frozen=True)
class RowPlan:
    """The layout of written rows.

    Attributes:
        template: template of the key; None for a stream.
        stream: name of the stream.
        kind: "hash", "string" or "stream".
        fields: the names of the value columns, in order; one JSON column for "string".
        deletes: whether the last column marks rows that delete their key.
    """

    template: KeyTemplate | None
    stream: str
    kind: str
    fields: tuple[str, ...]
    deletes: bool

    def parts(self, row: Sequence[Any]) -> list[bytes | str | int]:
        """A row in the form that the scripts read.

        Raises:
            ValueError: it has no key, or no value for a stream entry.
        """
        keys = len(self.template.columns) if self.template else 0
        key = self.template.key(row[:keys]) if self.template else self.stream
        if self.deletes and row[-1]:
            return [key, -1]
        values = row[keys : keys + len(self.fields)]
        if self.kind == "string":
            return [key, 1, values[0]]
        encoded: list[bytes | str | int] = []
        for name, value in zip(self.fields, values, strict=True):
            if value is not None:
                encoded += [name, _moment(value) if isinstance(value, datetime.datetime) else value]
        if self.kind == "stream" and not encoded:
            raise ValueError("a row has only nulls, but a stream entry requires a field")
        return [key, len(encoded), *encoded]


def _moment(value: datetime.datetime) -> str:
    return value.isoformat(timespec="microseconds").replace("+00:00", "Z")


def refused_types(schema: "StructType") -> list[str]:
    """The columns without a form in Redis, with their types."""
    taken = _PLAIN | _NESTED | _AS_THEY_ARE
    return [
        f"{field.name} ({field.dataType.simpleString()})"
        for field in schema.fields
        if by_name(field.dataType) not in taken
    ]


def as_field(column: "Column", kind: "DataType") -> "Column":
    """A column as the value of a field: bytes, a timestamp, or text."""
    name = by_name(kind)
    if name in _AS_THEY_ARE:
        return column
    return as_json(column) if name in _NESTED else column.cast("string")


def as_document(columns: "Sequence[Column]") -> "Column":
    """All columns as one JSON object, nulls included."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.to_json(F.struct(*columns), JSON_OPTIONS | {"ignoreNullFields": "false"})


def stage_rows(
    server: RedisServer,
    base: str,
    plan: RowPlan,
    sink: str,
    seconds: float,
    batches: "Iterator[pa.RecordBatch]",
) -> "Iterator[pa.RecordBatch]":
    """Writes a partition into a list of its own; returns its name, its rows and its elements.

    If a task runs twice, both lists may exist. Spark counts one of them.
    """
    import pyarrow as pa

    rows = (row for batch in batches for row in _values(batch))
    first = next(rows, None)
    if first is None:
        return
    attempt = secrets.token_hex(8)
    # Registered first, because unregistered lists would never be deleted. The rows are read
    # once, so only this step can be retried here.
    server.within(lambda client: client.sadd(base, attempt), seconds, sink)
    try:
        with server.connected() as client:
            count, elements = _push(client, f"{base}:{attempt}", plan, first, rows)
    except ValueError as problem:
        raise error_of("CLEANCUT_SINK_REFUSED", sink=sink, reason=problem) from None
    except Exception as failure:
        verdict, detail = server.verdict(failure), scrubbed(failure, server.secrets())
        if verdict == "foreign":
            raise
        if verdict == "error":
            raise error_of("CLEANCUT_SINK_REFUSED", sink=sink, reason=detail) from None
        raise error_of("CLEANCUT_SINK_UNREACHABLE", sink=sink, seconds=0, detail=detail) from None
    yield pa.RecordBatch.from_pydict(
        {
            "attempt": pa.array([attempt]),
            "rows": pa.array([count], pa.int64()),
            "elements": pa.array([elements], pa.int64()),
        }
    )


def _push(
    client: Any, name: str, plan: RowPlan, first: Sequence[Any], rows: Iterator[Sequence[Any]]
) -> tuple[int, int]:
    """Adds rows to a list, several per request; returns the numbers of rows and elements."""
    count = elements = 0
    waiting: list[bytes | str | int] = []
    row: Sequence[Any] | None = first
    while row is not None:
        waiting += plan.parts(row)
        count += 1
        row = next(rows, None)
        if row is None or count % _ROWS_AT_ONCE == 0:
            client.rpush(name, *waiting)
            elements += len(waiting)
            waiting = []
    return count, elements


def _values(batch: "pa.RecordBatch") -> Iterator[Sequence[Any]]:
    """The rows of a batch; timestamps in UTC."""
    import pyarrow as pa

    columns = [
        column.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(column.type) else column
        for column in batch.columns
    ]
    return zip(*(column.to_pylist() for column in columns), strict=True)
