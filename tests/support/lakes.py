"""Tables of lakes on a local disk, read without Spark."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import Catalog, load_catalog

from cleancut.sinks import DeltaSink, IcebergSink

LAKES = ("delta", "iceberg")
Row = dict[str, Any]


class Lake(Protocol):
    """One table, which the first sink that writes to it creates."""

    def sink(self, **options: Any) -> DeltaSink | IcebergSink:
        """Returns a sink of the table."""

    def exists(self) -> bool: ...

    def rows(self) -> list[Row]:
        """Returns all rows, in any order."""

    def count(self) -> int:
        """Returns the number of rows."""

    def append(self, rows: pa.Table) -> None:
        """Appends rows like another writer; creates the table if it does not exist."""

    def rewrite(self) -> None:
        """Compacts files or replaces rows of all files, like a maintenance service."""

    def state(self) -> int:
        """Returns its current version, or its current snapshot."""

    def restore(self, state: int) -> None:
        """Restores an earlier state by hand."""

    def files(self) -> Iterator[tuple[dict[str, Any], dict[str, tuple[Any, Any]]]]:
        """Yields the partition values and the bounds of columns of each file."""


class OfDelta:
    """Implements `Lake`."""

    def __init__(self, home: Path) -> None:
        self.path = home / "delta"

    def sink(self, **options: Any) -> DeltaSink:
        return DeltaSink(self.path, **options)

    def exists(self) -> bool:
        return DeltaTable.is_deltatable(str(self.path))

    def rows(self) -> list[Row]:
        if not self.exists():
            return []
        rows: list[Row] = pa.table(DeltaTable(self.path).to_pyarrow_table()).to_pylist()
        return rows

    def count(self) -> int:
        return DeltaTable(self.path).count()

    def append(self, rows: pa.Table) -> None:
        write_deltalake(self.path, rows, mode="append")

    def rewrite(self) -> None:
        DeltaTable(self.path).optimize.compact()

    def state(self) -> int:
        return DeltaTable(self.path).version()

    def restore(self, state: int) -> None:
        DeltaTable(self.path).restore(state)

    def last_epoch(self, version: int, query_id: str) -> int:
        """Returns the last epoch of a query at a version of the table; -1 without one."""
        log = self.path / "_delta_log"
        for at in range(version, -1, -1):
            for line in (log / f"{at:020d}.json").read_text().splitlines():
                info = json.loads(line).get("commitInfo", {})
                written = info.get("cleancut") or json.loads(info.get("userMetadata", "{}"))
                entry = written.get("cleancut", written)
                if entry.get("queryId") == query_id:
                    return int(entry["lastEpoch"])
        return -1

    def files(self) -> Iterator[tuple[dict[str, Any], dict[str, tuple[Any, Any]]]]:
        for action in pa.table(DeltaTable(self.path).get_add_actions(flatten=True)).to_pylist():
            names = [name.removeprefix("min.") for name in action if name.startswith("min.")]
            values = {
                name.removeprefix("partition."): value
                for name, value in action.items()
                if name.startswith("partition.")
            }
            yield values, {name: (action[f"min.{name}"], action[f"max.{name}"]) for name in names}


class OfIceberg:
    """Implements `Lake`, with a catalog in SQLite."""

    NAME = "shop.rows"

    def __init__(self, home: Path) -> None:
        self.properties = {
            "type": "sql",
            "uri": f"sqlite:///{home}/catalog.db",
            "warehouse": f"file://{home}/warehouse",
        }
        self.catalog().create_namespace_if_not_exists("shop")

    def catalog(self) -> Catalog:
        return load_catalog("lake", **self.properties)

    def sink(self, **options: Any) -> IcebergSink:
        return IcebergSink(self.NAME, catalog="lake", properties=self.properties, **options)

    def exists(self) -> bool:
        return self.catalog().table_exists(self.NAME)

    def rows(self) -> list[Row]:
        if not self.exists():
            return []
        rows: list[Row] = self.catalog().load_table(self.NAME).scan().to_arrow().to_pylist()
        return rows

    def count(self) -> int:
        return self.catalog().load_table(self.NAME).scan().count()

    def append(self, rows: pa.Table) -> None:
        self.catalog().create_table_if_not_exists(self.NAME, schema=rows.schema).append(rows)

    def rewrite(self) -> None:
        table = self.catalog().load_table(self.NAME)
        table.overwrite(table.scan().to_arrow())

    def state(self) -> int:
        snapshot = self.catalog().load_table(self.NAME).current_snapshot()
        assert snapshot is not None, "nothing was written"
        return snapshot.snapshot_id

    def restore(self, state: int) -> None:
        snapshots = self.catalog().load_table(self.NAME).manage_snapshots()
        snapshots.rollback_to_snapshot(state).commit()

    def files(self) -> Iterator[tuple[dict[str, Any], dict[str, tuple[Any, Any]]]]:
        table = self.catalog().load_table(self.NAME)
        for file in table.inspect.files().to_pylist():
            metrics = file["readable_metrics"]
            bounds = {
                name: (bounds_of["lower_bound"], bounds_of["upper_bound"])
                for name, bounds_of in metrics.items()
            }
            yield dict(file.get("partition") or {}), bounds


def lake_at(kind: str, home: Path) -> Lake:
    """Returns a table of one kind."""
    return OfDelta(home) if kind == "delta" else OfIceberg(home)


def columns(rows: Sequence[Row], *names: str) -> list[tuple[Any, ...]]:
    """Returns some columns, sorted."""
    return sorted(tuple(row[name] for name in names) for row in rows)
