"""Delta Lake: executors write the files of an epoch, and one commit adds them to the table."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cleancut.sinks._core.columns import column_names
from cleancut.sinks._core.query_side import QuerySide
from cleancut.sinks._lakes.delta_log import DeltaOptions
from cleancut.sinks._lakes.delta_table import DeltaLake
from cleancut.sinks._lakes.delta_types import delta_type
from cleancut.sinks._lakes.keys import KeyOptions
from cleancut.sinks._lakes.lake import LakeOptions, LakeSink, refused_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_FILE_BYTES = 128 << 20


class DeltaSink(LakeSink):
    """Writes each epoch of a query exactly once into a Delta table.

    The executors write Parquet files. The driver adds them to the table in one commit, which also
    records the epoch. So Delta readers see complete epochs.

        rows.writeStream.foreachBatch(DeltaSink("s3://bucket/orders", partition_by="day")).start()

    With `keys`, the executors rewrite the files that contain rows with the keys of the epoch, and
    the driver replaces them in one commit (copy-on-write).

    The library deltalake writes the table, on every Spark version and without a jar. The driver and
    the executors need the extra `cleancut[delta]` and access to the store.
    """

    _kind = "DeltaSink"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        keys: str | Sequence[str] = (),
        order_by: str = "",
        delete_when: str = "",
        partition_by: str | Sequence[str] = (),
        storage_options: Mapping[str, str] | None = None,
        create: bool = True,
        file_bytes: int = _FILE_BYTES,
        retry_for_s: float = 60.0,
    ) -> None:
        """Creates the sink; it connects at the first epoch.

        Args:
            path: path of the table: a directory shared by all executors, or a URI that deltalake
                supports (`s3://`, `abfss://`, `gs://`).
            keys: key columns: a row replaces the row with the same keys. Without keys, all rows
                are appended.
            order_by: column that selects the row with the greatest value if an epoch has several
                rows with the same keys; without it such rows are refused.
            delete_when: boolean column that the table does not have; a row in which it is true
                deletes the row with the same keys.
            partition_by: partition columns of a new table; an existing table keeps its own.
            storage_options: options of deltalake for the object store and its credentials. Their
                values are in no log, error and plan.
            create: create the table if it does not exist.
            file_bytes: approximate target size of files, in bytes.
            retry_for_s: seconds for which conflicting commits and an unavailable store are retried.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, the arguments are contradictory.
        """
        self._keyed = KeyOptions(column_names(keys), order_by, delete_when)
        self._files_stay = not self._keyed.keys
        how = DeltaOptions(self._keyed.keys, column_names(partition_by), file_bytes)
        self._delta = DeltaLake(os.fspath(path), how, dict(storage_options or {}))
        super().__init__(self._delta, LakeOptions(create, file_bytes, retry_for_s))
        problem = self._keyed.problem()
        if problem is not None:
            raise self.refusal(problem)

    def begin(self, side: QuerySide, session: "SparkSession") -> None:
        """Takes over the table for a run, and rolls it back with the query; see `EpochSink`.

        Raises:
            CleancutError: as other sinks of lakes; CLEANCUT_DEPENDENCY_MISSING.
        """
        self._delta.connect(session)
        super().begin(side, session)

    def _written(self, schema: "StructType") -> "StructType":
        written = self._keyed.written(schema, self.refusal)
        named = {field.name: delta_type(field.dataType) for field in written.fields}
        problem = refused_types(written, named)
        if problem is not None:
            raise self.refusal(problem)
        return written

    def _prepared(self, rows: "DataFrame") -> "DataFrame":
        return self._keyed.prepared(rows, self.refusal)
