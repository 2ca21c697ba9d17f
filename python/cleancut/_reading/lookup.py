"""One key of a state, found without reading what else there is."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cleancut._format.identity import UNSAFE_ROW, Family
from cleancut._reading.batches import BatchDecoder, described, family_of, unreadable
from cleancut._reading.history import History, StoredVersion
from cleancut._reading.selection import Selection
from cleancut._storage.objects import Objects
from cleancut._storage.parallel import mapped
from cleancut._unsafe_rows.encoded import Cell, cells_of, encoded
from cleancut._unsafe_rows.schema import struct_of
from cleancut._unsafe_rows.spread import partition_of

# Operators whose keys are what Spark divides their rows by, as a whole.
_BY_WHOLE_KEY = {"stateStoreSave", "dedupe", "dedupeWithinWatermark", "flatMapGroupsWithState"}


def rows_of_key(
    history: History,
    checkpoint: Objects,
    stored: StoredVersion,
    operator: int,
    family: str,
    key: object,
) -> pa.Table:
    """The rows of one key: one, several of a list, or none.

    Args:
        history: the look at the checkpoint.
        checkpoint: Spark's own files, which say what the operator is.
        stored: the version.
        operator: Spark's operator id.
        family: the column family.
        key: the values of its columns.

    Raises:
        RequestError: CLEANCUT_STATE_NOT_FOUND, CLEANCUT_COLUMN_UNREADABLE, CLEANCUT_FORMAT_UNKNOWN.
        DamagedError: what is read is damaged, misplaced or missing.
        TypeError: the key does not fit its columns.
    """
    state = stored.keyed(stored.partitions[0])
    found = family_of(history, state, family)
    if found.encoding != UNSAFE_ROW:
        raise unreadable(found)
    cells = cells_of(struct_of(found.key_schema, "key"), key, "key")
    decoder, row = BatchDecoder(found, Selection()), encoded(cells)

    def values(partition: int) -> pa.RecordBatch:
        own = state if partition == state.store.partition else stored.keyed(partition)
        family_there = family_of(history, own, family)
        return decoder.batch(own, [(row, value) for value in own.values(family_there, row)])

    of = Operator.at(checkpoint, operator, state.store.store)
    partitions = of.partitions(found, cells, stored.partitions)
    batches = [batch for batch in mapped(values, partitions) if batch.num_rows]
    return pa.Table.from_batches(batches, described(decoder.schema, state.store, stored))


@dataclass(frozen=True)
class Operator:
    """What Spark calls an operator, and over how many partitions its state is spread."""

    name: str | None
    count: int | None

    @staticmethod
    def at(checkpoint: Objects, operator: int, store: str) -> "Operator":
        """As Spark's own file says; of one that cannot be read nothing is known."""
        try:
            metadata = checkpoint.read(f"state/{operator}/_metadata/metadata")
            body: dict[str, Any] = json.loads(metadata.partition(b"\n")[2])
            stores = body["stateStoreInfo"]
            counts = {of["numPartitions"] for of in stores if of["storeName"] == store}
            count = counts.pop() if len(counts) == 1 else None
            return Operator(body["operatorInfo"]["operatorName"], count)
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return Operator(None, None)

    def partitions(
        self, family: Family, cells: Sequence[Cell], there: Sequence[int]
    ) -> Sequence[int]:
        """Where a key can be: in one, if it is known by what the rows are divided."""
        collated = "collate" in json.dumps(family.key_schema)
        if self.name not in _BY_WHOLE_KEY or self.count is None or collated:
            return there
        partition = partition_of(cells, self.count) if cells else 0
        return [partition] if partition in there else there
