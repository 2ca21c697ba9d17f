"""A sink that writes a transformation of the rows of each epoch."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.epoch_sink import EpochSink
from cleancut.sinks._core.query_side import QuerySide

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class _Transformed(EpochSink):
    def __init__(self, sink: EpochSink, transform: "Callable[[DataFrame], DataFrame]") -> None:
        self._sink = sink
        self._transform = transform
        self.reads_rows_once = sink.reads_rows_once

    def __repr__(self) -> str:
        return f"transformed({self._sink!r})"

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
        return self._sink.stage(self._transform(rows), batch)

    def publish(self, handle: str, batch: Batch) -> None:
        self._sink.publish(handle, batch)

    def clean_up(self, batch: Batch) -> None:
        self._sink.clean_up(batch)


def transformed(sink: EpochSink, transform: "Callable[[DataFrame], DataFrame]") -> EpochSink:
    """A sink that writes a transformation of the rows of each epoch.

    With `fan_out` one query writes different rows to several targets, exactly once to each.

        sink = fan_out(
            transformed(EpochFiles("/lake/late"), lambda rows: rows.where("is_late")),
            transformed(Channel("/lake/orders"), lambda rows: rows.where("not is_late")),
        )

    Args:
        sink: the sink that writes the result.
        transform: a deterministic function of the rows. It must read every partition (`limit` does
            not), unless the rows are kept for several sinks.
    """
    return _Transformed(sink, transform)
