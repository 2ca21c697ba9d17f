"""Loops: a query that reads its own output through a channel."""

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
    """Creates a loop: a part of the output of `body` is its input again, until there is none.

    The rows of the loop are in the channel, and the position in it is in the query's cuts. So each
    cut includes them as for any other channel, and they are restored with it. Feedback rows are
    published with the epoch that produced them, and are input of the next epoch. Watermarks are not
    fed back.

        loop = cleancut.dataflow.iterate(
            edges,
            lambda rows: rows.groupBy("v").applyInPandasWithState(rank, OUT, STATE, "append", NONE),
            channel=Channel("/ranks/loop", schema="v BIGINT, x DOUBLE"),
            feedback=lambda out: out.where("kind = 'delta'").select("v", "x"),
            sink=transformed(EpochFiles("/ranks/out"), lambda out: out.where("kind = 'rank'")),
        )
        loop.option("checkpointLocation", "/ranks/checkpoint").start()

    With the trigger `availableNow` the query ends when `head` has ended and the channel has no
    unread rows. It does not end if the body always produces more of them.

    Args:
        head: a stream of external input, with the columns of the channel's schema.
        body: function of the rows of both inputs; it may keep state.
        channel: the channel of this loop only, with a schema.
        feedback: function of the output of `body`: the rows to feed back, with the columns of the
            schema.
        sink: sink for the output of `body`, or for a part of it (`transformed`); None for none.
        max_bytes: maximum size of feedback in one epoch, in bytes or as text such as "64m"; None is
            unlimited. While more than that waits, a channel that is read with `yields_to` is
            paused.

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
