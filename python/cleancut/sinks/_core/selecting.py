"""A sink that takes a part of what an epoch has, beside others that take other parts."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.epoch_sink import EpochSink
from cleancut.sinks._core.query_side import QuerySide

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class _Selecting(EpochSink):
    def __init__(self, sink: EpochSink, select: "Callable[[DataFrame], DataFrame]") -> None:
        self._sink = sink
        self._select = select
        self.reads_rows_once = sink.reads_rows_once

    def __repr__(self) -> str:
        return f"selecting({self._sink!r})"

    @property
    def name(self) -> str:
        return self._sink.name

    @property
    def ledger_key(self) -> str:
        return self._sink.ledger_key

    def accept_gap(self, first: int, last: int) -> None:
        self._sink.accept_gap(first, last)

    def accept_move(self, checkpoint: str) -> None:
        self._sink.accept_move(checkpoint)

    def leaves_record(self, handle: str) -> bool:
        return self._sink.leaves_record(handle)

    def begin(self, side: QuerySide, session: Any) -> None:
        self._sink.begin(side, session)

    def _enter(self, batch: Batch) -> None:
        self._sink._enter(batch)

    def _leave(self) -> None:
        self._sink._leave()

    def _begin_once(self, side: QuerySide, session: Any) -> None:
        self._sink._begin_once(side, session)

    def published(self, batch: Batch) -> str | None:
        return self._sink.published(batch)

    def can_publish(self, handle: str, batch: Batch, published: str | None) -> bool:
        return self._sink.can_publish(handle, batch, published)

    def stage(self, rows: "DataFrame", batch: Batch) -> str:
        return self._sink.stage(self._select(rows), batch)

    def publish(self, handle: str, batch: Batch) -> None:
        self._sink.publish(handle, batch)

    def sweep(self, batch: Batch) -> None:
        self._sink.sweep(batch)


def selecting(sink: EpochSink, select: "Callable[[DataFrame], DataFrame]") -> EpochSink:
    """Makes a sink that takes what a function makes of an epoch's rows; for `fan_out`, above all.

    So one query writes different rows to several targets, each epoch to each of them once.

        sink = fan_out(
            selecting(EpochFiles("/lake/late"), lambda rows: rows.where("is_late")),
            selecting(Channel("/lake/orders"), lambda rows: rows.where("not is_late")),
        )

    Args:
        sink: that takes the rows.
        select: gives them, the same each time it is called with the same rows. It must not leave
            out partitions unread (as `limit` does), unless the rows are kept for several sinks.
    """
    return _Selecting(sink, select)
