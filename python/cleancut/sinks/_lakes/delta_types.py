"""Which columns a table of Delta takes, and which features of tables are written right."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

# By the names of Spark's classes; arrays, maps and structs of these, too.
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
# What adding files does right by itself, or what is looked for in the table one by one.
_FEATURES = {
    "appendOnly",
    "checkConstraints",
    "generatedColumns",
    "invariants",
    "timestampNtz",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}
# By which a table forgets which epochs it has.
FORGETS = "delta.setTransactionRetentionDuration"
_OF_COLUMNS = {
    "delta.generationExpression": "generated columns",
    "delta.identity.start": "identity columns",
    "delta.invariants": "invariants of columns",
}


def delta_type(kind: "DataType") -> str | None:
    """The name of a type, which is Spark's; None if Delta has none.

    These are variants, intervals, times, void, geometries, collations and UDTs.
    """
    name = type(kind).__name__
    of: Any = kind
    if name == "ArrayType":
        inner = [of.elementType]
    elif name == "MapType":
        inner = [of.keyType, of.valueType]
    elif name == "StructType":
        inner = [field.dataType for field in of.fields]
    elif name == "StringType":
        return "string" if of.simpleString() == "string" else None
    elif name in _PLAIN:
        return "string" if name in ("CharType", "VarcharType") else of.simpleString()
    else:
        return None
    told = [delta_type(of) for of in inner]
    return None if None in told else of.simpleString()


def has_nulls_within(batch: "DataType", table: "DataType") -> bool:
    """Whether a batch may have nulls in a nested place where the table takes none."""
    name = type(batch).__name__
    of: Any = batch
    to: Any = table
    pairs: list[tuple[bool, bool, Any, Any]] = []
    if name == "ArrayType":
        pairs = [(of.containsNull, to.containsNull, of.elementType, to.elementType)]
    elif name == "MapType":
        pairs = [
            (of.valueContainsNull, to.valueContainsNull, of.valueType, to.valueType),
            (False, False, of.keyType, to.keyType),
        ]
    elif name == "StructType":
        fields = zip(of.fields, to.fields, strict=True)
        pairs = [(a.nullable, b.nullable, a.dataType, b.dataType) for a, b in fields]
    return any((may and not takes) or has_nulls_within(a, b) for may, takes, a, b in pairs)


def nullable(schema: "StructType") -> "StructType":
    """The columns of a table that is made: values may be null, and bring no metadata along."""
    from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

    def of(kind: Any) -> Any:
        name = type(kind).__name__
        if name == "ArrayType":
            return ArrayType(of(kind.elementType), True)
        if name == "MapType":
            return MapType(of(kind.keyType), of(kind.valueType), True)
        if name == "StructType":
            return StructType([StructField(f.name, of(f.dataType), True) for f in kind.fields])
        return StringType() if name in ("CharType", "VarcharType") else kind

    found: StructType = of(schema)
    return found


def arrow_schema(schema: "StructType") -> "pa.Schema":
    """The columns of a file."""
    import pyarrow as pa
    from deltalake import Schema

    return pa.schema(Schema.from_json(nullable(schema).json()).to_arrow())


def bad_partitions(schema: "StructType", partitions: "tuple[str, ...]") -> str | None:
    """Why columns cannot be those of partitions."""
    kinds = {of.name: type(of.dataType).__name__ for of in schema.fields}
    bad = [name for name in partitions if kinds.get(name) not in _PARTITIONS]
    return f"these cannot be columns of partitions: {', '.join(bad)}" if bad else None


def unknown_feature(
    features: "list[str]", configuration: Mapping[str, str], schema: "StructType"
) -> str | None:
    """What a table has that would have to be kept to, and is not here; None if there is nothing."""
    found = sorted(set(features) - _FEATURES)
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        found.append("column mapping")
    if configuration.get("delta.enableChangeDataFeed", "false") == "true":
        found.append("change data feed")
    if any(name.startswith("delta.constraints.") for name in configuration):
        found.append("constraints")
    if FORGETS in configuration:
        found.append(f"a time after which it forgets queries ({FORGETS})")
    told = {name for field in schema.fields for name in field.metadata}
    found += [what for name, what in _OF_COLUMNS.items() if name in told]
    return f"the table has {', '.join(found)}, which is not written here" if found else None
