"""The operations on a query's checkpoint, as a directory of records keeps them.

Each is a file that is created once and never changed. Which epochs count follows from these files
alone, so that a record that an older run creates too late never counts.
"""

from collections.abc import Iterable

from cleancut._format.fields import typed
from cleancut.sinks._core.ledger import NO_EPOCH, History
from cleancut.sinks._core.query_side import Act, Acted
from cleancut.sinks._files.directory import Records
from cleancut.sinks._files.manifest import decoded, encoded
from cleancut.sinks._files.names import ACTS, act_name, manifest_epochs


def read_history(records: Records, epochs: Iterable[int]) -> History:
    """Which epochs count, by the recorded operations.

    Args:
        records: of the target.
        epochs: that are published. They have to be listed before this call: a run records the
            operations before it publishes.

    Raises:
        DamagedError: CLEANCUT_SINK_DAMAGED.
    """

    def operation(epoch: int) -> Act:
        name = act_name(epoch)
        body = records.read(name) or b""
        return Act(epoch, decoded(body, records.at(name), lambda of: typed(of, "source", int)))

    operations = tuple(map(operation, manifest_epochs(records.names(ACTS))))
    return _history(operations, epochs)


def record_operations(records: Records, side: Acted, history: History) -> History:
    """Records the operations since the last recorded epoch or operation.

    Returns:
        Which epochs count after them.
    """
    operations = tuple(side.acts(history.until))
    for operation in operations:
        records.create(act_name(operation.epoch), encoded({"source": operation.source}))
    return _history((*history.operations, *operations), [history.until])


def _history(operations: tuple[Act, ...], epochs: Iterable[int]) -> History:
    numbers = [*epochs, *(operation.epoch for operation in operations)]
    return History(operations, max(numbers, default=NO_EPOCH))
