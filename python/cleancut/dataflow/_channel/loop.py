"""Loops: rows that a query has made come round to it again."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from cleancut.dataflow._channel.channel import Channel
from cleancut.errors import error_of
from cleancut.sinks._core.epoch_sink import EpochSink, fan_out
from cleancut.sinks._core.transformed import transformed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def iterate(
    head: "DataFrame",
    body: "Callable[[DataFrame], DataFrame]",
    *,
    channel: Channel,
    feedback: "Callable[[DataFrame], DataFrame]",
    sink: EpochSink | None = None,
    max_bytes: int | str | None = None,
) -> "DataStreamWriter":
    """Makes a loop: some of what `body` gives comes round to it, until there is no more.

    The rows that are on their way round lie in the channel, and how far they have come stands in
    the query's cuts. So they are in each cut, by the same rule as with any other channel, and the
    loop is restored with them. What is to come round is published with the epoch that made it, and
    is in the input of the next one. Watermarks do not come round.

        loop = cleancut.dataflow.iterate(
            edges,
            lambda rows: rows.groupBy("v").applyInPandasWithState(rank, OUT, STATE, "append", NONE),
            channel=Channel("/ranks/loop", schema="v BIGINT, x DOUBLE"),
            feedback=lambda out: out.where("kind = 'delta'").select("v", "x"),
            sink=transformed(EpochFiles("/ranks/out"), lambda out: out.where("kind = 'rank'")),
        )
        loop.option("checkpointLocation", "/ranks/checkpoint").start()

    With the trigger `availableNow` the query ends by itself: when `head` has ended, and nothing is
    left of what comes round. It does not end if the body makes ever more of it.

    Args:
        head: a stream of what comes from outside, with the columns of the channel's schema.
        body: what is done with the rows of both; it may keep state.
        channel: of the loop alone, with a schema.
        feedback: of what `body` gives, the rows that come round, with the columns of the schema.
        sink: takes all that `body` gives, or a part of it (`transformed`); None leaves it.
        max_bytes: how much of what comes round is taken in one epoch at most, in bytes or as a text
            such as "64m"; None is all. While more than that waits, a channel that is read with
            `yields_to` gives nothing.

    Returns:
        A writer, for `option`, `outputMode`, `trigger` and `start`.

    Raises:
        RequestError: CLEANCUT_CHANNEL_EMPTY, the channel has no schema.
    """
    if channel.schema is None:
        raise error_of("CLEANCUT_CHANNEL_EMPTY", channel=channel.path)
    round_ = channel.stream(head.sparkSession, feedback=True, max_bytes=max_bytes)
    out = body(head.unionByName(round_))
    sinks = [transformed(channel, feedback), *([] if sink is None else [sink])]
    return out.writeStream.foreachBatch(fan_out(*sinks))
