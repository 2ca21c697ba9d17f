"""Reads what became of channels out of a cut; docs/FORMAT.md, "Channels"."""

from typing import Any

from cleancut._fields import typed
from cleancut.channels import ChannelInfo


def channels_of(fields: Any) -> tuple[ChannelInfo, ...]:
    """The channels in a cut.

    Raises:
        ValueError: they are not what a writer makes.
    """
    if not isinstance(fields, list):
        raise ValueError("channels is not a JSON array")
    return tuple(map(_channel, fields))


def _channel(fields: Any) -> ChannelInfo:
    if not isinstance(fields, dict):
        raise ValueError("a channel is not a JSON object")
    is_measured = "arrivedMs" in fields

    def number(name: str, default: int | None = None) -> int | None:
        found: int | None = typed(fields, name, int, default) if is_measured else None
        return found

    return ChannelInfo(
        operator=typed(fields, "operator", int),
        partition=typed(fields, "partition", int),
        channel=typed(fields, "store", str),
        rows=typed(fields, "rows", int),
        rows_in_flight=typed(fields, "rowsInFlight", int),
        bytes_in_flight=number("bytesInFlight", 0),
        rows_replayed=number("rowsReplayed", 0),
        rows_beyond_bound=number("rowsBeyondBound", 0),
        arrived_ms=number("arrivedMs"),
        overtaken_ms=number("overtakenMs"),
        capture_ms=number("captureMs"),
    )
