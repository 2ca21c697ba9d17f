"""The row decoder against bytes that Spark has written."""

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from py4j.java_gateway import get_field
from pyspark.sql import DataFrame, SparkSession

from cleancut._unsafe_rows.encoder import cells_of, encoded
from cleancut._unsafe_rows.schema import struct_of
from cleancut._unsafe_rows.spread import partition_of
from cleancut._unsafe_rows.stored_cells import stored_cells
from tests.vectors.row_encoder import encode_row

pytestmark = pytest.mark.spark

BIG = Decimal("-1234567890123456789012345678.0123456789")

# An expression in Spark SQL, and the value that Arrow must return for it.
EXPRESSIONS: list[tuple[str, Any]] = [
    ("null", None),
    ("true", True),
    ("-7Y", -7),
    ("-300S", -300),
    ("-70000", -70000),
    ("-7000000000L", -7000000000),
    ("1.5F", 1.5),
    ("-0.25D", -0.25),
    ("date'2013-12-31'", date(2013, 12, 31)),
    ("date'0001-01-01'", date(1, 1, 1)),
    (
        "timestamp'2013-01-01 05:15:00.000001 UTC'",
        datetime(2013, 1, 1, 5, 15, 0, 1, tzinfo=UTC),
    ),
    ("timestamp_ntz'1900-01-01 00:00:00'", datetime(1900, 1, 1)),
    ("time'23:59:59.999999'", time(23, 59, 59, 999_999)),
    ("interval '2-3' year to month", (27, 0, 0)),
    ("interval '-1 00:00:00.000001' day to second", -timedelta(days=1, microseconds=1)),
    ("make_interval(1, 2, 0, 3, 0, 0, 4.5)", (14, 3, 4_500_000_000)),
    ("-12.34BD", Decimal("-12.34")),
    (f"cast('{BIG}' as decimal(38,10))", BIG),
    ("cast(0 as decimal(38,0))", Decimal(0)),
    ("cast(null as decimal(38,0))", None),
    ("''", ""),
    ("'状态 é'", "状态 é"),
    ("'a' collate UTF8_LCASE", "a"),
    ("X'00FF10'", b"\x00\xff\x10"),
    ("array()", []),
    ("array(1Y, null, 3Y)", [1, None, 3]),
    ("array(true, false, null)", [True, False, None]),
    ("array(1S, 2S, 3S, 4S, 5S)", [1, 2, 3, 4, 5]),
    ("array(date'2013-01-01')", [date(2013, 1, 1)]),
    ("array(1.25BD, null)", [Decimal("1.25"), None]),
    (f"array(null, cast('{BIG}' as decimal(38,10)))", [None, BIG]),
    ("array('x', null, 'longer than eight bytes')", ["x", None, "longer than eight bytes"]),
    ("array(interval '0-1' year to month, null)", [(1, 0, 0), None]),
    ("array(array(1), array(), null)", [[1], [], None]),
    ("sequence(1, 130)", list(range(1, 131))),
    ("map('a', 1, 'b', null)", [("a", 1), ("b", None)]),
    ("map(1L, map('x', array(1.5D)))", [(1, [("x", [1.5])])]),
    ("named_struct('a', 1, 'b', null, 'c', 'z')", {"a": 1, "b": None, "c": "z"}),
    (
        "named_struct('s', named_struct('t', array(named_struct('u', 'v'))))",
        {"s": {"t": [{"u": "v"}]}},
    ),
    ("cast(null as struct<a: bigint, b: string>)", None),
]


def unsafe_rows(frame: DataFrame) -> list[bytes]:
    # toRdd().collect() would return the same reused row repeatedly.
    rows = frame._jdf.queryExecution().executedPlan().executeCollect()
    return [bytes(row.getBytes()) for row in rows]


def plain(value: Any) -> Any:
    match value:
        case pa.MonthDayNano():
            return tuple(value)
        case list():
            return [plain(item) for item in value]
    return value


def test_each_type_reads_as_the_value_that_spark_wrote(spark: SparkSession) -> None:
    columns = ", ".join(f"{sql} as c{i}" for i, (sql, _) in enumerate(EXPRESSIONS))
    frame = spark.sql(f"select {columns}")
    schema = json.loads(frame._jdf.schema().json())
    array = struct_of(schema, "row").decode_rows(unsafe_rows(frame))
    array.validate(full=True)
    decoded = array.to_pylist()[0]
    wrong = {
        sql: (plain(decoded[f"c{i}"]), value)
        for i, (sql, value) in enumerate(EXPRESSIONS)
        if plain(decoded[f"c{i}"]) != value
    }
    assert wrong == {}


def test_the_encoder_of_the_vectors_matches_spark(spark: SparkSession) -> None:
    """The unit tests decode vectors, which must equal the bytes of Spark's state."""
    names = [i for i, (sql, _) in enumerate(EXPRESSIONS) if "collate" not in sql]
    columns = ", ".join(f"{EXPRESSIONS[i][0]} as c{i}" for i in names)
    frame = spark.sql(f"select {columns}")
    schema = json.loads(frame._jdf.schema().json())
    values = {f"c{i}": EXPRESSIONS[i][1] for i in names}
    assert encode_row(schema, values) == unsafe_rows(frame)[0]


