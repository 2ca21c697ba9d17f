"""An epoch while it is written: from its earlier records until it is published."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cleancut.errors import error_of
from cleancut.sinks._core.query_side import QuerySide, query_side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cleancut.sinks._core.batch import Batch
    from cleancut.sinks._core.epoch_sink import EpochSink


# The first line of a seal's text; the handle of each sink follows, as JSON.
_OUTPUT = "cleancut.sinks"


class OpenEpoch:
    """An epoch within the block that writes it: the result of `epoch` of a sink.

        def write(df, epoch):
            with sink.epoch(df, epoch) as e:
                if e.fresh:
                    e.write(e.rows.where("amount > 0"))

    Attributes:
        epoch: Spark's batch id.
        fresh: whether the epoch must be written. Otherwise this run or an earlier one has written
            it, and it is complete: the block has nothing to do.
    """

    def __init__(
        self,
        sinks: Sequence["EpochSink"],
        side: QuerySide,
        df: "DataFrame",
        published: Mapping[str, str | None],
        *,
        fresh: bool,
    ) -> None:
        self.epoch = side.batch.epoch
        self.fresh = fresh
        self._sinks = sinks
        self._side = side
        self._df = df
        self._published = published
        self._kept: DataFrame | None = None
        self._handles: dict[str, str] | None = None
        self._failure: BaseException | None = None
        self._is_over = False

    def __repr__(self) -> str:
        return f"OpenEpoch(epoch={self.epoch}, fresh={self.fresh})"

    @property
    def rows(self) -> "DataFrame":
        """The rows of the epoch; empty if it is not fresh.

        The first access runs the tasks of the query, and the rows are cached until the end of the
        block. Read them as often as required, and derive the rows that you write from them, not
        from the batch of Spark. An error here ends the block, as with `write`.
        """
        if not self.fresh:
            return self._df.limit(0)
        if self._kept is None:
            with self._noting_failures():
                self._kept = self._side.compute()
        return self._kept

    def write(self, rows: "DataFrame | None" = None) -> None:
        """Stages rows, which become visible after the block; call it once in a block.

        Does nothing if the epoch is not fresh. An error ends the block, even if the code in the
        block catches it.

        Args:
            rows: rows derived from `rows`, or other rows that are the same each time. None is all
                rows of the epoch, which are not cached if the sink reads them once.
                once.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, the block has written before or has ended, or the
                target refuses the rows.
        """
        if not self.fresh:
            return
        if self._is_over or self._handles is not None or self._failure is not None:
            when = "after its block was left" if self._is_over else "a second time"
            raise error_of(
                "CLEANCUT_SINK_REFUSED",
                sink=", ".join(sink.name for sink in self._sinks),
                reason=f"epoch {self.epoch} is written {when}; combine the rows of an epoch, and"
                " write them once, within its block",
            )
        with self._noting_failures():
            self._stage(rows)

    @contextmanager
    def _noting_failures(self) -> Iterator[None]:
        """Records a failure, so that the block cannot publish the epoch without these rows."""
        try:
            yield
        except BaseException as failure:
            self._failure = failure
            raise

    def _stage(self, rows: "DataFrame | None") -> None:
        waiting = [sink for sink in self._sinks if self._published[sink.name] is None]
        if rows is self._df:
            rows = None
        is_once = len(self._sinks) == 1 and waiting[0].reads_rows_once
        if rows is None and is_once and self._kept is None:
            rows = self._side.hold()
        else:
            # Even if other rows are written: the tasks must run exactly once.
            kept = self.rows
            rows = kept if rows is None else rows
        handles = _known(self._published)
        for sink in waiting:
            handles[sink.name] = sink.stage(rows, self._side.batch)
        self._handles = handles

    def _finish(self) -> None:
        """Seals and publishes the rows that the block has written, or an empty epoch."""
        if self._failure is not None:
            raise self._failure
        if self._handles is None:
            self.write(self.rows.limit(0))
        assert self._handles is not None, "the block has written"
        # Before publication; a sealed handle suffices for a later run, without the rows.
        self._side.close(encode_handles(self._handles))
        _publish(self._sinks, self._handles, self._published, self._side)

    def _leave(self) -> None:
        self._is_over = True
        if self._kept is not None:
            self._kept.unpersist()


@contextmanager
def open_epoch(sinks: Sequence["EpochSink"], df: "DataFrame", epoch: int) -> Iterator[OpenEpoch]:
    """Writes an epoch once to each of several sinks; its tasks run once.

    The steps are those of `EpochSink`: `begin` and `published` before the block, `stage` in it, and
    the seal, `publish` and `clean_up` after it. If none of the remaining steps needs rows, they are
    done before the block.
    """
    side = query_side(df, epoch)
    entered: list[EpochSink] = []
    try:
        for sink in sinks:
            sink._enter(side.batch)
            entered.append(sink)
        with _open_epoch(sinks, side, df) as opened:
            yield opened
    finally:
        for sink in entered:
            sink._leave()


@contextmanager
def _open_epoch(
    sinks: Sequence["EpochSink"], side: QuerySide, df: "DataFrame"
) -> Iterator[OpenEpoch]:
    # First, because it starts the run in the coordinator, which assigns the generation.
    sealed = decode_handles(side.sealed_output())
    batch = side.batch
    check_sealed([sink.name for sink in sinks], sealed, batch)
    for sink in sinks:
        sink._begin_once(side, df.sparkSession)
    published = {sink.name: sink.published(batch) for sink in sinks}
    if _is_finished(sinks, side, published, sealed):
        _clean_up(sinks, side)
        yield OpenEpoch(sinks, side, df, published, fresh=False)
        return
    opened = OpenEpoch(sinks, side, df, published, fresh=True)
    try:
        yield opened
        opened._finish()
    finally:
        opened._leave()
    _clean_up(sinks, side)


def _is_finished(
    sinks: Sequence["EpochSink"],
    side: QuerySide,
    published: Mapping[str, str | None],
    sealed: Mapping[str, str],
) -> bool:
    """Completes an epoch that an earlier run has staged or published; else returns False."""
    usable = bool(sealed) and all(
        sink.name in sealed
        and sink.can_publish(sealed[sink.name], side.batch, published[sink.name])
        for sink in sinks
    )
    if usable and side.finish():
        _publish(sinks, sealed, published, side)
        return True
    handles = _known(published)
    if len(handles) < len(sinks):
        return False
    # The tasks must run nevertheless, or the epoch's state would be missing.
    rows = side.compute()
    try:
        side.close(encode_handles(handles))
        _record(sinks, handles, published, side)
    finally:
        rows.unpersist()
    return True


def _publish(
    sinks: Sequence["EpochSink"],
    handles: Mapping[str, str],
    published: Mapping[str, str | None],
    side: QuerySide,
) -> None:
    """Publishes the epoch in the sinks that have not published it."""
    for sink in sinks:
        if published[sink.name] is None:
            sink.publish(handles[sink.name], side.batch)
    _record(sinks, handles, published, side)


def _record(
    sinks: Sequence["EpochSink"],
    handles: Mapping[str, str],
    published: Mapping[str, str | None],
    side: QuerySide,
) -> None:
    """Records in the checkpoint which sinks have published the epoch."""
    keys = {
        sink.ledger_key
        for sink in sinks
        if published[sink.name] is not None or sink.leaves_record(handles[sink.name])
    }
    if keys:
        side.published(sorted(keys))


def _clean_up(sinks: Sequence["EpochSink"], side: QuerySide) -> None:
    for sink in sinks:
        sink.clean_up(side.batch)


def _known(published: Mapping[str, str | None]) -> dict[str, str]:
    return {name: handle for name, handle in published.items() if handle is not None}


def encode_handles(handles: Mapping[str, str]) -> str:
    """The text of a seal: the handle of each sink, by its name."""
    return f"{_OUTPUT}\n{json.dumps(handles)}"


def decode_handles(output: str | None) -> dict[str, str]:
    """The handles in the text of a seal; empty if it names no sinks."""
    kind, _, body = (output or "").partition("\n")
    if kind != _OUTPUT:
        return {}
    handles = json.loads(body)
    return {str(name): str(handle) for name, handle in handles.items()}


def check_sealed(sinks: Collection[str], sealed: Mapping[str, str], batch: "Batch") -> None:
    """Refuses an epoch that an earlier run has sealed for a sink that this run does not have.

    That sink may have published it, and its rows would be in two targets.

    Args:
        sinks: the names of this run's sinks.
        sealed: the result of `decode_handles`.
        batch: the epoch.

    Raises:
        RequestError: CLEANCUT_SINK_REPLACED.
    """
    former = sorted(sealed.keys() - set(sinks))
    if former:
        raise error_of(
            "CLEANCUT_SINK_REPLACED",
            epoch=batch.epoch,
            location=batch.checkpoint,
            former=", ".join(former),
            before=batch.epoch - 1,
        )
