"""Delta Lake: executors write an epoch's files, one commit to the table's log names them."""

import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.columns import column_names, quoted
from cleancut.sinks._core.query_side import QuerySide
from cleancut.sinks._lakes.delta_merge import DELETES
from cleancut.sinks._lakes.delta_table import DeltaLake, DeltaOptions
from cleancut.sinks._lakes.delta_types import delta_type
from cleancut.sinks._lakes.files import Staged, epoch_directory
from cleancut.sinks._lakes.lake import LakeOptions, LakeSink, refused_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_LOG = logging.getLogger("cleancut.sinks")
_FILE_BYTES = 128 << 20


class DeltaSink(LakeSink):
    """Writes each epoch of a query into a table of Delta Lake, once; on any Spark, without a jar.

    The executors write Parquet files; the driver adds them to the table in one commit, which also
    says of which epoch they are. So each reader of Delta sees whole epochs.

        rows.writeStream.foreachBatch(DeltaSink("s3://bucket/orders", partition_by="day")).start()

    With `keys`, the executors rewrite those files of the table in which there are rows with the
    keys of the epoch; the driver puts the new ones in their place, in one commit.

    Executors need the extra `cleancut[delta]` and the way to the store, as the driver does.
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
        self._keys = column_names(keys)
        self._order_by = order_by
        self._delete_when = delete_when
        self._files_stay = not self._keys
        how = DeltaOptions(self._keys, column_names(partition_by), file_bytes)
        self._delta = DeltaLake(os.fspath(path), how, dict(storage_options or {}))
        super().__init__(self._delta, LakeOptions(create, file_bytes, retry_for_s))
        if not self._keys and (order_by or delete_when):
            raise self.refusal("order_by and delete_when are for rows with keys")

    def begin(self, side: QuerySide, session: "SparkSession") -> None:
        """Takes the table over for a run, and goes back with the query; see `EpochSink`.

        Raises:
            CleancutError: as other sinks of lakes; CLEANCUT_DEPENDENCY_MISSING.
        """
        self._delta.session = session
        super().begin(side, session)

    def _written(self, schema: "StructType") -> "StructType":
        from pyspark.sql.types import StructType

        wanted = (*self._keys, *filter(None, (self._order_by, self._delete_when)))
        missing = sorted(set(wanted) - set(schema.names))
        if missing:
            raise self.refusal(f"the batch has no columns {', '.join(missing)}")
        fields = [of for of in schema.fields if of.name != self._delete_when]
        if self._delete_when and schema[self._delete_when].dataType.simpleString() != "boolean":
            raise self.refusal(f"{self._delete_when} is no column of booleans")
        written = StructType(fields)
        problem = refused_types(written, {of.name: delta_type(of.dataType) for of in fields})
        if problem is not None:
            raise self.refusal(problem)
        return written

    def _prepared(self, rows: "DataFrame") -> "DataFrame":
        from pyspark.sql import Window
        from pyspark.sql import functions as F  # noqa: N812  # the name that all of PySpark uses

        if not self._keys:
            return rows
        self._check_keys(rows)
        keys = [F.col(quoted(key)) for key in self._keys]
        if self._order_by:
            place = "cleancut_place"
            newest = Window.partitionBy(*keys).orderBy(F.col(quoted(self._order_by)).desc())
            rows = rows.withColumn(place, F.row_number().over(newest))
            rows = rows.where(F.col(place) == 1).drop(place)
        if self._delete_when:
            deletes = F.coalesce(F.col(quoted(self._delete_when)), F.lit(False))
            rows = rows.withColumn(DELETES, deletes)
            if self._delete_when != DELETES:
                rows = rows.drop(self._delete_when)
        return rows

    def _check_keys(self, rows: "DataFrame") -> None:
        """Refuses keys that are null, and such as come twice where nothing says which counts."""
        from pyspark.sql import functions as F  # noqa: N812

        keys = [F.col(quoted(key)) for key in self._keys]
        is_null = F.lit(False)
        for key in keys:
            is_null = is_null | key.isNull()
        found = (
            rows.groupBy(*keys)
            .agg(F.count("*").alias("cleancut_rows"))
            .agg(
                F.count_if(is_null).alias("nulls"),
                F.count_if(F.col("cleancut_rows") > 1).alias("doubled"),
            )
            .collect()[0]
        )
        if found["nulls"]:
            raise self.refusal(f"there are nulls in the keys {', '.join(self._keys)}")
        if found["doubled"] and not self._order_by:
            raise self.refusal(
                f"{found['doubled']} keys come more than once in the epoch; say which counts"
                " (order_by)"
            )

    def publish(self, handle: str, batch: Batch) -> None:
        """Adds what is staged, or puts it in the place of other rows; see `EpochSink`."""
        super().publish(handle, batch)
        if self._keys:
            # The rows are in other files now.
            place = f"{epoch_directory(batch)}/{Staged.decode(handle).token}"
            try:
                self._within(lambda table: self._there(table).files().delete(place))
            except Exception as failure:  # whatever the store says: the epoch is published
                _LOG.warning("%s: %s could not be deleted: %s", self.name, place, failure)
