"""Selection of the files of a Delta table that are read for the keys of an epoch."""

import datetime as dt
import json
import math
import random
import string
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from cleancut.errors import RequestError
from cleancut.sinks._lakes.delta_files import DeltaWriter
from cleancut.sinks._lakes.delta_log import DeltaOptions
from cleancut.sinks._lakes.delta_pruning import (
    MAX_PARTITIONS,
    EpochKeys,
    TableFile,
    key_partitions,
    typed_value,
)
from cleancut.sinks._lakes.delta_table import DeltaLake
from cleancut.sinks._lakes.delta_table import DeltaTable as LakeTable
from cleancut.sinks._lakes.files import StagedFile
from tests.support.seeds import hunting

UTC = dt.UTC
Draw = Callable[[random.Random], Any]


def _text(rng: random.Random) -> str:
    # Some texts are longer than the prefix in the statistics, and differ only after it.
    start = rng.choice(["", "a" * 31, "a" * 32, "b\U0010ffff" * 20, "ä" * 40])
    return start + "".join(
        rng.choices(string.ascii_letters + "\U0010ffff☃é/%= ", k=rng.randint(1, 3))
    )


def _moment(rng: random.Random) -> dt.datetime:
    start = rng.choice([dt.datetime(1950, 1, 1), dt.datetime(2024, 3, 31)])
    return start + dt.timedelta(
        microseconds=rng.choice([0, 1, 999, 1000, 1999, 2000, 86_400_000_000])
    )


def _float(rng: random.Random) -> float:
    return rng.choice([0.0, -0.0, 0.1, 0.3, -1.5, math.nan, math.inf, -math.inf, 16_777_217.0])


def _single(rng: random.Random) -> float:
    return float(pa.scalar(_float(rng), pa.float32()).as_py())


# Types of keys, and whether they can be partition columns.
KINDS: dict[str, tuple[pa.DataType, Draw, bool]] = {
    "long": (pa.int64(), lambda rng: rng.randint(-3, 12), True),
    "byte": (pa.int8(), lambda rng: rng.randint(-128, 127), True),
    "text": (pa.string(), _text, False),
    "word": (pa.string(), lambda rng: rng.choice(["a", "b/%", "ä ☃", "null", "1"]), True),
    "day": (pa.date32(), lambda rng: dt.date(1969, 12, 28) + dt.timedelta(rng.randint(0, 9)), True),
    "truth": (pa.bool_(), lambda rng: rng.random() < 0.5, True),
    "cents": (pa.decimal128(9, 2), lambda rng: Decimal(rng.randint(0, 300)) / 100, True),
    "exact": (
        pa.decimal128(38, 6),
        lambda rng: Decimal(12345678901234567890) + Decimal(rng.randint(0, 9)) / 1_000_000,
        True,
    ),
    "moment": (pa.timestamp("us", "UTC"), lambda rng: _moment(rng).replace(tzinfo=UTC), True),
    "local": (pa.timestamp("us"), _moment, True),
    "double": (pa.float64(), _float, False),
    "single": (pa.float32(), _single, False),
    "bytes": (pa.binary(), lambda rng: bytes([rng.randint(0, 3)]), False),
}


