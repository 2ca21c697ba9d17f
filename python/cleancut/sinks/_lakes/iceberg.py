"""Iceberg: executors write the files of an epoch, and one snapshot adds them to the table."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cleancut.sinks._core.columns import column_names
from cleancut.sinks._core.query_side import QuerySide
from cleancut.sinks._lakes.iceberg_table import IcebergLake
from cleancut.sinks._lakes.iceberg_types import iceberg_type
from cleancut.sinks._lakes.keys import KeyOptions
from cleancut.sinks._lakes.lake import LakeOptions, LakeSink, refused_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_FILE_BYTES = 128 << 20


class IcebergSink(LakeSink):
    """Writes each epoch of a query exactly once into an Iceberg table, without a jar.

    The executors write Parquet files. The driver adds them to the table in one snapshot of `main`,
    whose summary records the epoch. So Iceberg readers see complete epochs.

        rows.writeStream.foreachBatch(IcebergSink("shop.orders", catalog="production")).start()

    With `keys`, the executors rewrite the files that contain rows with the keys of the epoch, and
    the driver replaces them in one snapshot (copy-on-write).

    The driver and the executors need the extra `cleancut[iceberg]` and access to the object store;
    only the driver needs the catalog.
    """

    _kind = "IcebergSink"

    def __init__(
        self,
        table: str,
        *,
        catalog: str = "default",
        properties: Mapping[str, str] | None = None,
        keys: str | Sequence[str] = (),
        order_by: str = "",
        delete_when: str = "",
        partition_by: str | Sequence[str] = (),
        create: bool = True,
        file_bytes: int = _FILE_BYTES,
        retry_for_s: float = 60.0,
    ) -> None:
        """Creates the sink; it connects at the first epoch.

        Args:
            table: identifier of the table, `namespace.name`.
            catalog: name of a catalog in pyiceberg's configuration.
            properties: additional properties of the catalog and the object store. Their values are
                in no log, error and plan.
            keys: key columns: a row replaces the row with the same keys. Without keys, all rows
                are appended.
            order_by: column that selects the row with the greatest value if an epoch has several
                rows with the same keys; without it such rows are refused.
            delete_when: boolean column that the table does not have; a row in which it is true
                deletes the row with the same keys.
            partition_by: partition columns of a new table; an existing table keeps its own.
            create: create the table if it does not exist; its namespace must exist.
            file_bytes: approximate size of the rows of a file in Arrow's format, in bytes.
            retry_for_s: seconds for which conflicting commits and an unavailable catalog are
                retried.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, the arguments are contradictory.
        """
        self._keyed = KeyOptions(column_names(keys), order_by, delete_when)
        self._files_stay = not self._keyed.keys
        partitions = column_names(partition_by)
        self._iceberg = IcebergLake(
            table, catalog, partitions, file_bytes, self._keyed.keys, dict(properties or {})
        )
        super().__init__(self._iceberg, LakeOptions(create, file_bytes, retry_for_s))
        problem = self._keyed.problem()
        if problem is not None:
            raise self.refusal(problem)

    def begin(self, side: QuerySide, session: "SparkSession") -> None:
        """Takes over the table for a run, and rolls it back with the query; see `EpochSink`.

        Raises:
            CleancutError: as other sinks of lakes; CLEANCUT_DEPENDENCY_MISSING.
        """
        self._iceberg.session = session
        super().begin(side, session)

    def _written(self, schema: "StructType") -> "StructType":
        written = self._keyed.written(schema, self.refusal)
        named = {field.name: iceberg_type(field.dataType) for field in written.fields}
        problem = refused_types(written, named)
        if problem is not None:
            raise self.refusal(problem)
        return written

    def _prepared(self, rows: "DataFrame") -> "DataFrame":
        return self._keyed.prepared(rows, self.refusal)
