"""Reads what an epoch cost out of its cut; docs/FORMAT.md, "Costs"."""

from typing import Any

from cleancut._fields import typed
from cleancut.costs import Costs, RequestCount, RequestsByKind, StoreTime, StoreTimes, Usage

_NUMBERS = ("bytesSent", "bytesReceived", "frames", "frameBytes", "segments", "segmentBytes")


def costs_of(fields: Any) -> Costs:
    """The costs in a cut.

    Raises:
        ValueError: they are not what a writer makes.
    """
    if not isinstance(fields, dict):
        raise ValueError("costs is not a JSON object")
    executors = typed(fields, "executors", dict)
    return Costs(
        driver=usage_of(typed(fields, "driver", dict)),
        executors=usage_of(executors),
        executor_count=typed(executors, "count", int, 0),
        slowest=store_times_of(typed(fields, "slowest", list)),
    )


def usage_of(fields: dict[str, Any]) -> Usage:
    """What one side used. A number that a release did not count yet is 0."""
    requests = typed(fields, "requests", dict)
    return Usage(
        RequestsByKind({kind: _count(of, kind) for kind, of in sorted(requests.items())}),
        *(typed(fields, name, int, 0) for name in _NUMBERS),
    )


def store_times_of(fields: list[Any]) -> StoreTimes:
    """How long stores took."""
    return StoreTimes(map(_store_time, fields))


def _count(fields: Any, kind: str) -> RequestCount:
    if not isinstance(fields, dict):
        raise ValueError(f"the requests of kind {kind} are no JSON object")
    names = ("requests", "retries", "failures")
    return RequestCount(*(typed(fields, name, int, 0) for name in names))


def _store_time(fields: Any) -> StoreTime:
    if not isinstance(fields, dict):
        raise ValueError("the time of a store is not a JSON object")
    return StoreTime(
        operator=typed(fields, "operator", int),
        partition=typed(fields, "partition", int),
        store=typed(fields, "store", str),
        executor=typed(fields, "executor", str, ""),
        host=typed(fields, "host", str, ""),
        ms=typed(fields, "ms", int, 0),
    )
