"""The operations on a query's checkpoint, in a directory of records.

Each record is created once and never changed. The records alone define which epochs count. A run
records the operations before it lists published epochs, and reads them again after it has
published: so one of the two runs hides an epoch that a run published from before a rollback.
"""

from collections.abc import Iterable

from cleancut._format.fields import typed
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.expected import EpochRanges, Expected
from cleancut.sinks._core.ledger import (
    NO_EPOCH,
    EpochsLost,
    History,
    lost_after,
    lost_between,
)
from cleancut.sinks._core.query_side import Operation, OperationSource
from cleancut.sinks._epoch_log.manifest import decoded, encoded
from cleancut.sinks._epoch_log.names import (
    EPOCHS,
    HIDDEN,
    OPERATIONS,
    UNDONE,
    hidden_attempts,
    manifest_epochs,
    manifest_name,
    operation_name,
)
from cleancut.sinks._epoch_log.records import Records


def read_history(records: Records, epochs: Iterable[int]) -> History:
    """The epochs that count, by the recorded operations.

    Args:
        records: the records of the target.
        epochs: the published epochs. List them before this call, because a run records the
            operations before it publishes.

    Raises:
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    return _history(read_operations(records, manifest_epochs(records.names(OPERATIONS))), epochs)


def counts_now(records: Records, epoch: int) -> bool:
    """Whether an epoch that a run has just published counts.

    Only later operations change that, and there are none unless the query was rolled back.
    """
    later = [number for number in manifest_epochs(records.names(OPERATIONS)) if number > epoch]
    return _history(read_operations(records, later), [epoch]).counts(epoch)


def last_recorded(records: Records) -> int:
    """The last epoch that was ever published, hidden and undone ones included."""
    return max(recorded_epochs(records), default=NO_EPOCH)


def recorded_epochs(records: Records) -> set[int]:
    """All epochs that were ever published and are recorded, hidden and undone ones included."""
    hidden = {attempt.epoch for attempt in hidden_attempts(records.names(HIDDEN))}
    return hidden.union(
        *(manifest_epochs(records.names(directory)) for directory in (EPOCHS, UNDONE))
    )


def find_lost_since(
    records: Records, batch: Batch, expected: Expected, last: int
) -> EpochsLost | None:
    """The epochs that the target has lost since a run published or found one; one request.

    Args:
        records: the records of the target.
        batch: the batch to publish.
        expected: the epochs that the target must have.
        last: the last epoch that the run has published or found.
    """
    if records.read(manifest_name(last)) is not None or not counts_now(records, last):
        return None
    lost = lost_after(last_recorded(records), batch, expected)
    return EpochsLost(EpochRanges.of([last])) if lost is None else lost


def find_lost_before(
    records: Records, side: OperationSource, history: History, expected: Expected, *, first: int = 0
) -> EpochsLost | None:
    """The epochs that count after later operations and that the target has lost, if there are any.

    Args:
        records: the records of the target.
        side: the query.
        history: the recorded history.
        expected: the epochs that the target must have.
        first: all epochs from this one on are recorded.
    """
    is_unchanged = history.until == NO_EPOCH or not side.operations(history.until)
    if is_unchanged or not expected.published:
        return None
    recorded = recorded_epochs(records)
    return lost_between(first, max(recorded, default=NO_EPOCH), recorded, expected)


def read_operations(records: Records, numbers: Iterable[int]) -> tuple[Operation, ...]:
    """Recorded operations, by their epoch numbers.

    Raises:
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """

    def operation(number: int) -> Operation:
        name = operation_name(number)
        body = records.read(name) or b""
        return Operation(
            number, decoded(body, records.at(name), lambda fields: typed(fields, "source", int))
        )

    return tuple(map(operation, numbers))


def record_operations(records: Records, side: OperationSource, history: History) -> History:
    """Records the operations since the last recorded epoch or operation.

    Args:
        records: the records of the target.
        side: the query.
        history: the recorded history; without any epoch, nothing is recorded.

    Returns:
        The history after these operations.
    """
    operations = tuple(side.operations(history.until)) if history.until != NO_EPOCH else ()
    for operation in operations:
        _record(records, operation)
    return _history((*history.operations, *operations), [history.until])


def record_start(records: Records, epoch: int) -> None:
    """Records the first epoch of a query that has not published before.

    As an operation that continues from no epoch: earlier epochs, which a run from before a rollback
    can still publish, do not count.
    """
    if epoch > 0:
        _record(records, Operation(epoch - 1, NO_EPOCH))


def _record(records: Records, operation: Operation) -> None:
    records.create(operation_name(operation.epoch), encoded({"source": operation.source}))


def _history(operations: tuple[Operation, ...], epochs: Iterable[int]) -> History:
    numbers = [*epochs, *(operation.epoch for operation in operations)]
    return History(operations, max(numbers, default=NO_EPOCH))
