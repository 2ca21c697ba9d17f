"""Reads the rows of published epochs with Spark."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from cleancut.errors import error_of
from cleancut.sinks._core.columns import quoted
from cleancut.sinks._epoch_log.manifest import Manifest
from cleancut.sinks._epoch_log.names import ATTEMPT_COLUMN, FILES
from cleancut.sinks._epoch_log.records import Records

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True)
class RowReader:
    """Reads with a session and options of the format.

    Attributes:
        spark: any session that can read the files.
        records: the records of the sink.
        options: Spark's options of the format.
    """

    spark: "SparkSession"
    records: Records
    options: Mapping[str, str]

    def rows(self, manifests: Sequence[Manifest], epoch_column: str | None) -> "DataFrame":
        """The rows of at least one epoch; the columns of the newest epoch come first."""
        alike: dict[tuple[object, ...], list[Manifest]] = {}
        for manifest in reversed(manifests):
            kind = (manifest.format, manifest.schema, manifest.partition_by)
            alike.setdefault(kind, []).append(manifest)
        frames = (self._rows_alike(group, epoch_column) for group in alike.values())
        return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)

    def _rows_alike(self, manifests: Sequence[Manifest], epoch_column: str | None) -> "DataFrame":
        """The rows of epochs with one format, schema and partitioning."""
        from pyspark.sql import functions as F  # noqa: N812  # the name that all of PySpark uses

        first = manifests[0]
        names = [file.name for manifest in manifests for file in manifest.files]
        read, columns = self._loaded(first, names)
        if epoch_column is not None:
            epoch = F.split_part(F.col(ATTEMPT_COLUMN), F.lit("-"), F.lit(1)).cast("long")
            columns.append(epoch.alias(epoch_column))
        return read.select(columns)

    def _loaded(
        self,
        manifest: Manifest,
        names: Iterable[str],
    ) -> "tuple[DataFrame, list[Column]]":
        """The content of some files, and its columns.

        Args:
            manifest: manifest of one of the epochs, which has their format and schema.
            names: names of the files.
        """
        from pyspark.errors import AnalysisException
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import StringType, StructType

        fields = StructType.fromJson(json.loads(manifest.schema))
        read = StructType([*fields.fields])
        read = read.add(ATTEMPT_COLUMN, StringType())
        paths = [self.records.at(name) for name in names]
        try:
            rows = (
                self.spark.read.format(manifest.format)
                .options(**self.options)
                .option("basePath", self.records.at(FILES))
                # Paths are literal: Spark would interpret brackets as a glob pattern.
                .option("__globPaths__", "false")
                .schema(read)
                .load(paths)
                if paths
                else self.spark.createDataFrame([], read)
            )
        except AnalysisException as failure:
            if failure.getCondition() != "PATH_NOT_FOUND":
                raise
            raise error_of(
                "CLEANCUT_SINK_CORRUPTED", path=self.records.location, detail=failure
            ) from failure
        return rows, [F.col(quoted(name)) for name in fields.fieldNames()]
