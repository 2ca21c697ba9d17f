"""Rows of an epoch that take the place of others with their keys, before they are staged."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cleancut.sinks._core.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

# A column of what is staged: whether the row deletes.
DELETES = "cleancut_deletes"

# Makes the error of a reason.
Refuse = Callable[[str], Exception]


@dataclass(frozen=True)
class Keyed:
    """How rows are told apart, and which of them counts.

    Attributes:
        keys: columns by which a row takes the place of another one; none adds all rows.
        order_by: of several rows with the same keys that counts which is greatest here; "" if none.
        delete_when: a column of booleans: where it is true the row deletes; "" if none.
    """

    keys: tuple[str, ...]
    order_by: str = ""
    delete_when: str = ""

    def problem(self) -> str | None:
        """Why these do not go together; None if they do."""
        if not self.keys and (self.order_by or self.delete_when):
            return "order_by and delete_when are for rows with keys"
        return None

    def written(self, schema: "StructType", refuse: Refuse) -> "StructType":
        """The columns of a table that a batch has, of which all are there that are named here."""
        from pyspark.sql.types import StructType

        wanted = (*self.keys, *filter(None, (self.order_by, self.delete_when)))
        missing = sorted(set(wanted) - set(schema.names))
        if missing:
            raise refuse(f"the batch has no columns {', '.join(missing)}")
        if self.delete_when and schema[self.delete_when].dataType.simpleString() != "boolean":
            raise refuse(f"{self.delete_when} is no column of booleans")
        return StructType([of for of in schema.fields if of.name != self.delete_when])

    def prepared(self, rows: "DataFrame", refuse: Refuse) -> "DataFrame":
        """The rows that count, one for each of their keys, and in DELETES what deletes."""
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
        """Refuses keys that are null, and such as come twice where nothing says which counts."""
        from pyspark.sql import functions as F  # noqa: N812

        keys = [F.col(quoted(key)) for key in self.keys]
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
            raise refuse(f"there are nulls in the keys {', '.join(self.keys)}")
        if found["doubled"] and not self.order_by:
            raise refuse(
                f"{found['doubled']} keys come more than once in the epoch; say which counts"
                " (order_by)"
            )


def touched(rows: "DataFrame", there: "DataFrame", keys: Sequence[str], column: str) -> set[Any]:
    """In which files of a table there are rows with the keys of an epoch.

    Args:
        rows: of the epoch.
        there: keys of rows of the table, and the column.
        keys: by which rows are told apart.
        column: what tells files.
    """
    found = there.join(_keys_of(rows, keys), list(keys), "left_semi").select(column).distinct()
    return {of[0] for of in found.collect()}


def replaced(rows: "DataFrame", before: "DataFrame | None", keys: Sequence[str]) -> "DataFrame":
    """What takes the place of files of a table.

    Args:
        rows: of the epoch, with DELETES if some may delete.
        before: all rows of the files in which there are some with these keys; None if there is no
            such file.
        keys: by which rows are told apart.
    """
    from pyspark.sql import functions as F  # noqa: N812

    kept = None if before is None else before.join(_keys_of(rows, keys), list(keys), "left_anti")
    if DELETES in rows.columns:
        rows = rows.where(~F.col(DELETES)).drop(DELETES)
    return rows if kept is None else rows.unionByName(kept, allowMissingColumns=True)


def _keys_of(rows: "DataFrame", keys: Sequence[str]) -> "DataFrame":
    # Else Spark may broadcast the keys of an epoch, which it does through the driver.
    return rows.select(*map(quoted, keys)).hint("merge")
