"""Rows in flight, which a cut holds under the names of channels."""

import pyarrow as pa

from cleancut._checkpoint.read.history import History, StoredVersion
from cleancut._checkpoint.tables.batches import batch_reader
from cleancut._checkpoint.tables.selection import Selection

NO_IN_FLIGHT_ROWS = pa.schema(
    [("row", pa.struct([])), ("number", pa.int64()), ("partition", pa.int32())]
)


def in_flight_rows(history: History, stored: StoredVersion) -> pa.Table:
    """The rows of a channel, partition by partition, in their order.

    Raises:
        RequestError: CLEANCUT_COLUMN_UNREADABLE or CLEANCUT_FORMAT_UNKNOWN.
        CorruptedError: a frame is damaged, misplaced or missing.
    """
    selected = Selection(columns=("value", "key.number", "partition"))
    table = batch_reader(history, stored, stored.partitions, "default", selected).read_all()
    named = table.rename_columns(["row", "number", "partition"])
    return named.sort_by([("partition", "ascending"), ("number", "ascending")])
