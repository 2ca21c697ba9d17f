"""In-flight rows, which a cut stores like state, under names of their own."""

import pyarrow as pa

from cleancut._checkpoint.read.history import History, StoredVersion
from cleancut._checkpoint.tables.batches import batch_reader
from cleancut._checkpoint.tables.selection import Selection

NO_IN_FLIGHT_ROWS = pa.schema(
    [("row", pa.struct([])), ("number", pa.int64()), ("partition", pa.int32())]
)


def in_flight_rows(history: History, stored: StoredVersion) -> pa.Table:
    """The in-flight rows of a shuffle input, partition by partition, in order.

    Raises:
        RequestError: CLEANCUT_COLUMN_UNREADABLE or CLEANCUT_FORMAT_UNKNOWN.
        CorruptedError: a frame is corrupted, misplaced or missing.
    """
    selected = Selection(columns=("value", "key.number", "partition"))
    table = batch_reader(history, stored, stored.partitions, "default", selected).read_all()
    named = table.rename_columns(["row", "number", "partition"])
    return named.sort_by([("partition", "ascending"), ("number", "ascending")])
