"""The database types of Spark SQL types, and the conversion of their values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cleancut.errors import error_of

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType


@dataclass(frozen=True)
class Form:
    """The conversion of values of one type through the staging table.

    Attributes:
        staged: type of the column in the staging table.
        target: type of the column in a new target.
        prepared: function of Spark that converts the column before it is staged; None if none.
        read: SQL template that converts the staged column `{}`; None if none.
    """

    staged: str
    target: str
    prepared: "Callable[[Column], Column] | None" = None
    read: str | None = None


# Without these options Spark's JSON truncates timestamps to milliseconds.
JSON_OPTIONS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}

# Returns the form of a type, or None if it has none.
Forms = Callable[["DataType"], Form | None]


@dataclass(frozen=True)
class StagedColumn:
    """A column of the batch.

    Attributes:
        name: name in the batch and in the target.
        form: conversion of its values.
    """

    name: str
    form: Form


def column_names(given: str | Sequence[str]) -> tuple[str, ...]:
    """Column names, of which a single one may be given as a string."""
    return (given,) if isinstance(given, str) else tuple(given)


def staged_columns(schema: "StructType", forms: Forms, sink: str) -> tuple[StagedColumn, ...]:
    """The columns of a batch.

    Raises:
        RequestError: CLEANCUT_SINK_REFUSED, columns have no form; it lists all of them.
    """
    fields = [(field.name, field.dataType, forms(field.dataType)) for field in schema.fields]
    lost = [f"{name} ({kind.simpleString()})" for name, kind, form in fields if form is None]
    if lost:
        reason = f"it has no type for these columns: {', '.join(lost)}; cast or drop them"
        raise error_of("CLEANCUT_SINK_REFUSED", sink=sink, reason=reason)
    names = [name for name, _, _ in fields]
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        reason = f"the batch has several columns of these names: {', '.join(duplicates)}"
        raise error_of("CLEANCUT_SINK_REFUSED", sink=sink, reason=reason)
    return tuple(StagedColumn(name, form) for name, _, form in fields if form is not None)


def quoted(name: str) -> str:
    """A column quoted for Spark, so that dots in its name have no meaning."""
    return "`" + name.replace("`", "``") + "`"


def prepared(columns: Sequence[StagedColumn]) -> "list[Column]":
    """The columns that Spark selects for staging."""
    from pyspark.sql import functions as F  # noqa: N812  # the name that all of PySpark uses

    chosen = []
    for column in columns:
        selected = F.col(quoted(column.name))
        if column.form.prepared is not None:
            selected = column.form.prepared(selected)
        chosen.append(selected.alias(column.name))
    return chosen


def as_json(column: "Column") -> "Column":
    """Structs, maps and variants as JSON, with bytes in base 64 and full timestamps."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.to_json(column, JSON_OPTIONS)


def as_text(column: "Column") -> "Column":
    """A column cast to text by Spark."""
    return column.cast("string")


def as_months(column: "Column") -> "Column":
    """The number of months of a year-month interval."""
    return column.cast("interval month").cast("int")


def by_name(kind: "DataType") -> str:
    """The class name of a type, without parameters."""
    return type(kind).__name__


PLAIN_IN_POSTGRES: Mapping[str, str] = {
    "BooleanType": "boolean",
    "ByteType": "smallint",
    "ShortType": "smallint",
    "IntegerType": "integer",
    "LongType": "bigint",
    "FloatType": "real",
    "DoubleType": "double precision",
    "StringType": "text",
    "CharType": "text",
    "VarcharType": "text",
    "BinaryType": "bytea",
    "DateType": "date",
    "TimestampType": "timestamp with time zone",
    "TimestampNTZType": "timestamp without time zone",
    "DayTimeIntervalType": "interval",
}


def postgres_form(kind: "DataType") -> Form | None:
    """The form of a type in PostgreSQL; None for day-month intervals, void and geometries.

    A UDT has none either: cast it to its underlying type.
    """
    name = by_name(kind)
    if name in PLAIN_IN_POSTGRES:
        return Form(PLAIN_IN_POSTGRES[name], PLAIN_IN_POSTGRES[name])
    if name == "DecimalType":
        exact = f"numeric({kind.precision}, {kind.scale})"  # type: ignore[attr-defined]
        return Form("numeric", exact)
    if name == "ArrayType":
        element = postgres_form(kind.elementType)  # type: ignore[attr-defined]
        if element is None:
            return None
        if (
            element.prepared is None
            and element.staged not in ("interval",)
            and (
                by_name(kind.elementType) != "ArrayType"  # type: ignore[attr-defined]
            )
        ):
            return Form(f"{element.staged}[]", f"{element.target}[]")
        return Form("text", "jsonb", as_json, "CAST({} AS jsonb)")
    if name in ("StructType", "MapType"):
        return Form("text", "jsonb", as_json, "CAST({} AS jsonb)") if _has_json(kind) else None
    if name == "VariantType":
        return Form("text", "jsonb", as_json, "CAST({} AS jsonb)")
    if name == "TimeType":
        return Form("text", "time", as_text, "CAST({} AS time)")
    if name == "YearMonthIntervalType":
        return Form("integer", "interval", as_months, "make_interval(months => {})")
    return None


def _has_json(kind: "DataType") -> bool:
    """Whether Spark can write all values of a nested type as JSON."""
    name = by_name(kind)
    if name == "StructType":
        return all(_has_json(field.dataType) for field in kind.fields)  # type: ignore[attr-defined]
    if name == "MapType":
        inner = (kind.keyType, kind.valueType)  # type: ignore[attr-defined]
        return all(map(_has_json, inner))
    if name == "ArrayType":
        return _has_json(kind.elementType)  # type: ignore[attr-defined]
    return postgres_form(kind) is not None


def sqlalchemy_form(plain: Callable[[str], str], has_json: bool, takes_decimals: bool) -> Forms:
    """The forms for a database that SQLAlchemy supports.

    Args:
        plain: returns the database type for one of SQLAlchemy's types.
        has_json: whether the database has a JSON type that accepts text.
        takes_decimals: whether its driver binds decimals; otherwise they are staged as text.
    """
    names = {
        "BooleanType": "Boolean",
        "ByteType": "SmallInteger",
        "ShortType": "SmallInteger",
        "IntegerType": "Integer",
        "LongType": "BigInteger",
        "FloatType": "Double",
        "DoubleType": "Double",
        "StringType": "Text",
        "CharType": "Text",
        "VarcharType": "Text",
        "BinaryType": "LargeBinary",
        "DateType": "Date",
        "TimestampType": "DateTime",
        "TimestampNTZType": "DateTime",
    }

    def form(kind: "DataType") -> Form | None:
        name = by_name(kind)
        if name in names:
            return Form(plain(names[name]), plain(names[name]))
        if name == "DecimalType":
            exact = f"NUMERIC({kind.precision}, {kind.scale})"  # type: ignore[attr-defined]
            return Form(exact, exact) if takes_decimals else Form(plain("Text"), exact, as_text)
        if name in ("StructType", "MapType", "ArrayType") and _has_json(kind):
            return Form(plain("Text"), plain("JSON" if has_json else "Text"), as_json)
        if name == "VariantType":
            return Form(plain("Text"), plain("JSON" if has_json else "Text"), as_json)
        if name == "TimeType":
            return Form(plain("Text"), plain("Text"), as_text)
        return None

    return form
