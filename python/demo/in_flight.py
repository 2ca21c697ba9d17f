"""The in-flight rows of a query, from its last cut, also after a kill."""

from cleancut import Checkpoint
from cleancut.errors import RequestError

_CHANNEL = "cleancut-channel-"


def has_rows_in_flight(checkpoint: str, endpoint: str | None = None) -> bool:
    """Whether the last cut of a query has in-flight rows; False before the first one.

    Args:
        checkpoint: its location.
        endpoint: URL of the store, if that is not AWS.
    """
    try:
        return Checkpoint(checkpoint, endpoint=endpoint).cut().info.mode == "unaligned"
    except RequestError:
        return False


def in_flight_rows(checkpoint: str, endpoint: str | None = None) -> int:
    """Returns the number of in-flight rows of the last cut; 0 before the first one.

    Args:
        checkpoint: its location.
        endpoint: URL of the store, if that is not AWS.
    """
    if not has_rows_in_flight(checkpoint, endpoint):
        return 0
    opened = Checkpoint(checkpoint, endpoint=endpoint)
    cut = opened.cut()
    channels = {
        (store.operator, store.store) for store in cut.stores if store.store.startswith(_CHANNEL)
    }
    return sum(
        opened.state(operator, store=store, at=cut.info.epoch).num_rows
        for operator, store in channels
    )
