"""Iceberg: executors write an epoch's files, one snapshot of the table names them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cleancut.sinks._core.columns import column_names
from cleancut.sinks._core.query_side import QuerySide
from cleancut.sinks._lakes.iceberg_table import IcebergLake
from cleancut.sinks._lakes.iceberg_types import iceberg_type
from cleancut.sinks._lakes.keyed import Keyed
from cleancut.sinks._lakes.lake import LakeOptions, LakeSink, refused_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_FILE_BYTES = 128 << 20


class IcebergSink(LakeSink):
    """Writes each epoch of a query into a table of Iceberg, once; on any Spark, without a jar.

    The executors write Parquet files; the driver adds them to the table in one snapshot of `main`,
    whose summary says of which epoch they are. So each reader of Iceberg sees whole epochs.

        rows.writeStream.foreachBatch(IcebergSink("shop.orders", catalog="production")).start()

    With `keys`, the executors rewrite those files of the table in which there are rows with the
    keys of the epoch; the driver puts the new ones in their place, in one snapshot.

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
        keys: str | Sequence[str] = (),
        order_by: str = "",
        delete_when: str = "",
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
            keys: columns by which a row takes the place of another one; without keys all rows are
                added.
            order_by: of several rows of an epoch with the same keys that counts which is greatest
                here; without it such rows are refused.
            delete_when: a column of booleans, which the table does not have: rows in which it is
                true delete that with their keys.
            partition_by: columns by whose values a table is partitioned that is made; a table that
                is there has its own partitions.
            create: whether the table is made if it is not there; its namespace is not.
            file_bytes: how many bytes of rows, as Arrow has them, go into a file, about.
            retry_for_s: for how many seconds a commit is tried again that others came before, and a
                catalog that does not answer.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, the arguments do not go together.
        """
        self._keyed = Keyed(column_names(keys), order_by, delete_when)
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
        """Takes the table over for a run, and goes back with the query; see `EpochSink`.

        Raises:
            CleancutError: as other sinks of lakes; CLEANCUT_DEPENDENCY_MISSING.
        """
        self._iceberg.session = session
        super().begin(side, session)

    def _written(self, schema: "StructType") -> "StructType":
        written = self._keyed.written(schema, self.refusal)
        named = {of.name: iceberg_type(of.dataType) for of in written.fields}
        problem = refused_types(written, named)
        if problem is not None:
            raise self.refusal(problem)
        return written

    def _prepared(self, rows: "DataFrame") -> "DataFrame":
        return self._keyed.prepared(rows, self.refusal)