KEYS = [
    *(sql for sql, _ in EXPRESSIONS[1:20] if not sql.startswith(("time'", "make_"))),
    *(sql for sql, _ in EXPRESSIONS if sql.startswith(("''", "'状", "X'"))),
    "'nine chars'",
    "-0.0D",
    "double('NaN')",
    "-0.0F",
    "123.45BD",
    "cast(null as string)",
    "named_struct('start', timestamp'2026-11-25 00:00:00', 'end', null, 'n', 'text')",
]


def test_keys_have_the_bytes_and_partitions_of_spark(spark: SparkSession) -> None:
    """Grouped, because Spark normalizes floating-point keys in a grouping."""
    # Spark must not know the values before it reads a row.
    columns = ", ".join(f"if(id >= 0, {sql}, null) as c{i}" for i, sql in enumerate(KEYS))
    names = [f"c{i}" for i in range(len(KEYS))]
    keys = spark.sql(f"select distinct * from (select {columns} from range(3))")
    schema = json.loads(keys._jdf.schema().json())
    values = struct_of(schema, "key").decode_rows(unsafe_rows(keys)).to_pylist()[0]
    cells = cells_of(struct_of(schema, "key"), values, "key")
    assert encoded(cells) == unsafe_rows(keys)[0]
    (expected,) = keys.selectExpr(*(f"pmod(hash({name}), 997)" for name in names)).collect()
    assert [partition_of([cell], 997) for cell in cells] == list(expected)
    (whole,) = keys.selectExpr(f"pmod(hash({', '.join(names)}), 997)").collect()
    assert partition_of(cells, 997) == whole[0]


NESTED = [
    "array(id, null, id + 1)",
    "array(cast(id as string), null, 'four')",
    "array(named_struct('a', array(id, 2L), 'b', cast(id as decimal(30, 2))), null)",
    "transform(sequence(0, 70), x -> if(x % 3 = 0, null, cast(x * id as short)))",
    "array(id > 1, null)",
    "map('one', array(id), 'two', null)",
    "make_interval(1, 2, 0, id, 4, 5, 6.7)",
    "array(make_interval(0, -2, 0, -3, 0, 0, -0.5), null)",
]


def test_nested_columns_have_the_partitions_of_spark(spark: SparkSession) -> None:
    columns = ", ".join(f"if(id = 3, null, {sql}) as c{i}" for i, sql in enumerate(NESTED))
    frame = spark.range(4).selectExpr("id", f"struct({columns}) as key").select("key.*", "id")
    plain = frame.drop("id")
    row = struct_of(json.loads(plain._jdf.schema().json()), "key")
    decoded = [stored_cells(row, raw) for raw in unsafe_rows(plain)]
    names = plain.columns
    # Spark's hash function accepts no map, but its exchange does.
    hashed = [name for name, sql in zip(names, NESTED, strict=True) if not sql.startswith("map")]
    expected = plain.selectExpr(*(f"pmod(hash({name}), 31)" for name in hashed)).collect()
    for cells, wanted in zip(decoded, expected, strict=True):
        cells_by_name = dict(zip(names, cells, strict=True))
        assert [partition_of([cells_by_name[name]], 31) for name in hashed] == list(wanted)
    for name in names:
        sent = frame.repartition(31, name).selectExpr("id", "spark_partition_id() as at")
        places = {row.id: row.at for row in sent.collect()}
        at = names.index(name)
        assert [partition_of([cells[at]], 31) for cells in decoded] == [places[n] for n in range(4)]


def test_the_hash_of_a_text_in_a_key_is_that_of_its_bytes(spark: SparkSession) -> None:
    """For each collation whose texts are equal only if their bytes are equal.

    Spark refuses all other collations in keys of a state.
    """
    names = [row.NAME for row in spark.sql("show collations").collect()]
    jvm: Any = spark._jvm
    factory = jvm.org.apache.spark.sql.catalyst.util.CollationFactory
    stable = [
        name for name in names if get_field(factory.fetchCollation(name), "supportsBinaryEquality")
    ]
    assert "UTF8_BINARY" in stable
    for collation in stable:
        frame = spark.range(9).selectExpr("id", f"concat('Ä b', id) collate {collation} as c")
        (row, raw) = (struct_of(json.loads(frame._jdf.schema().json()), "r"), unsafe_rows(frame))
        sent = frame.repartition(31, "c").selectExpr("id", "spark_partition_id() as at")
        places = {row.id: row.at for row in sent.collect()}
        partitions = [partition_of([stored_cells(row, data)[1]], 31) for data in raw]
        assert partitions == [places[n] for n in range(9)], collation


def test_many_rows_with_nulls_read_like_spark_reads_them(spark: SparkSession) -> None:
    frame = spark.range(1000).selectExpr(
        "id",
        "if(id % 3 = 0, null, cast(id as string)) as text",
        "if(id % 5 = 0, null, array(id, null, id + 1)) as list",
        "if(id % 7 = 0, null, named_struct('x', id, 'y', cast(id as decimal(30,2)))) as s",
    )
    schema = json.loads(frame._jdf.schema().json())
    array = struct_of(schema, "row").decode_rows(unsafe_rows(frame))
    assert array.to_pylist() == [row.asDict(recursive=True) for row in frame.collect()]
