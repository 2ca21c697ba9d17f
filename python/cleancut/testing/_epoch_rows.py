"""A sink in the memory of the driver, for tests."""

from typing import TYPE_CHECKING

from cleancut._query.sealing import seal
from cleancut._session.connect import require_classic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row


class EpochRows:
    """A function for `foreachBatch` that seals each epoch and keeps its rows in order.

    An epoch that runs again replaces its earlier rows, as in an exactly-once sink.

    Attributes:
        epochs: the rows of each epoch so far.
        changed: epochs that ran again with other rows, which must not happen after a seal.
        changed: epochs that ran again and had other rows then, which no sealed epoch may.
    """

    def __init__(self) -> None:
        self.epochs: dict[int, list[Row]] = {}
        self.changed: list[int] = []

    def __call__(self, df: "DataFrame", epoch: int) -> None:
        """Stores the rows of one epoch.

        Raises:
            RequestError: CLEANCUT_CONNECT_UNSUPPORTED, the rows would be in a process of the
                server; or as `cleancut.seal`.
        """
        require_classic(df, "DataFrame")
        kept = seal(df, epoch)
        try:
            rows = kept.collect()
        finally:
            kept.unpersist()
        before = self.epochs.get(epoch)
        if before is not None and sorted(map(repr, before)) != sorted(map(repr, rows)):
            self.changed.append(epoch)
        self.epochs[epoch] = rows

    @property
    def rows(self) -> "list[Row]":
        """All rows, by epoch, and in order within an epoch."""
        return [row for epoch in sorted(self.epochs) for row in self.epochs[epoch]]
