"""Selection of the files of an Iceberg table that are read for the keys of an epoch."""

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DateType,
    IcebergType,
    LongType,
    NestedField,
    TimestampType,
    TimestamptzType,
)

from cleancut.sinks._lakes.files import StagedFile
from cleancut.sinks._lakes.iceberg_merge import IcebergMerge, RowsWriter

MOMENT = dt.datetime(2024, 1, 1, 23, 59, 59, 999_999)
DAY = dt.timedelta(days=1)
BY_KEY = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "part"))
WHOLE = UNPARTITIONED_PARTITION_SPEC
KINDS: dict[str, tuple[IcebergType, PartitionSpec, pa.DataType, Callable[[int], Any]]] = {
    "day": (DateType(), BY_KEY, pa.date32(), lambda at: MOMENT.date() + at * DAY),
    "local": (TimestampType(), WHOLE, pa.timestamp("us"), lambda at: MOMENT + at * DAY),
    "moment": (
        TimestamptzType(),
        WHOLE,
        pa.timestamp("us", "UTC"),
        lambda at: (MOMENT + at * DAY).replace(tzinfo=dt.UTC),
    ),
    "number": (LongType(), BY_KEY, pa.int64(), lambda at: at),
}


@pytest.mark.parametrize("name", KINDS)
def test_only_files_that_may_have_the_keys_are_read(tmp_path: Path, name: str) -> None:
    """All files were read if the key was a timestamp."""
    kind, spec, arrow, value = KINDS[name]
    warehouse = tmp_path / "lake"
    warehouse.mkdir()
    catalog = SqlCatalog(
        "c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{warehouse}"
    )
    catalog.create_namespace("n")
    schema = Schema(
        NestedField(1, "k", kind, required=False), NestedField(2, "v", LongType(), required=False)
    )
    table = catalog.create_table("n.t", schema, partition_spec=spec)
    columns = pa.schema([("k", arrow), ("v", pa.int64())])
    for at in range(5):
        table.append(pa.Table.from_pylist([{"k": value(at), "v": at}], columns))

    def staged(*rows: int) -> list[StagedFile]:
        chunk = pa.Table.from_pylist([{"k": value(at), "v": at} for at in rows], columns)
        writer = RowsWriter(f"file://{tmp_path}/staged", columns, ("k",))
        return list(writer.write(iter([chunk])))

    no_session: Any = None
    merge = IcebergMerge(no_session, table, table.metadata, ("k",), 1 << 30, "t")
    for at in range(5):
        (candidate,) = merge._candidates(staged(at))
        assert candidate.file.record_count == 1
        bounds = json.loads(staged(at)[0].detail)["k"]
        assert bounds[0] == bounds[1]
    assert len(merge._candidates(staged(1, 3))) == 3
