"""The rows of published epochs, as Spark reads them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from cleancut.errors import error_of
from cleancut.sinks._core.columns import quoted
from cleancut.sinks._files.directory import Records
from cleancut.sinks._files.manifest import Manifest
from cleancut.sinks._files.names import ATTEMPT_COLUMN, EPOCH_COLUMN, FILES, PART_COLUMN, PARTS
from cleancut.sinks._files.view import SeenPart, View

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True)
class RowReader:
    """Reads with a session, and the options of a format.

    Attributes:
        spark: any that can read the files.
        records: of the sink, whose paths they have.
        options: Spark's, for the format.
    """

    spark: "SparkSession"
    records: Records
    options: Mapping[str, str]

    def rows(self, view: View, epoch_column: str | None) -> "DataFrame":
        """The rows of what is seen, of which there is something; the newest columns come first."""
        alike: dict[tuple[object, ...], list[Manifest]] = {}
        for manifest in reversed(view.apart):
            kind = (manifest.format, manifest.schema, manifest.partition_by)
            alike.setdefault(kind, []).append(manifest)
        found = [(of[0].epoch, self.apart(of, epoch_column)) for of in alike.values()]
        found += [(max(of.chosen), self.together(of, epoch_column)) for of in view.together]
        found.sort(key=lambda of: of[0], reverse=True)
        frames = (frame for _, frame in found)
        return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)

    def apart(self, manifests: Sequence[Manifest], epoch_column: str | None) -> "DataFrame":
        """The rows of epochs that were written alike, each into files of its own."""
        from pyspark.sql import functions as F  # noqa: N812  # the name that all of PySpark uses

        first = manifests[0]
        names = [file.name for manifest in manifests for file in manifest.files]
        read, columns = self._loaded(first.format, first.schema, FILES, ATTEMPT_COLUMN, names)
        if epoch_column is not None:
            epoch = F.split_part(F.col(ATTEMPT_COLUMN), F.lit("-"), F.lit(1)).cast("long")
            columns.append(epoch.alias(epoch_column))
        return read.select(columns)

    def together(self, seen: SeenPart, epoch_column: str | None) -> "DataFrame":
        """The rows of epochs that lie together."""
        from pyspark.sql import functions as F  # noqa: N812

        part = seen.part
        names = [file.name for file in part.files]
        read, columns = self._loaded(
            part.format, part.schema, PARTS, PART_COLUMN, names, EPOCH_COLUMN
        )
        if seen.chosen != seen.use.epochs:
            ranges = (F.col(EPOCH_COLUMN).between(*of) for of in seen.chosen.ranges)
            read = read.where(reduce(lambda a, b: a | b, ranges))
        if epoch_column is not None:
            columns.append(F.col(EPOCH_COLUMN).alias(epoch_column))
        return read.select(columns)

    def _loaded(
        self,
        kind: str,
        schema: str,
        base: str,
        directory_column: str,
        names: Iterable[str],
        *longs: str,
    ) -> "tuple[DataFrame, list[Column]]":
        """What is in some files, with the columns of a schema.

        Args:
            kind: Spark's name of the format.
            schema: Spark's JSON.
            base: the directory that has all of them.
            directory_column: the one that their paths have in common.
            names: of the files.
            longs: columns that the files have besides those of the schema.
        """
        from pyspark.errors import AnalysisException
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import LongType, StringType, StructType

        fields = StructType.fromJson(json.loads(schema))
        read = StructType([*fields.fields])
        for name in longs:
            read = read.add(name, LongType())
        read = read.add(directory_column, StringType())
        paths = [self.records.at(name) for name in names]
        try:
            rows = (
                self.spark.read.format(kind)
                .options(**self.options)
                .option("basePath", self.records.at(base))
                # Names of files, in which a bracket is a bracket.
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
                "CLEANCUT_SINK_DAMAGED", path=self.records.location, detail=failure
            ) from failure
        return rows, [F.col(quoted(name)) for name in fields.fieldNames()]
