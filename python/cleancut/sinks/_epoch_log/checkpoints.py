"""The checkpoints of a query, in a directory of records.

The record of the owner has the first one. Each further one is a file next to the records of
operations, which a run creates once before it publishes anything: runs of earlier checkpoints
compare its number before they publish.
"""

import re
from collections.abc import Iterable

from cleancut._format.fields import typed
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.expected import Expected
from cleancut.sinks._core.ledger import (
    NO_EPOCH,
    RecordedEpoch,
    compare_checkpoints,
    find_used_after_move,
    joined,
)
from cleancut.sinks._core.ledger_errors import continued, error_for, unrelated
from cleancut.sinks._core.lineage import Position
from cleancut.sinks._epoch_log.manifest import decoded, encoded, owner_of
from cleancut.sinks._epoch_log.names import EPOCHS, OPERATIONS, manifest_epochs
from cleancut.sinks._epoch_log.records import Records

_MOVE = re.compile(r"checkpoint-([0-9]{20})\.json")
NO_MOVE = 0


def begin_checkpoint(records: Records, batch: Batch, expected: Expected) -> int:
    """Records the checkpoint of a run that begins, if it continues another one.

    Returns:
        The number of the last recorded checkpoint, with which `is_followed` compares.

    Raises:
        FencedError: CLEANCUT_FENCED, a run of a later checkpoint has begun.
        RequestError: CLEANCUT_SINK_CHECKPOINT_UNKNOWN; CLEANCUT_SINK_UNDO_REFUSED, the earlier
            checkpoint was used after it was continued.
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    while True:
        latest = _latest(records.names(OPERATIONS))
        recorded = _checkpoints(records, latest)
        match compare_checkpoints(recorded, batch, expected):
            case Position.SAME:
                return latest
            case Position.EARLIER:
                raise continued(batch, recorded[-1], records.location)
            case Position.UNRELATED:
                raise unrelated(batch, recorded[-1], records.location)
        published = RecordedEpoch.numbered(manifest_epochs(records.names(EPOCHS)), undone=())
        last = published[-1].epoch.epoch if published else NO_EPOCH
        refused = find_used_after_move(recorded[-1], last, published, batch)
        if refused is not None:
            raise error_for(refused, batch, records.location)
        body = encoded({"checkpoints": list(joined(recorded, batch))})
        if records.create(_name(latest + 1), body):
            return latest + 1


def check_followed(records: Records, batch: Batch, move: int) -> None:
    """Refuses a run if one of a later checkpoint has begun.

    Args:
        records: the records of the target.
        batch: the batch to publish.
        move: the result of `begin_checkpoint`.

    Raises:
        FencedError: CLEANCUT_FENCED.
    """
    latest = _latest(records.names(OPERATIONS))
    if latest > move:
        raise continued(batch, _checkpoints(records, latest)[-1], records.location)


def _latest(names: Iterable[str]) -> int:
    return max((int(match[1]) for match in map(_MOVE.fullmatch, names) if match), default=NO_MOVE)


def _name(number: int) -> str:
    return f"{OPERATIONS}/checkpoint-{number:020d}.json"


def _checkpoints(records: Records, number: int) -> tuple[str, ...]:
    if number == NO_MOVE:
        owner = owner_of(records)
        return ("" if owner is None else owner.checkpoint,)
    name = _name(number)
    body = records.read(name) or b""
    return tuple(decoded(body, records.at(name), lambda fields: typed(fields, "checkpoints", list)))
