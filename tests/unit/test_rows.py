"""Decodes rows in Spark's UnsafeRow form to Arrow values."""

import contextlib
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleancut._unsafe_rows.column_cells import MisfitError
from cleancut._unsafe_rows.schema import struct_of
from cleancut.errors import RequestError
from tests.vectors.row_encoder import encode_row, struct_type

DAYS = timedelta(days=365_000)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    # From text, because arithmetic on decimals rounds to 28 digits.
    return st.integers(-limit, limit).map(lambda n: Decimal(f"{n}E-{scale}"))


def whole(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "void": st.none(),
    "boolean": st.booleans(),
    "byte": whole(8),
    "short": whole(16),
    "integer": whole(32),
    "long": whole(64),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "timestamp_ntz": st.datetimes(),
    "time(6)": st.times(),
    "interval year to month": st.tuples(whole(32), st.just(0), st.just(0)),
    "interval day to second": st.timedeltas(-DAYS, DAYS),
    "interval": st.tuples(
        whole(32), whole(32), st.integers(-(10**14), 10**14).map(lambda n: n * 1000)
    ),
    "decimal(9,2)": decimals(9, 2),
    "decimal(18,18)": decimals(18, 18),
    "decimal(38,10)": decimals(38, 10),
    "string": text,
    "binary": st.binary(max_size=12),
}


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Generates nested types."""
    names = st.sampled_from(["a", "b", "c d", "é"])
    return st.one_of(
        st.builds(lambda e: {"type": "array", "elementType": e, "containsNull": True}, inner),
        st.builds(
            lambda k, v: {"type": "map", "keyType": k, "valueType": v, "valueContainsNull": True},
            st.sampled_from(["long", "string", "decimal(38,10)", "short"]),
            inner,
        ),
        st.dictionaries(names, inner, max_size=3).map(lambda types: struct_type(**types)),
    )


types = st.recursive(st.sampled_from(sorted(SCALARS)), nested, max_leaves=6)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Generates values of a type, including nulls."""
    if isinstance(kind, str):
        return st.none() | SCALARS[kind]
    if kind["type"] == "array":
        return st.none() | st.lists(values(kind["elementType"]), max_size=5)
    if kind["type"] == "map":
        keys = SCALARS[kind["keyType"]]
        return st.none() | st.lists(st.tuples(keys, values(kind["valueType"])), max_size=4)
    fields = {field["name"]: values(field["type"]) for field in kind["fields"]}
    return st.none() | st.fixed_dictionaries(fields)


@st.composite
def schemas_and_rows(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    schema = struct_type(**{f"f{i}": draw(types) for i in range(draw(st.integers(0, 4)))})
    rows = {field["name"]: values(field["type"]) for field in schema["fields"]}
    return schema, draw(st.lists(st.fixed_dictionaries(rows), max_size=6))


def decoded(schema: dict[str, Any], rows: list[bytes]) -> list[Any]:
    array = struct_of(schema, "key").decode_rows(rows)
    array.validate(full=True)
    values: list[Any] = plain(array.to_pylist())
    return values


def plain(value: Any) -> Any:
    """Converts intervals to plain tuples, so that they compare with the written values."""
    match value:
        case pa.MonthDayNano():
            return tuple(value)
        case dict():
            return {name: plain(item) for name, item in value.items()}
        case list():
            return [plain(item) for item in value]
        case tuple():
            return tuple(plain(item) for item in value)
    return value


@given(schemas_and_rows())
def test_any_rows_of_any_schema_are_decoded(
    case: tuple[dict[str, Any], list[dict[str, Any]]],
) -> None:
    schema, rows = case
    assert decoded(schema, [encode_row(schema, row) for row in rows]) == rows


@given(st.data())
def test_rows_cut_short_or_garbled_give_an_error_or_values(data: st.DataObject) -> None:
    """Never another exception: a row of another layout is reported as such."""
    schema, rows = data.draw(schemas_and_rows().filter(lambda case: case[1] and case[0]["fields"]))
    raw = bytearray(encode_row(schema, rows[0]))
    for place in data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=3)):
        raw[place] ^= data.draw(st.integers(1, 255))
    size = data.draw(st.integers(0, len(raw)))
    with contextlib.suppress(MisfitError, RequestError):
        struct_of(schema, "key").decode_rows([bytes(raw[:size])])


def test_a_map_with_a_null_key_is_refused() -> None:
    kind = {"type": "map", "keyType": "long", "valueType": "long", "valueContainsNull": True}
    schema = struct_type(m=kind)
    raw = bytearray(encode_row(schema, {"m": [(5, 6)]}))
    # The row's null bits, the cell, the size of the keys and their number; then their null bits.
    raw[32] |= 1
    with pytest.raises(MisfitError, match="a map has a key that is null"):
        struct_of(schema, "key").decode_rows([bytes(raw)])


