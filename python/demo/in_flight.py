"""Rows in flight of a query, read from its last cut; also of one that was killed."""

from cleancut import Checkpoint
from cleancut.errors import RequestError
from demo.job import Job

_CHANNEL = "cleancut-channel-"


def has_rows_in_flight(job: Job, query: str) -> bool:
    """Whether the last cut of a query has rows in flight; not before the first one."""
    try:
        return _checkpoint(job, query).cut().info.mode == "unaligned"
    except RequestError:
        return False


def rows_in_flight(job: Job, query: str) -> int:
    """How many rows the last cut of a query has in flight; 0 before the first one."""
    try:
        checkpoint = _checkpoint(job, query)
        cut = checkpoint.cut()
    except RequestError:
        return 0
    channels = {(of.operator, of.store) for of in cut.stores if of.store.startswith(_CHANNEL)}
    return sum(
        checkpoint.state(operator, store=store, epoch=cut.info.epoch).num_rows
        for operator, store in channels
    )


def _checkpoint(job: Job, query: str) -> Checkpoint:
    return Checkpoint(job.checkpoint(query).uri.removeprefix("file://"), endpoint=job.endpoint)
