"""The rows of a state as Arrow batches."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import pyarrow as pa

from cleancut._checkpoint.read.history import History, StoredVersion
from cleancut._checkpoint.read.live_rows import LiveState, Row
from cleancut._checkpoint.tables.selection import Projection, Selection
from cleancut._format.frame.identity import UNSAFE_ROW, Family
from cleancut._format.layout import StoreId
from cleancut._unsafe_rows.column_cells import MisfitError
from cleancut._unsafe_rows.schema import struct_of
from cleancut.errors import CleancutError, error_of

# Limits the memory of decoding, and keeps a column of one batch below Arrow's limit of 2 GiB.
BATCH_ROWS = 16_384


def batch_reader(
    history: History,
    stored: StoredVersion,
    partitions: Iterable[int],
    family: str,
    selected: Selection,
) -> pa.RecordBatchReader:
    """Reads some partitions of a version, one after the other.

    Raises:
        RequestError: CLEANCUT_STATE_NOT_FOUND or CLEANCUT_COLUMN_UNREADABLE.
        CorruptedError: the first frames are corrupted.
        pyarrow.ArrowInvalid: the expression does not fit the columns.
    """
    states = stored.live(partitions)
    first = next(states)
    columns_of = family_of(history, first, family)
    try:
        decoder = BatchDecoder(columns_of, selected)
    except KeyError as error:
        wanted, names = error.args
        raise history.not_found(f"column {wanted}", f"columns {', '.join(names)}") from error

    def batches() -> Iterator[pa.RecordBatch]:
        left = selected.limit
        for state in chain([first], states):
            for batch in decoder.batches(state, family_of(history, state, family), left):
                yield batch
                left = left if left is None else left - batch.num_rows
            if left == 0:
                return

    store = first.store
    return pa.RecordBatchReader.from_batches(described(decoder.schema, store, stored), batches())


def described(schema: pa.Schema, store: StoreId, stored: StoredVersion) -> pa.Schema:
    """A schema with metadata that name operator, store and version."""
    metadata = {"cleancut.operator": str(store.operator), "cleancut.store": store.store}
    return schema.with_metadata(metadata | {"cleancut.version": str(stored.version)})


def family_of(history: History, state: LiveState, family: str) -> Family:
    """A family by its name.

    Raises:
        RequestError: CLEANCUT_STATE_NOT_FOUND.
    """
    for candidate in state.families:
        if candidate.name == family:
            return candidate
    names = ", ".join(sorted(candidate.name for candidate in state.families))
    raise history.not_found(f"column family {family} in {state.store}", f"families {names}")


class BatchDecoder:
    """Makes batches of rows in UnsafeRow form."""

    def __init__(self, family: Family, selection: Selection) -> None:
        """Prepares the decoding of a family.

        Raises:
            RequestError: CLEANCUT_COLUMN_UNREADABLE.
            KeyError: a column does not exist.
            pyarrow.ArrowInvalid: the expression does not fit the columns.
        """
        if family.encoding != UNSAFE_ROW:
            raise unreadable(family)
        self._selection = selection
        self._key = struct_of(family.key_schema, "key")
        self._value = struct_of(family.value_schema, "value")
        fields = [("key", self._key.arrow), ("value", self._value.arrow), ("partition", pa.int32())]
        whole = pa.schema(fields)
        if selection.where is not None:
            whole.empty_table().filter(selection.where)
        self._projection = Projection(whole, selection.columns)
        # The columns that an expression uses are not known.
        self._parts = set(whole.names) if selection.where is not None else self._projection.parts

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self._projection.schema

    def batches(
        self, state: LiveState, family: Family, limit: int | None
    ) -> Iterator[pa.RecordBatch]:
        """The matching rows of one store, up to a limit.

        Raises:
            CorruptedError: CLEANCUT_ROW_CORRUPTED if rows do not fit the family's schemas, or the
                error of a corrupted frame.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        where, rows = self._selection.where, state.rows(family)
        size = BATCH_ROWS if where is not None or limit is None else min(limit, BATCH_ROWS)
        while limit != 0 and (chunk := list(islice(rows, size))):
            batch = self._decoded(state, chunk)
            if where is not None:
                batch = batch.filter(where)
            if limit is not None:
                batch = batch.slice(0, limit)
                limit -= batch.num_rows
            if batch.num_rows:
                yield self._projection.of(batch)

    def batch(self, state: LiveState, rows: Sequence[Row]) -> pa.RecordBatch:
        """Some rows of one store; raises CorruptedError as `batches` does."""
        return self._projection.of(self._decoded(state, rows))

    def _decoded(self, state: LiveState, rows: Sequence[Row]) -> pa.RecordBatch:
        partition = pa.scalar(state.store.partition, pa.int32())
        columns = {"partition": pa.repeat(partition, len(rows))}
        try:
            if "key" in self._parts:
                columns["key"] = self._key.decode_rows([key for key, _ in rows])
            if "value" in self._parts:
                columns["value"] = self._value.decode_rows([value for _, value in rows])
        except MisfitError as error:
            raise row_damaged(state.store, state.place, state.version, error) from error
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def unreadable(family: Family) -> CleancutError:
    """The error for rows in an encoding that this release does not read."""
    return error_of(
        "CLEANCUT_COLUMN_UNREADABLE",
        column=f"key and value of the family {family.name}",
        type=f"the state encoding {family.encoding}",
        reason="this release reads rows in Spark's UnsafeRow form only",
    )


def row_damaged(store: StoreId, place: str, version: int, detail: MisfitError) -> CleancutError:
    """The error for a row that does not fit its schema."""
    return error_of(
        "CLEANCUT_ROW_CORRUPTED",
        directory=place,
        version=version,
        detail=detail,
        operator=store.operator,
        partition=store.partition,
        store=store.store,
    )