def test_a_row_with_more_than_64_fields_has_several_words_of_nulls() -> None:
    schema = struct_type(**{f"f{i}": "long" for i in range(130)})
    row = {f"f{i}": None if i in (0, 63, 64, 129) else i for i in range(130)}
    assert decoded(schema, [encode_row(schema, row)] * 3) == [row] * 3


def test_an_array_with_more_than_64_elements_has_several_words_of_nulls() -> None:
    schema = struct_type(a={"type": "array", "elementType": "short", "containsNull": True})
    row = {"a": [None if i in (0, 64, 129) else i for i in range(130)]}
    assert decoded(schema, [encode_row(schema, row)]) == [row]


def test_the_bytes_of_a_row_are_those_that_spark_writes() -> None:
    """Copied from Spark 4.3.0: struct(7L, 'ab', null, 2.5D)."""
    raw = bytes.fromhex(
        "0400000000000000"
        "0700000000000000"
        "0200000028000000"
        "0000000000000000"
        "0000000000000440"
        "6162000000000000"
    )
    schema = struct_type(a="long", b="string", c="long", d="double")
    assert decoded(schema, [raw]) == [{"a": 7, "b": "ab", "c": None, "d": 2.5}]


def test_an_empty_batch_keeps_its_type() -> None:
    schema = struct_type(a="long", b={"type": "array", "elementType": "string"})
    array = struct_of(schema, "key").decode_rows([])
    assert array.type == pa.struct(
        [("a", pa.int64()), ("b", pa.list_(pa.field("element", pa.string())))]
    )


def test_fields_with_equal_names_are_distinguished() -> None:
    """For example the buffers of avg(x) next to count(x)."""
    names = ["count", "sum", "count", "count_2", "count", "Count"]
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in names]
    column = struct_of({"type": "struct", "fields": fields}, "value")
    expected = ["count", "sum", "count_2", "count_2_2", "count_3", "Count"]
    assert [field.name for field in column.fields] == expected


@pytest.mark.parametrize(
    ("spark_type", "arrow"),
    [
        ("string collate UTF8_LCASE", pa.string()),
        ("varchar(10)", pa.string()),
        ("char(3)", pa.string()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
        ("interval day", pa.duration("us")),
        ("interval hour to second", pa.duration("us")),
        ("interval month", pa.month_day_nano_interval()),
        ("decimal(10,-2)", pa.decimal128(10, -2)),
        (
            {"type": "udt", "class": "x.Point", "sqlType": struct_type(x="double")},
            pa.struct([("x", pa.float64())]),
        ),
    ],
)
def test_a_type_of_spark_maps_to_its_arrow_type(spark_type: Any, arrow: pa.DataType) -> None:
    assert struct_of(struct_type(a=spark_type), "key").arrow.field("a").type == arrow


@pytest.mark.parametrize("spark_type", ["variant", "geometry(OGC:CRS84)", {"type": "other"}, 7])
def test_an_unknown_type_is_named_with_its_column(spark_type: Any) -> None:
    schema = struct_type(a=struct_type(b={"type": "array", "elementType": spark_type}))
    with pytest.raises(RequestError) as raised:
        struct_of(schema, "value")
    assert raised.value.error_id == "CLEANCUT_COLUMN_UNREADABLE"
    assert raised.value.params["column"] == "value.a.b.element"


def test_text_that_is_not_utf8_is_refused_with_its_column() -> None:
    schema = struct_type(a="binary")
    row = encode_row(schema, {"a": b"\xff\xfe"})
    with pytest.raises(RequestError, match="not UTF-8") as raised:
        struct_of(struct_type(a="string"), "key").decode_rows([row])
    assert raised.value.params["column"] == "key.a"


def test_an_interval_beyond_arrow_is_refused_with_its_column() -> None:
    schema = struct_type(i="interval")
    row = encode_row(schema, {"i": (0, 0, 2**63 * 500)})
    with pytest.raises(RequestError, match="more nanoseconds") as raised:
        struct_of(schema, "key").decode_rows([row])
    assert raised.value.params["column"] == "key.i"


def test_examples_of_each_scalar_type() -> None:
    row = {
        "date": date(2013, 1, 1),
        "timestamp": datetime(2013, 1, 1, 5, 15, tzinfo=UTC),
        "timestamp_ntz": datetime(1, 1, 1),
        "time(6)": time(23, 59, 59, 999_999),
        "decimal(9,2)": Decimal("-0.01"),
        "decimal(38,10)": Decimal("-1234567890123456789012345678.0123456789"),
        "interval day to second": timedelta(days=-1, microseconds=1),
        "interval": (-1, 2, -3000),
    }
    schema = struct_type(**{name: name for name in row})
    assert decoded(schema, [encode_row(schema, row)]) == [row]
