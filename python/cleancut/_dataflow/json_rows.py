"""Rows as JSON, of which readers get what was sent: which types can, and how they are written."""

from typing import TYPE_CHECKING

from cleancut.sinks._core.columns import JSON_OPTIONS, by_name, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

# ChannelTopic.scala reads by the same forms of times.
_OPTIONS = {"ignoreNullFields": "false", "timeZone": "UTC", **JSON_OPTIONS}
_PLAIN = frozenset(
    f"{name}Type"
    for name in (
        *("Boolean", "Byte", "Short", "Integer", "Long", "Float", "Double", "Decimal"),
        *("String", "Binary", "Date", "Timestamp", "TimestampNTZ", "Null"),
    )
)


def not_in_json(schema: "StructType") -> str | None:
    """Why rows cannot be JSON; None if they can."""
    for field in schema.fields:
        if not _fits(field.dataType):
            told = field.dataType.simpleString()
            return f"their column {field.name} is {told}, which does not come back out of JSON"
    return None


def _fits(kind: "DataType") -> bool:
    from pyspark.sql.types import ArrayType, MapType, StringType, StructType

    match kind:
        case StructType():
            return all(_fits(field.dataType) for field in kind.fields)
        case ArrayType():
            return _fits(kind.elementType)
        case MapType():
            # Keys are names there, and Spark reads no others.
            return isinstance(kind.keyType, StringType) and _fits(kind.valueType)
    return by_name(kind) in _PLAIN


def as_json(rows: "DataFrame") -> "DataFrame":
    """Rows as records: a column `value`, of bytes."""
    from pyspark.sql import functions as F  # noqa: N812  # the name that all of PySpark uses

    whole = F.struct(*(F.col(quoted(name)) for name in rows.columns))
    return rows.select(F.to_json(whole, _OPTIONS).cast("binary").alias("value"))