def same(value: Any) -> Any:
    """Normalizes a value as Spark compares it: NaN equals NaN, and a negative zero equals zero."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


class Table:
    """A table on disk, and epochs staged next to it."""

    def __init__(self, home: Path, schema: pa.Schema, partitions: Sequence[str]) -> None:
        self.uri = str(home / "table")
        self.home = home
        self.schema = schema
        self.partitions = tuple(partitions)

    def append(self, rows: Sequence[Mapping[str, Any]], **configuration: str) -> None:
        data = pa.Table.from_pylist([dict(row) for row in rows], self.schema)
        write_deltalake(
            self.uri,
            data,
            mode="append",
            partition_by=list(self.partitions),
            configuration=dict(configuration),
        )

    def files(self) -> list[TableFile]:
        lake = DeltaLake(self.uri, DeltaOptions(keys=("k",), partition_by=(), file_bytes=1 << 30))
        return LakeTable(lake, DeltaTable(self.uri))._active()

    def values(self, file: TableFile, names: Sequence[str]) -> set[tuple[Any, ...]]:
        """Returns the keys of a file's rows, as a merge without pruning reads them."""
        from urllib.parse import unquote

        rows = pq.ParquetFile(Path(self.uri) / unquote(file.path)).read()
        columns = [
            [typed_value(file.values[name], self.schema.field(name).type).as_py()] * rows.num_rows
            if name in self.partitions
            else rows[name].cast(self.schema.field(name).type).to_pylist()
            for name in names
        ]
        keys = zip(*columns, strict=True)
        return {tuple(map(same, key)) for key in keys if None not in key}

    def staged(self, rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> list[StagedFile]:
        """Stages an epoch in two files."""
        parted = key_partitions(keys, self.partitions)
        writer = DeltaWriter(
            uri=f"file://{self.home}",
            directory="staged",
            schema=self.schema,
            partitions=(),
            required=(),
            indexed=32,
            file_bytes=1 << 30,
            sink="DeltaSink t",
            key_partitions=parted,
        )
        (self.home / "staged").mkdir(exist_ok=True)
        half = -(-len(rows) // 2)
        staged: list[StagedFile] = []
        for part in (rows[:half], rows[half:]):
            if part:
                data = pa.Table.from_pylist([dict(row) for row in part], self.schema)
                staged += writer.write(iter([data]))
        return staged

    def candidates(self, staged: Sequence[StagedFile], keys: Sequence[str]) -> list[TableFile]:
        known = EpochKeys(staged, self.schema, tuple(keys), self.partitions)
        return known.candidates(self.files())


def _degrade_statistics(table: Table, rng: random.Random) -> str:
    """Removes statistics from the log, or rounds them like other writers of Delta."""
    way = rng.choice(["as it is", "without statistics", "rounded down", "without some"])
    for entry in Path(table.uri, "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in entry.read_text().splitlines()]
        for action in actions:
            add = action.get("add")
            if add is None or way == "as it is":
                continue
            stats = json.loads(add.get("stats") or "{}")
            if way == "without statistics":
                add["stats"] = None
                continue
            for kind in ("minValues", "maxValues"):
                for name, value in list(stats.get(kind, {}).items()):
                    if way == "without some" and rng.random() < 0.3:
                        del stats[kind][name]
                    elif isinstance(value, str) and "T" in value and "." in value:
                        # Spark truncates to milliseconds, also for the maximum.
                        whole, _, rest = value.rstrip("Z").partition(".")
                        stats[kind][name] = f"{whole}.{rest[:3]}" + "Z" * value.endswith("Z")
            add["stats"] = json.dumps(stats)
        entry.write_text("\n".join(map(json.dumps, actions)) + "\n")
    return way


def _random_table(tmp_path: Path, rng: random.Random) -> tuple[Table, tuple[str, ...], list[Any]]:
    names = rng.sample(sorted(KINDS), rng.randint(1, 3))
    partable = [name for name in names if KINDS[name][2]]
    partitions = rng.sample(partable, rng.randint(0, len(partable)))
    if len(partitions) == len(names):
        partitions.pop()
    # A table needs a column in addition to its keys.
    schema = pa.schema([*((name, KINDS[name][0]) for name in names), ("v", pa.int64())])
    keys = tuple(rng.sample(names, rng.randint(1, len(names))))
    table = Table(tmp_path, schema, partitions)

    def row(nulls: float) -> dict[str, Any]:
        drawn = {name: KINDS[name][1](rng) for name in names}
        return {name: None if rng.random() < nulls else value for name, value in drawn.items()} | {
            "v": 1
        }

    for _ in range(rng.randint(1, 4)):
        table.append([row(0.1) for _ in range(rng.randint(1, 8))])
    # The keys of an epoch are never null.
    return table, keys, [row(0.0) for _ in range(rng.randint(1, 4))]


@pytest.mark.parametrize("number", range(40))
def test_each_file_with_a_key_of_the_epoch_is_read(tmp_path: Path, number: int) -> None:
    """A skipped file would duplicate its row: the result is compared with an unpruned merge."""
    seed = hunting(1) + 1000 * number
    print(f"SEED={seed}, number 0")
    rng = random.Random(seed)
    table, keys, rows = _random_table(tmp_path, rng)
    way = _degrade_statistics(table, rng)
    wanted = {tuple(same(row[key]) for key in keys) for row in rows}
    staged = table.staged(rows, keys)
    read = {file.path for file in table.candidates(staged, keys)}
    for file in table.files():
        common = table.values(file, keys) & wanted
        assert not common or file.path in read, (seed, way, keys, table.partitions, common, file)


DAYS = pa.schema([("day", pa.date32()), ("k", pa.string()), ("v", pa.int64())])
FIRST = dt.date(2024, 1, 1)


def _day(number: int) -> dt.date:
    return FIRST + dt.timedelta(number)


def days(home: Path, count: int) -> Table:
    """Creates a table with one file per day."""
    table = Table(home, DAYS, ["day"])
    table.append([{"day": _day(at), "k": f"{at % 7}", "v": at} for at in range(count)])
    return table


def test_only_files_of_the_epochs_partitions_are_read(tmp_path: Path) -> None:
    """Each of 1,000 files was read for the rows of one day."""
    table = days(tmp_path, 200)
    # The last day, and a late one.
    rows = [{"day": _day(199), "k": "m", "v": 0}, {"day": _day(3), "k": "3", "v": 0}]
    staged = table.staged(rows, ("day", "k"))
    candidates = table.candidates(staged, ("day",))
    assert {file.values["day"] for file in candidates} == {"2024-01-04", "2024-07-18"}
    # Statistics of the other key exclude a day without it.
    one = table.staged(rows[1:], ("day", "k"))
    assert [file.values["day"] for file in table.candidates(one, ("day", "k"))] == ["2024-01-04"]
    other = table.staged([{"day": _day(3), "k": "4", "v": 0}], ("day", "k"))
    assert table.candidates(other, ("day", "k")) == []


def test_an_epoch_with_many_partitions_is_pruned_by_their_range(tmp_path: Path) -> None:
    table = days(tmp_path, 100)
    rows = [{"day": _day(at), "k": "1", "v": 0} for at in range(10, 15 + 2 * MAX_PARTITIONS)]
    staged = table.staged(rows, ("day", "k"))
    assert all("keyPartitions" not in json.loads(file.detail) for file in staged)
    values = {file.values["day"] for file in table.candidates(staged, ("day",))}
    assert values == {_day(at).isoformat() for at in range(10, 15 + 2 * MAX_PARTITIONS)}


def test_keys_of_dates_decimals_and_timestamps_are_pruned_by_statistics(tmp_path: Path) -> None:
    """Their bounds are texts on one side and values on the other."""
    kinds = ("day", "cents", "moment", "local", "double")
    schema = pa.schema([*((name, KINDS[name][0]) for name in kinds), ("v", pa.int64())])
    table = Table(tmp_path, schema, [])

    def row(at: int) -> dict[str, Any]:
        moment = dt.datetime(2024, 1, 1) + dt.timedelta(hours=at)
        return {
            "day": _day(at),
            "cents": Decimal(at),
            "moment": moment.replace(tzinfo=UTC),
            "local": moment,
            "double": at / 3,
            "v": at,
        }

    for at in range(5):
        table.append([row(at)])
    for name in kinds:
        candidates = table.candidates(table.staged([row(2)], (name,)), (name,))
        assert len(candidates) == 1, name


@pytest.mark.parametrize(
    ("name", "key", "low", "high", "is_read"),
    [
        ("double", 1.0, math.nan, math.nan, True),
        ("double", 1.0, 0.0, math.nan, True),
        ("double", 1.0, 2.0, 3.0, False),
        ("double", -0.0, 0.0, 0.0, True),
        ("double", math.nan, 2.0, 3.0, True),
        # Its text is a 64-bit number that is less.
        ("single", float(pa.scalar(0.1, pa.float32()).as_py()), 0.0, 0.1, True),
        ("exact", Decimal("12345678901234567890.123456"), 1.234567890123457e19, 2e19, True),
        ("exact", Decimal(3), Decimal("3.000001"), Decimal(4), False),
        ("cents", Decimal("1.10"), Decimal("1.1"), Decimal("1.1"), True),
        # Rounded as Spark rounds, also the maximum.
        (
            "local",
            dt.datetime(2024, 1, 1, 0, 0, 0, 1999),
            *[dt.datetime(2024, 1, 1, 0, 0, 0, 1000)] * 2,
            True,
        ),
        (
            "local",
            dt.datetime(1950, 1, 1, 0, 0, 0, 1999),
            *[dt.datetime(1950, 1, 1, 0, 0, 0, 2000)] * 2,
            True,
        ),
        ("local", dt.datetime(2024, 1, 1), "2024-01-01 00:00:01", "2024-01-01 00:00:02", False),
        # Not of the column's type.
        ("local", dt.datetime(2024, 1, 1), *[dt.datetime(2025, 1, 1, tzinfo=UTC)] * 2, True),
        ("local", dt.datetime(2024, 1, 1), "soon", "soon", True),
        ("long", 7, "8", "9", True),
        ("long", 7, None, 6, True),
        ("day", dt.date(2024, 1, 2), "2024-01-03", "2024-01-04", False),
        ("truth", True, False, False, True),
        ("bytes", b"b", b"c", b"d", True),
        # No known bound covers it.
        ("text", "a" * 32 + "\U0010ffff" * 2, "b", "c", True),
        ("text", "a" * 32 + "\U0010ffff" * 2, *["a" * 32 + "\U0010ffff" * 2] * 2, True),
        ("text", "ä", "b", "z", False),
    ],
)
def test_bounds_exclude_a_file_only_if_they_are_exact(
    tmp_path: Path, name: str, key: object, low: object, high: object, is_read: bool
) -> None:
    table = Table(tmp_path, pa.schema([(name, KINDS[name][0]), ("v", pa.int64())]), [])
    staged = table.staged([{name: key, "v": 1}], (name,))
    file = TableFile("f.parquet", 1, {}, {name: low}, {name: high})
    known = EpochKeys(staged, table.schema, (name,), ())
    assert known.candidates([file]) == ([file] if is_read else [])


def test_an_empty_text_in_a_partition_of_the_keys_is_refused(tmp_path: Path) -> None:
    """Delta stores it as null, so each epoch would add the row once more."""
    table = Table(tmp_path, pa.schema([("p", pa.string()), ("v", pa.int64())]), ["p"])
    table.append([{"p": "a", "v": 1}])
    with pytest.raises(RequestError, match="an empty text becomes null") as raised:
        table.staged([{"p": "", "v": 1}], ("p",))
    assert raised.value.error_id == "CLEANCUT_SINK_REFUSED"
    table.staged([{"p": "", "v": 1}], ("v",))
