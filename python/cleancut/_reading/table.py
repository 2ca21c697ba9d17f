"""The rows of a state as an Arrow table."""

from itertools import islice

import pyarrow as pa

from cleancut._format.identity import UNSAFE_ROW, Family
from cleancut._reading.cut_reader import LoadedState
from cleancut._unsafe_rows.column_cells import MisfitError
from cleancut._unsafe_rows.schema import struct_of
from cleancut.errors import error_of

# Bounds the memory of decoding, and keeps a column of one batch below Arrow's limit of 2 GiB.
_BATCH_ROWS = 16_384


def table_of(loaded: LoadedState, family: Family) -> pa.Table:
    """Decodes one column family of a state.

    Returns:
        A table with the struct columns `key` and `value` and the int32 column `partition`; a key
        with a list of values has a row for each of them.

    Raises:
        RequestError: CLEANCUT_COLUMN_UNREADABLE.
        DamagedError: CLEANCUT_ROW_DAMAGED, where rows do not fit the family's schemas.
    """
    if family.encoding != UNSAFE_ROW:
        raise error_of(
            "CLEANCUT_COLUMN_UNREADABLE",
            column=f"key and value of the family {family.name}",
            type=f"the state encoding {family.encoding}",
            reason="this release reads rows in Spark's UnsafeRow form only",
        )
    key, value = struct_of(family.key_schema, "key"), struct_of(family.value_schema, "value")
    schema = pa.schema(
        [
            pa.field("key", key.arrow),
            pa.field("value", value.arrow),
            pa.field("partition", pa.int32()),
        ]
    )
    store, place, state = loaded
    keys = state.rows[family.family_id].items()
    rows = ((row_key, row_value) for row_key, values in keys for row_value in values)
    batches = []
    try:
        while chunk := list(islice(rows, _BATCH_ROWS)):
            columns = [
                key.decode_rows([row_key for row_key, _ in chunk]),
                value.decode_rows([row_value for _, row_value in chunk]),
                pa.repeat(pa.scalar(store.partition, pa.int32()), len(chunk)),
            ]
            batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
    except MisfitError as error:
        raise error_of(
            "CLEANCUT_ROW_DAMAGED",
            directory=place,
            version=state.version,
            detail=error,
            operator=store.operator,
            partition=store.partition,
            store=store.store,
        ) from error
    return pa.Table.from_batches(batches, schema)
