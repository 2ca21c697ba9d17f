"""An epoch while it is written: between what was done of it before, and what makes it visible."""

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


# The first line of what a seal says of an epoch; then comes the handle of each sink, as JSON.
_OUTPUT = "cleancut.sinks"


class OpenEpoch:
    """An epoch within the block that writes it: what `epoch` of a sink gives.

        def write(df, epoch):
            with sink.epoch(df, epoch) as e:
                if e.fresh:
                    e.write(e.rows.where("amount > 0"))

    Attributes:
        epoch: Spark's batch id.
        fresh: whether it is to be written. Else it was written, by this run or an earlier one, and
            is finished by now: the block has nothing to do.
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
        """The rows of the epoch; none of one that is not fresh.

        The tasks of the query run when this is asked for first, and the rows are kept to the end of
        the block. So read them as often as you like, and make what you write of them, rather than
        of the batch as Spark handed it over. What this raises ends the block, as with `write`.
        """
        if not self.fresh:
            return self._df.limit(0)
        if self._kept is None:
            with self._noting_failures():
                self._kept = self._side.compute()
        return self._kept

    def write(self, rows: "DataFrame | None" = None) -> None:
        """Stages rows, which nobody sees before the block is left; once in a block.

        Does nothing where the epoch is not fresh. What it raises ends the block, also where the
        code in it goes on.

        Args:
            rows: what is made of `rows`, or other rows that are the same each time. None is all
                rows of the epoch as they are, which need not be kept where the sink reads them
                once.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, the block has written before, or is left; what the
                target refuses.
        """
        if not self.fresh:
            return
        if self._is_over or self._handles is not None or self._failure is not None:
            when = "after its block was left" if self._is_over else "a second time"
            raise error_of(
                "CLEANCUT_SINK_REFUSED",
                sink=", ".join(sink.name for sink in self._sinks),
                reason=f"epoch {self.epoch} is written {when}; unite the rows of an epoch, and"
                " write them once, within its block",
            )
        with self._noting_failures():
            self._stage(rows)

    @contextmanager
    def _noting_failures(self) -> Iterator[None]:
        """Has the block end by what fails, or its epoch would be published without these rows."""
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
            # Also where it is not these that are written: the tasks have to run, and once.
            kept = self.rows
            rows = kept if rows is None else rows
        handles = _known(self._published)
        for sink in waiting:
            handles[sink.name] = sink.stage(rows, self._side.batch)
        self._handles = handles

    def _finish(self) -> None:
        """Seals and publishes what the block has written, or that it has written nothing."""
        if self._failure is not None:
            raise self._failure
        if self._handles is None:
            self.write(self.rows.limit(0))
        assert self._handles is not None, "it is written"
        # Before any of it is seen; it only has what a later run can do without the rows.
        self._side.close(encode_handles(self._handles))
        _publish(self._sinks, self._handles, self._published, self._side)

    def _leave(self) -> None:
        self._is_over = True
        if self._kept is not None:
            self._kept.unpersist()


@contextmanager
def open_epoch(sinks: Sequence["EpochSink"], df: "DataFrame", epoch: int) -> Iterator[OpenEpoch]:
    """Has each of several sinks take an epoch once, whose tasks run once.

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
    # First: with it the run begins for the coordinator, which then knows its generation.
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
    """Finishes an epoch whose rows were staged by an earlier run, or published; else False."""
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
    # Its tasks have to run all the same, or its state would be missing.
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
    """Has those sinks publish that have not."""
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
    """Has the checkpoint record which sinks have published the epoch."""
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
    """The text of a seal, of the handle of each sink by its name."""
    return f"{_OUTPUT}\n{json.dumps(handles)}"


def decode_handles(output: str | None) -> dict[str, str]:
    """What `encode_handles` was given; nothing of a seal that names no sinks."""
    kind, _, body = (output or "").partition("\n")
    if kind != _OUTPUT:
        return {}
    found = json.loads(body)
    return {str(name): str(handle) for name, handle in found.items()}


def check_sealed(sinks: Collection[str], sealed: Mapping[str, str], batch: "Batch") -> None:
    """Refuses an epoch that an earlier run has sealed for a sink that this run does not have.

    That sink may have published it, and its rows would be in two targets.

    Args:
        sinks: the names of those that this run has.
        sealed: as `decode_handles` gives it.
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
