"""Rows of an epoch that replace rows with the same keys, before they are staged."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cleancut.sinks._core.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

# Column of staged rows: whether the row deletes.
DELETES = "cleancut_deletes"

# Creates the error for a reason.
Refuse = Callable[[str], Exception]


@dataclass(frozen=True)
class KeyOptions:
    """Options that identify rows, and that select one of several rows with the same keys.

    Attributes:
        keys: key columns, by which a row replaces another one; empty if all rows are appended.
        order_by: column whose greatest value selects one of several rows with the same keys; "" if
            none.
        delete_when: boolean column: a row in which it is true deletes; "" if none.
    """

    keys: tuple[str, ...]
    order_by: str = ""
    delete_when: str = ""

    def problem(self) -> str | None:
        """The reason why the options contradict each other; None if they do not."""
        if not self.keys and (self.order_by or self.delete_when):
            return "order_by and delete_when require keys"
        return None

    def written(self, schema: "StructType", refuse: Refuse) -> "StructType":
        """The table columns of a batch; refuses a batch that lacks a configured column."""
        from pyspark.sql.types import StructType

        wanted = (*self.keys, *filter(None, (self.order_by, self.delete_when)))
        missing = sorted(set(wanted) - set(schema.names))
        if missing:
            raise refuse(f"the batch has no columns {', '.join(missing)}")
        if self.delete_when and schema[self.delete_when].dataType.simpleString() != "boolean":
            raise refuse(f"{self.delete_when} is no boolean column")
        return StructType([field for field in schema.fields if field.name != self.delete_when])

    def prepared(self, rows: "DataFrame", refuse: Refuse) -> "DataFrame":
        """The selected rows, one for each key, with the column DELETES."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F  # noqa: N812  # the name that all of PySpark uses

        if not self.keys:
            return rows
        self._check(rows, refuse)
        keys = [F.col(quoted(key)) for key in self.keys]
        if self.order_by:
            place = "cleancut_place"
            newest = Window.partitionBy(*keys).orderBy(F.col(quoted(self.order_by)).desc())
            rows = rows.withColumn(place, F.row_number().over(newest))
            rows = rows.where(F.col(place) == 1).drop(place)
        if self.delete_when:
            deletes = F.coalesce(F.col(quoted(self.delete_when)), F.lit(False))
            rows = rows.withColumn(DELETES, deletes)
            if self.delete_when != DELETES:
                rows = rows.drop(self.delete_when)
        return rows

    def _check(self, rows: "DataFrame", refuse: Refuse) -> None:
        """Refuses null keys, and duplicate keys without `order_by`."""
        from pyspark.sql import functions as F  # noqa: N812

        keys = [F.col(quoted(key)) for key in self.keys]
        is_null = F.lit(False)
        for key in keys:
            is_null = is_null | key.isNull()
        counts = (
            rows.groupBy(*keys)
            .agg(F.count("*").alias("cleancut_rows"))
            .agg(
                F.count_if(is_null).alias("nulls"),
                F.count_if(F.col("cleancut_rows") > 1).alias("duplicated"),
            )
            .collect()[0]
        )
        if counts["nulls"]:
            raise refuse(f"there are nulls in the keys {', '.join(self.keys)}")
        if counts["duplicated"] and not self.order_by:
            raise refuse(
                f"{counts['duplicated']} keys are duplicated in the epoch;"
                " select one row (order_by)"
            )


def touched(rows: "DataFrame", there: "DataFrame", keys: Sequence[str], column: str) -> set[Any]:
    """The files of a table that contain rows with the keys of an epoch.

    Args:
        rows: rows of the epoch.
        there: keys of rows of the table, with the column.
        keys: key columns.
        column: column that identifies files.
    """
    touched_files = (
        there.join(_keys_of(rows, keys), list(keys), "left_semi").select(column).distinct()
    )
    return {row[0] for row in touched_files.collect()}


def replaced(rows: "DataFrame", before: "DataFrame | None", keys: Sequence[str]) -> "DataFrame":
    """The rows that replace files of a table.

    Args:
        rows: rows of the epoch, with DELETES if some may delete.
        before: all rows of the affected files; None if there is no such file.
        keys: key columns.
    """
    from pyspark.sql import functions as F  # noqa: N812

    kept = None if before is None else before.join(_keys_of(rows, keys), list(keys), "left_anti")
    if DELETES in rows.columns:
        rows = rows.where(~F.col(DELETES)).drop(DELETES)
    return rows if kept is None else rows.unionByName(kept, allowMissingColumns=True)


def _keys_of(rows: "DataFrame", keys: Sequence[str]) -> "DataFrame":
    # Otherwise Spark may broadcast the keys of an epoch through the driver.
    return rows.select(*map(quoted, keys)).hint("merge")
