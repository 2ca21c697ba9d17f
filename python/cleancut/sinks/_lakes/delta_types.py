"""The column types and table features of Delta that the sink supports."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

# By the names of Spark's classes, also within arrays, maps and structs.
_PLAIN = {
    "BooleanType",
    "ByteType",
    "ShortType",
    "IntegerType",
    "LongType",
    "FloatType",
    "DoubleType",
    "DecimalType",
    "StringType",
    "CharType",
    "VarcharType",
    "BinaryType",
    "DateType",
    "TimestampType",
    "TimestampNTZType",
}
_PARTITIONS = _PLAIN - {"BinaryType", "FloatType", "DoubleType"}
# Features that an append satisfies, or that are checked one by one.
_FEATURES = {
    "appendOnly",
    "checkConstraints",
    "generatedColumns",
    "invariants",
    "timestampNtz",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}
# Property by which a table forgets transactions, and with them the epochs of queries.
FORGETS = "delta.setTransactionRetentionDuration"
_OF_COLUMNS = {
    "delta.generationExpression": "generated columns",
    "delta.identity.start": "identity columns",
    "delta.invariants": "invariants of columns",
}


def delta_type(kind: "DataType") -> str | None:
    """The name of a type, which is Spark's; None if Delta has no such type.

    These are variants, intervals, times, void, geometries, collations and UDTs.
    """
    name = type(kind).__name__
    data_type: Any = kind
    if name == "ArrayType":
        inner = [data_type.elementType]
    elif name == "MapType":
        inner = [data_type.keyType, data_type.valueType]
    elif name == "StructType":
        inner = [field.dataType for field in data_type.fields]
    elif name == "StringType":
        return "string" if data_type.simpleString() == "string" else None
    elif name in _PLAIN:
        return "string" if name in ("CharType", "VarcharType") else data_type.simpleString()
    else:
        return None
    names = [delta_type(data_type) for data_type in inner]
    return None if None in names else data_type.simpleString()


def has_nulls_within(batch: "DataType", table: "DataType") -> bool:
    """Whether a batch may have nested nulls that the table does not accept."""
    name = type(batch).__name__
    batch_type: Any = batch
    to: Any = table
    pairs: list[tuple[bool, bool, Any, Any]] = []
    if name == "ArrayType":
        pairs = [(batch_type.containsNull, to.containsNull, batch_type.elementType, to.elementType)]
    elif name == "MapType":
        pairs = [
            (
                batch_type.valueContainsNull,
                to.valueContainsNull,
                batch_type.valueType,
                to.valueType,
            ),
            (False, False, batch_type.keyType, to.keyType),
        ]
    elif name == "StructType":
        fields = zip(batch_type.fields, to.fields, strict=True)
        pairs = [(a.nullable, b.nullable, a.dataType, b.dataType) for a, b in fields]
    return any((may and not takes) or has_nulls_within(a, b) for may, takes, a, b in pairs)


def nullable(schema: "StructType") -> "StructType":
    """The columns of a new table: values may be null, and have no metadata."""
    from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

    def convert(kind: Any) -> Any:
        name = type(kind).__name__
        if name == "ArrayType":
            return ArrayType(convert(kind.elementType), True)
        if name == "MapType":
            return MapType(convert(kind.keyType), convert(kind.valueType), True)
        if name == "StructType":
            return StructType([StructField(f.name, convert(f.dataType), True) for f in kind.fields])
        return StringType() if name in ("CharType", "VarcharType") else kind

    converted: StructType = convert(schema)
    return converted


def arrow_schema(schema: "StructType") -> "pa.Schema":
    """The schema of a file."""
    import pyarrow as pa
    from deltalake import Schema

    return pa.schema(Schema.from_json(nullable(schema).json()).to_arrow())


def bad_partitions(schema: "StructType", partitions: "tuple[str, ...]") -> str | None:
    """The reason why columns cannot be partition columns."""
    kinds = {field.name: type(field.dataType).__name__ for field in schema.fields}
    bad = [name for name in partitions if kinds.get(name) not in _PARTITIONS]
    return f"these cannot be columns of partitions: {', '.join(bad)}" if bad else None


def unknown_feature(
    features: "list[str]", configuration: Mapping[str, str], schema: "StructType"
) -> str | None:
    """The features of a table that the sink does not support; None if there are none."""
    features_found = sorted(set(features) - _FEATURES)
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        features_found.append("column mapping")
    if configuration.get("delta.enableChangeDataFeed", "false") == "true":
        features_found.append("change data feed")
    if any(name.startswith("delta.constraints.") for name in configuration):
        features_found.append("constraints")
    if FORGETS in configuration:
        features_found.append(f"a retention of transactions ({FORGETS})")
    named = {name for field in schema.fields for name in field.metadata}
    features_found += [what for name, what in _OF_COLUMNS.items() if name in named]
    return (
        f"the table has {', '.join(features_found)}, which the sink does not support"
        if features_found
        else None
    )
