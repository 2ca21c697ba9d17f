"""Which type of a database the values of a type of Spark SQL have, and how they go there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cleancut.errors import error_of

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType


@dataclass(frozen=True)
class Form:
    """How values of one type go through the staging table.

    Attributes:
        staged: the type of the column of the staging table.
        target: that of a column which holds them, where the target is made.
        prepared: what Spark makes of the column before it is staged; None leaves it as it is.
        read: what the database makes of the staged column, `{}`; None leaves it as it is.
    """

    staged: str
    target: str
    prepared: "Callable[[Column], Column] | None" = None
    read: str | None = None


# Without these Spark's JSON ends moments at milliseconds.
JSON_OPTIONS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}

# Gives the form of a type, or None if it has none.
Forms = Callable[["DataType"], Form | None]


@dataclass(frozen=True)
class StagedColumn:
    """A column of the batch.

    Attributes:
        name: in the batch and in the target.
        form: how its values go there.
    """

    name: str
    form: Form


def column_names(given: str | Sequence[str]) -> tuple[str, ...]:
    """The names of columns, of which one may be given as it is."""
    return (given,) if isinstance(given, str) else tuple(given)


def staged_columns(schema: "StructType", forms: Forms, sink: str) -> tuple[StagedColumn, ...]:
    """The columns of a batch.

    Raises:
        RequestError: CLEANCUT_SINK_REFUSED, naming all columns that have no form.
    """
    found = [(of.name, of.dataType, forms(of.dataType)) for of in schema.fields]
    lost = [f"{name} ({kind.simpleString()})" for name, kind, form in found if form is None]
    if lost:
        reason = f"it has no type for these columns: {', '.join(lost)}; cast or drop them"
        raise error_of("CLEANCUT_SINK_REFUSED", sink=sink, reason=reason)
    names = [name for name, _, _ in found]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        reason = f"the batch has several columns of these names: {', '.join(doubled)}"
        raise error_of("CLEANCUT_SINK_REFUSED", sink=sink, reason=reason)
    return tuple(StagedColumn(name, form) for name, _, form in found if form is not None)


def quoted(name: str) -> str:
    """A column as Spark finds it by its name alone."""
    return "`" + name.replace("`", "``") + "`"


def prepared(columns: Sequence[StagedColumn]) -> "list[Column]":
    """What Spark selects to stage them."""
    from pyspark.sql import functions as F  # noqa: N812  # the name that all of PySpark uses

    chosen = []
    for column in columns:
        found = F.col(quoted(column.name))
        if column.form.prepared is not None:
            found = column.form.prepared(found)
        chosen.append(found.alias(column.name))
    return chosen


def as_json(column: "Column") -> "Column":
    """Structs, maps and variants as JSON; bytes within them in base 64, moments whole."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.to_json(column, JSON_OPTIONS)


def as_text(column: "Column") -> "Column":
    """As Spark casts it to a text."""
    return column.cast("string")


def as_months(column: "Column") -> "Column":
    """The months of an interval of years and months."""
    return column.cast("interval month").cast("int")


def by_name(kind: "DataType") -> str:
    """The name of the class of a type, without parameters."""
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
    """The form of a type in PostgreSQL; None for intervals of months and days, void, geometries.

    A UDT has none either: its values are those of the type that it is kept in; cast it.
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
    """Whether Spark writes all values of a nested type as JSON."""
    name = by_name(kind)
    if name == "StructType":
        return all(_has_json(of.dataType) for of in kind.fields)  # type: ignore[attr-defined]
    if name == "MapType":
        inner = (kind.keyType, kind.valueType)  # type: ignore[attr-defined]
        return all(map(_has_json, inner))
    if name == "ArrayType":
        return _has_json(kind.elementType)  # type: ignore[attr-defined]
    return postgres_form(kind) is not None


def sqlalchemy_form(plain: Callable[[str], str], has_json: bool, takes_decimals: bool) -> Forms:
    """The forms for a database that SQLAlchemy knows.

    Args:
        plain: the name of a type there, by that of one of SQLAlchemy's.
        has_json: whether texts of JSON go into columns of that type.
        takes_decimals: whether its driver does; else they are staged as texts.
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
