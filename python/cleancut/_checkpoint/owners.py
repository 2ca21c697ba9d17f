"""The runs that own a query or have owned it, by their records in the checkpoint."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from cleancut._brief import Brief
from cleancut._checkpoint.read.root import Root
from cleancut._display.tables import rank
from cleancut._format.ages import moment
from cleancut._format.layout import OWNERS, ended_name, is_waiting, last_generation, owner_name

OwnerState = Literal["running", "waiting", "ended", "superseded", "fence", "unreadable"]


@dataclass(frozen=True, repr=False)
class OwnerInfo(Brief):
    """A run that owns the query, waits for it, or has owned it.

    A standby writes nothing before it takes over, so it has no record until then.

    Attributes:
        generation: number of runs that have owned the query up to this one.
        state: "running", the run owns the query, unless its driver was killed; "waiting", it takes
            over when the generation before has ended; "ended", it has recorded its end;
            "superseded", a later run has taken the query; "fence", `Checkpoint.fence` or an
            operation has taken the query; "unreadable", the record is no JSON object.
        started: time of the record by the clock of the driver, in UTC; None if unknown.
        host: host name of the driver; the reason of a fence.
        address: host and port at which the driver accepts connections; None if unknown.
        run_id: Spark's id of the run; None if unknown.
    """

    generation: int
    state: OwnerState
    started: datetime | None
    host: str | None
    address: str | None = field(metadata=rank(1))
    run_id: str | None = field(metadata=rank(2))


def owner_infos(root: Root, last: int) -> list[OwnerInfo]:
    """The last owners, ascending by generation: one listing, and a request for each."""
    names = root.objects.list(OWNERS)
    newest = last_generation(names)
    infos: list[OwnerInfo] = []
    is_owned = False
    for generation in range(newest, max(newest - last, 0), -1):
        record = _record(root, generation)
        state = _state(generation, record, names, is_owned=is_owned)
        # The run before one that waits still owns the query.
        is_owned = is_owned or state != "waiting"
        infos.append(_info(generation, state, record))
    return infos[::-1]


def _record(root: Root, generation: int) -> Mapping[str, Any] | None:
    """The record of an owner; None without a readable one."""
    try:
        record = json.loads(root.objects.read(owner_name(generation)))
    except (FileNotFoundError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def _state(
    generation: int, record: Mapping[str, Any] | None, names: Collection[str], *, is_owned: bool
) -> OwnerState:
    """The state of a run; `is_owned`, whether a later run owns the query or has owned it."""
    if record is None:
        return "unreadable"
    if record.get("fence") is True:
        return "fence"
    if ended_name(generation) in names:
        return "ended"
    if is_owned:
        return "superseded"
    return "waiting" if is_waiting(record, generation, names) else "running"


def _info(generation: int, state: OwnerState, record: Mapping[str, Any] | None) -> OwnerInfo:
    fields = record or {}
    started = fields.get("startedMs")
    return OwnerInfo(
        generation,
        state,
        moment(started) if isinstance(started, int) else None,
        fields.get("host"),
        fields.get("address"),
        fields.get("runId"),
    )
