"""Delta Lake: executors write an epoch's files, one commit to the table's log names them."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cleancut.sinks._core.columns import column_names
from cleancut.sinks._core.query_side import QuerySide
from cleancut.sinks._lakes.delta_log import DeltaOptions
from cleancut.sinks._lakes.delta_table import DeltaLake
from cleancut.sinks._lakes.delta_types import delta_type
from cleancut.sinks._lakes.keyed import Keyed
from cleancut.sinks._lakes.lake import LakeOptions, LakeSink, refused_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_FILE_BYTES = 128 << 20


class DeltaSink(LakeSink):
    """Writes each epoch of a query into a table of Delta Lake, once.

    The executors write Parquet files; the driver adds them to the table in one commit, which also
    says of which epoch they are. So each reader of Delta sees whole epochs.

        rows.writeStream.foreachBatch(DeltaSink("s3://bucket/orders", partition_by="day")).start()

    With `keys`, the executors rewrite those files of the table in which there are rows with the
    keys of the epoch; the driver puts the new ones in their place, in one commit.

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
        """Names the table; nothing is looked at yet.

        Args:
            path: of the table: a directory that all executors share, or a URI that deltalake knows
                (`s3://`, `abfss://`, `gs://`).
            keys: columns by which a row takes the place of another one; without keys all rows are
                added.
            order_by: of several rows of an epoch with the same keys that counts which is greatest
                here; without it such rows are refused.
            delete_when: a column of booleans, which the table does not have: rows in which it is
                true delete that with their keys.
            partition_by: columns of partitions, of a table that is made; a table that is there has
                its own.
            storage_options: of deltalake: how the store is reached, and by whom. Values are in no
                log, error and plan.
            create: whether the table is made if it is not there.
            file_bytes: how large files are to be, about, in bytes.
            retry_for_s: for how many seconds a commit is tried again that others came before, and a
                store that does not answer.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, the arguments do not go together.
        """
        self._keyed = Keyed(column_names(keys), order_by, delete_when)
        self._files_stay = not self._keyed.keys
        how = DeltaOptions(self._keyed.keys, column_names(partition_by), file_bytes)
        self._delta = DeltaLake(os.fspath(path), how, dict(storage_options or {}))
        super().__init__(self._delta, LakeOptions(create, file_bytes, retry_for_s))
        problem = self._keyed.problem()
        if problem is not None:
            raise self.refusal(problem)

    def begin(self, side: QuerySide, session: "SparkSession") -> None:
        """Takes the table over for a run, and goes back with the query; see `EpochSink`.

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
