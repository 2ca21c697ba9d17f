"""What a row is in Redis: its key, and the fields of a hash, a string, or an entry of a stream."""

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

# Of which Spark's cast to a text, or the bytes themselves, are what everybody expects.
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
    """How the key of a row is put together.

    Attributes:
        parts: texts, and the name of the column that comes after each; None after the last.
    """

    parts: tuple[tuple[str, str | None], ...]

    @staticmethod
    def parse(template: str) -> "KeyTemplate":
        """Reads a template.

        Raises:
            ValueError: it is none, with the reason.
        """
        found = []
        for text, name, spec, conversion in string.Formatter().parse(template):
            if name is not None and (not name or spec or conversion):
                raise ValueError("in the template of a key stand names of columns, as in 'k:{k}'")
            found.append((text, name))
        if not found or not any(text or name for text, name in found):
            raise ValueError("the template of a key is empty")
        for (_, before), (text, after) in itertools.pairwise(found):
            if before and after and not text:
                raise ValueError(f"nothing stands between {before} and {after} in the key")
        return KeyTemplate(tuple(found))

    @property
    def columns(self) -> list[str]:
        """The names of the columns in it, in their order."""
        return [name for _, name in self.parts if name]

    def key(self, values: Sequence[str | None]) -> str:
        """The key of a row.

        Raises:
            ValueError: a value is null, or has in it what the template has after it, so that two
                rows could have one key.
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
            # Behind the last column nothing can be mistaken.
            is_last = not any(of for _, of in self.parts[at + 1 :])
            if not is_last and (value + after).find(after) != len(value):
                raise ValueError(
                    f"{name} is {value!r} in a row, and has in it what stands after it in the"
                    f" template of the key, {after!r}: two rows could have one key"
                )
            made += value
        return made


@dataclass(frozen=True)
class RowPlan:
    """How executors write rows down.

    Attributes:
        template: of the key; None for a stream, whose name is `stream`.
        stream: its name.
        kind: "hash", "string" or "stream".
        fields: the names of the columns of values, in their order; one, of JSON, for "string".
        deletes: whether the last column says that the row deletes its key.
    """

    template: KeyTemplate | None
    stream: str
    kind: str
    fields: tuple[str, ...]
    deletes: bool

    def parts(self, row: Sequence[Any]) -> list[bytes | str | int]:
        """A row as the scripts read it.

        Raises:
            ValueError: it has no key, or a stream nothing to take.
        """
        keys = len(self.template.columns) if self.template else 0
        key = self.template.key(row[:keys]) if self.template else self.stream
        if self.deletes and row[-1]:
            return [key, -1]
        values = row[keys : keys + len(self.fields)]
        if self.kind == "string":
            return [key, 1, values[0]]
        told: list[bytes | str | int] = []
        for name, value in zip(self.fields, values, strict=True):
            if value is not None:
                told += [name, _moment(value) if isinstance(value, datetime.datetime) else value]
        if self.kind == "stream" and not told:
            raise ValueError("a row has nothing but nulls, and an entry of a stream a field")
        return [key, len(told), *told]


def _moment(value: datetime.datetime) -> str:
    return value.isoformat(timespec="microseconds").replace("+00:00", "Z")


def refused_types(schema: "StructType") -> list[str]:
    """The columns that have no form in Redis, with their types."""
    taken = _PLAIN | _NESTED | _AS_THEY_ARE
    return [
        f"{of.name} ({of.dataType.simpleString()})"
        for of in schema.fields
        if by_name(of.dataType) not in taken
    ]


def as_field(column: "Column", kind: "DataType") -> "Column":
    """A column as it goes into a field: bytes, a moment, or a text."""
    name = by_name(kind)
    if name in _AS_THEY_ARE:
        return column
    return as_json(column) if name in _NESTED else column.cast("string")


def as_document(columns: "Sequence[Column]") -> "Column":
    """All columns as one JSON object, with those that are null."""
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
    """Writes a partition into a list of its own; gives its name, how many rows, and elements.

    Of a task that runs twice both lists may be there. Spark counts one of them.
    """
    import pyarrow as pa

    rows = (row for batch in batches for row in _values(batch))
    first = next(rows, None)
    if first is None:
        return
    attempt = secrets.token_hex(8)
    # First: what is not named there nobody would take away. The rows are read once, so only this
    # can be tried again here.
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
    """Adds rows to a list, some in each request; how many rows these were, and elements."""
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
    """The rows of a batch; moments in UTC."""
    import pyarrow as pa

    columns = [
        column.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(column.type) else column
        for column in batch.columns
    ]
    return zip(*(column.to_pylist() for column in columns), strict=True)
