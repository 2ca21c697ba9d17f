"""The column types of Iceberg that the sink supports, and the schemas of new tables."""

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyspark.sql.types import DataType, StructType

# By the names of Spark's classes.
_PLAIN = {
    "BooleanType": "boolean",
    "ByteType": "int",
    "ShortType": "int",
    "IntegerType": "int",
    "LongType": "long",
    "FloatType": "float",
    "DoubleType": "double",
    "StringType": "string",
    "CharType": "string",
    "VarcharType": "string",
    "BinaryType": "binary",
    "DateType": "date",
    "TimestampType": "timestamptz",
    "TimestampNTZType": "timestamp",
}
_FIRST_PARTITION_FIELD = 1000


def iceberg_type(kind: "DataType") -> str | None:
    """The name of a type; None if the sink does not support it.

    These are intervals, times, variants, void, geometries, collations and UDTs.
    """
    name = type(kind).__name__
    data_type: Any = kind
    if name == "StringType" and data_type.simpleString() != "string":
        return None
    if name in _PLAIN:
        return _PLAIN[name]
    if name == "DecimalType":
        return f"decimal({data_type.precision}, {data_type.scale})"
    if name == "ArrayType":
        return _nested("list<{}>", [iceberg_type(data_type.elementType)])
    if name == "MapType":
        return _nested(
            "map<{}, {}>", [iceberg_type(data_type.keyType), iceberg_type(data_type.valueType)]
        )
    if name == "StructType":
        inner = [iceberg_type(field.dataType) for field in data_type.fields]
        return _nested(
            f"struct<{', '.join(f'{field.name}: {{}}' for field in data_type.fields)}>", inner
        )
    return None


def _nested(pattern: str, inner: Sequence[str | None]) -> str | None:
    return None if None in inner else pattern.format(*inner)


def name_of(kind: Any) -> str:
    """The name of a table's type, as `iceberg_type` returns it: without ids and nullability."""
    from pyiceberg.types import ListType, MapType, StructType

    if isinstance(kind, ListType):
        return f"list<{name_of(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{name_of(kind.key_type)}, {name_of(kind.value_type)}>"
    if isinstance(kind, StructType):
        fields = (f"{field.name}: {name_of(field.field_type)}" for field in kind.fields)
        return f"struct<{', '.join(fields)}>"
    return str(kind)


def has_required_within(kind: Any) -> bool:
    """Whether a nested field of a type accepts no nulls."""
    from pyiceberg.types import ListType, MapType, StructType

    if isinstance(kind, ListType):
        return kind.element_required or has_required_within(kind.element_type)
    if isinstance(kind, MapType):
        return kind.value_required or has_required_within(kind.value_type)
    if isinstance(kind, StructType):
        return any(field.required or has_required_within(field.field_type) for field in kind.fields)
    return False


def iceberg_schema(schema: "StructType") -> "Schema":
    """The schema of a new table or of written rows: all columns may be null."""
    from pyiceberg.schema import Schema

    ids = itertools.count(1)
    return Schema(*_fields(schema, ids))


def _fields(schema: Any, ids: Iterator[int]) -> list[Any]:
    from pyiceberg.types import NestedField

    # Ids of one level precede those of nested fields.
    numbered = [(next(ids), field) for field in schema.fields]
    return [
        NestedField(at, field.name, _made(field.dataType, ids), required=False)
        for at, field in numbered
    ]


def _made(kind: Any, ids: Iterator[int]) -> Any:
    from pyiceberg import types

    name = type(kind).__name__
    if name == "StructType":
        return types.StructType(*_fields(kind, ids))
    if name == "ArrayType":
        return types.ListType(next(ids), _made(kind.elementType, ids), element_required=False)
    if name == "MapType":
        key, value = next(ids), next(ids)
        return types.MapType(
            key, _made(kind.keyType, ids), value, _made(kind.valueType, ids), value_required=False
        )
    if name == "DecimalType":
        return types.DecimalType(kind.precision, kind.scale)
    made = {
        "boolean": types.BooleanType,
        "int": types.IntegerType,
        "long": types.LongType,
        "float": types.FloatType,
        "double": types.DoubleType,
        "string": types.StringType,
        "binary": types.BinaryType,
        "date": types.DateType,
        "timestamptz": types.TimestamptzType,
        "timestamp": types.TimestampType,
    }
    return made[_PLAIN[name]]()


def partitioned(schema: "Schema", columns: Sequence[str]) -> "PartitionSpec":
    """A partition spec by the values of columns."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import IdentityTransform

    fields = (
        PartitionField(
            source_id=schema.find_field(name).field_id,
            field_id=_FIRST_PARTITION_FIELD + at,
            transform=IdentityTransform(),
            name=name,
        )
        for at, name in enumerate(columns)
    )
    return PartitionSpec(*fields)


def spark_schema(schema: "Schema", names: Sequence[str]) -> "StructType":
    """Columns of a table in Spark's types."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow
    from pyspark.sql.pandas.types import from_arrow_schema

    arrow = schema_to_pyarrow(schema.select(*names), include_field_ids=False)
    return from_arrow_schema(arrow, prefer_timestamp_ntz=True)


def arrow_schema(schema: "StructType") -> "pa.Schema":
    """Columns as Spark exchanges them in Arrow."""
    from pyspark.sql.pandas import types

    to_arrow: Any = types.to_arrow_schema
    try:
        return to_arrow(schema, timezone="UTC")
    except TypeError:
        # Before Spark 4.2 this is the default.
        return to_arrow(schema)
