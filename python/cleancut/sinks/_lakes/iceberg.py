"""Iceberg: executors write an epoch's files, one snapshot of the table names them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cleancut.sinks._core.columns import column_names
from cleancut.sinks._lakes.iceberg_table import IcebergLake
from cleancut.sinks._lakes.iceberg_types import iceberg_type
from cleancut.sinks._lakes.lake import LakeOptions, LakeSink, refused_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_FILE_BYTES = 128 << 20


class IcebergSink(LakeSink):
    """Adds each epoch of a query to a table of Iceberg, once; on any Spark, without a jar.

    The executors write Parquet files; the driver adds them to the table in one snapshot of `main`,
    whose summary says of which epoch they are. So each reader of Iceberg sees whole epochs.

        rows.writeStream.foreachBatch(IcebergSink("shop.orders", catalog="production")).start()

    Executors need the extra `cleancut[iceberg]` and the way to the store, as the driver does; only
    the driver asks the catalog.
    """

    _kind = "IcebergSink"

    def __init__(
        self,
        table: str,
        *,
        catalog: str = "default",
        properties: Mapping[str, str] | None = None,
        partition_by: str | Sequence[str] = (),
        create: bool = True,
        file_bytes: int = _FILE_BYTES,
        retry_for_s: float = 60.0,
    ) -> None:
        """Names the table; nothing is looked at yet.

        Args:
            table: its identifier, with the namespace before a point.
            catalog: the name of a catalog, as pyiceberg is configured.
            properties: of the catalog and of the store, besides what is configured. Values are in
                no log, error and plan.
            partition_by: columns by whose values a table is partitioned that is made; a table that
                is there has its own partitions.
            create: whether the table is made if it is not there; its namespace is not.
            file_bytes: how many bytes of rows, as Arrow has them, go into a file, about.
            retry_for_s: for how many seconds a commit is tried again that others came before, and a
                catalog that does not answer.
        """
        lake = IcebergLake(
            table, catalog, column_names(partition_by), file_bytes, dict(properties or {})
        )
        super().__init__(lake, LakeOptions(create, file_bytes, retry_for_s))

    def _written(self, schema: "StructType") -> "StructType":
        problem = refused_types(
            schema, {of.name: iceberg_type(of.dataType) for of in schema.fields}
        )
        if problem is not None:
            raise self.refusal(problem)
        return schema

    def _prepared(self, rows: "DataFrame") -> "DataFrame":
        return rows
