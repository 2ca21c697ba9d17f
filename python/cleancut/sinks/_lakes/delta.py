"""Delta Lake: executors write an epoch's files, one commit to the table's log names them."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from cleancut.sinks._core.columns import column_names
from cleancut.sinks._core.query_side import QuerySide
from cleancut.sinks._lakes.delta_log import DeltaOptions
from cleancut.sinks._lakes.delta_spark import SparkDeltaLake
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

    It is written by the library deltalake, on any Spark and without a jar: executors need the extra
    `cleancut[delta]` and the way to the store, as the driver does. Or by Delta's own connector,
    `writer="spark"`, on Spark 4.2, with its jars: then the table may have what the library does not
    write, as deletion vectors, column mapping, constraints, generated columns, a change data feed
    and row tracking, and rows with keys are put in their place by MERGE.
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
        writer: Literal["deltalake", "spark"] = "deltalake",
        storage_options: Mapping[str, str] | None = None,
        create: bool = True,
        file_bytes: int = _FILE_BYTES,
        retry_for_s: float = 60.0,
    ) -> None:
        """Names the table; nothing is looked at yet.

        Args:
            path: of the table: a directory that all executors share, or a URI that the writer knows
                (`s3://`, `abfss://`, `gs://` for deltalake).
            keys: columns by which a row takes the place of another one; without keys all rows are
                added.
            order_by: of several rows of an epoch with the same keys that counts which is greatest
                here; without it such rows are refused.
            delete_when: a column of booleans, which the table does not have: rows in which it is
                true delete that with their keys.
            partition_by: columns of partitions, of a table that is made; a table that is there has
                its own.
            writer: what writes: the library deltalake, or Delta's connector for Spark.
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
        options = dict(storage_options or {})
        self._delta: DeltaLake | SparkDeltaLake = (
            SparkDeltaLake(os.fspath(path), how)
            if writer == "spark"
            else DeltaLake(os.fspath(path), how, options)
        )
        super().__init__(self._delta, LakeOptions(create, file_bytes, retry_for_s))
        problem = self._keyed.problem()
        if problem is not None:
            raise self.refusal(problem)
        if writer not in ("deltalake", "spark"):
            raise self.refusal(f"there is no writer {writer!r}, only 'deltalake' and 'spark'")
        if writer == "spark" and options:
            raise self.refusal("storage_options are deltalake's; Spark has settings of its own")

    def begin(self, side: QuerySide, session: "SparkSession") -> None:
        """Takes the table over for a run, and goes back with the query; see `EpochSink`.

        Raises:
            CleancutError: as other sinks of lakes; CLEANCUT_DEPENDENCY_MISSING;
                CLEANCUT_SINK_CONNECTOR_MISSING.
        """
        self._delta.connect(session)
        super().begin(side, session)

    def _written(self, schema: "StructType") -> "StructType":
        written = self._keyed.written(schema, self.refusal)
        has_variants = isinstance(self._delta, SparkDeltaLake)
        fields = written.fields
        named = {of.name: delta_type(of.dataType, has_variants=has_variants) for of in fields}
        problem = refused_types(written, named)
        if problem is not None:
            raise self.refusal(problem)
        return written

    def _prepared(self, rows: "DataFrame") -> "DataFrame":
        return self._keyed.prepared(rows, self.refusal)
