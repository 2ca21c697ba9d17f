"""One key of a state, found without reading what else there is."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from cleancut._checkpoint.read.history import History, StoredVersion
from cleancut._checkpoint.tables.batches import BatchDecoder, described, family_of, unreadable
from cleancut._checkpoint.tables.selection import Selection
from cleancut._format.frame.identity import UNSAFE_ROW, Family
from cleancut._format.spark.operator_metadata import OperatorMetadata
from cleancut._storage.objects import Objects
from cleancut._storage.parallel import mapped
from cleancut._unsafe_rows.encoded import Cell, cells_of, encoded
from cleancut._unsafe_rows.schema import struct_of
from cleancut._unsafe_rows.spread import partition_of

# Operators whose keys are what Spark divides their rows by, as a whole.
_BY_WHOLE_KEY = {
    "stateStoreSave",
    "dedupe",
    "dedupeWithinWatermark",
    "flatMapGroupsWithState",
    "applyInPandasWithState",
}

# The last column of a key is when the session began.
_SESSIONS = "sessionWindowStateStoreSaveExec"

# Operators whose functions get keys as they are; Spark normalizes the numbers of all others.
_BY_GIVEN_KEY = {"flatMapGroupsWithState", "applyInPandasWithState"}

# What is kept for a group has its key; a map has another one besides.
_BY_GROUP = {
    "transformWithStateExec",
    "transformWithStateInPandasExec",
    "transformWithStateInPySparkExec",
}

# Rows of a key are counted by it, and kept by it and their number.
_JOIN = "symmetricHashJoin"
_COUNTED = "keyToNumValues"
_NUMBERED = "keyWithIndexToValue"


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
        CorruptedError: what is read is damaged, misplaced or missing.
        TypeError: the key does not fit its columns.
    """
    state = stored.keyed(stored.partitions[0])
    found = family_of(history, state, family)
    if found.encoding != UNSAFE_ROW:
        raise unreadable(found)
    of = Operator.at(checkpoint, operator, state.store.store, family, stored.version - 1)
    columns = struct_of(found.key_schema, "key")
    cells = cells_of(columns, key, "key", normalized=of.normalizes_keys)
    decoder, row = BatchDecoder(found, Selection()), encoded(cells)

    def values(partition: int) -> pa.RecordBatch:
        own = state if partition == state.store.partition else stored.keyed(partition)
        family_there = family_of(history, own, family)
        return decoder.batch(own, [(row, value) for value in own.values(family_there, row)])

    # A hash is of the normalized number in any case.
    hashed = cells_of(columns, key, "key")
    partitions = of.partitions(found, hashed, stored.partitions)
    batches = [batch for batch in mapped(values, partitions) if batch.num_rows]
    return pa.Table.from_batches(batches, described(decoder.schema, state.store, stored))


@dataclass(frozen=True)
class Operator:
    """What Spark calls an operator, and over how many partitions its state was spread at first.

    Attributes:
        name: None where it is not known.
        count: likewise.
        part: what of its state is meant: a store, or a family of its only one.
        is_map: whether a key has that of an entry of a map besides that of its group.
    """

    name: str | None = None
    count: int | None = None
    part: str = ""
    is_map: bool = False

    @staticmethod
    def at(checkpoint: Objects, operator: int, store: str, family: str, epoch: int) -> "Operator":
        """As Spark's own file says; of one that cannot be read nothing is known."""
        try:
            note = OperatorMetadata.parse(_note_of(checkpoint, f"state/{operator}", epoch))
        except (FileNotFoundError, ValueError):
            return Operator()
        counts = {of.partitions for of in note.stores if of.name == store}
        count = counts.pop() if len(counts) == 1 else None
        part = store if family == "default" else family
        return Operator(note.name, count, part, family in note.map_variables)

    @property
    def normalizes_keys(self) -> bool:
        """Whether Spark normalizes floating-point numbers of its keys."""
        return self.name not in _BY_GIVEN_KEY | _BY_GROUP

    def partitions(
        self, family: Family, cells: Sequence[Cell], there: Sequence[int]
    ) -> Sequence[int]:
        """Where a key can be: in one, if it is known by what the rows are divided.

        Args:
            family: whose the key is.
            cells: its columns.
            there: the partitions of the state. Where they are others than were noted, the state
                has been spread anew since, and all are looked into.
        """
        collated = "collate" in json.dumps(family.key_schema)
        divided = self._divided(cells, is_own=not family.is_internal)
        if divided is None or collated or list(there) != list(range(self.count or 0)):
            return there
        return [partition_of(divided, len(there)) if divided else 0]

    def _divided(self, cells: Sequence[Cell], *, is_own: bool) -> Sequence[Cell] | None:
        """Of a key the columns that Spark divides rows by."""
        if self.name in _BY_WHOLE_KEY or (self.name == _JOIN and self.part.endswith(_COUNTED)):
            return cells
        if self.name == _SESSIONS or (self.name == _JOIN and self.part.endswith(_NUMBERED)):
            return cells[:-1]
        if self.name in _BY_GROUP and is_own:
            return cells[0].fields if self.is_map else cells
        return None


def _note_of(checkpoint: Objects, home: str, epoch: int) -> bytes:
    """The file with which Spark described an operator for an epoch."""
    try:
        return checkpoint.read(f"{home}/_metadata/metadata")
    except FileNotFoundError:
        names = checkpoint.list(f"{home}/_metadata/v2")
        numbers = (of.rpartition("/")[2] for of in names)
        last = max((int(of) for of in numbers if of.isdecimal() and int(of) <= epoch), default=None)
        return checkpoint.read(f"{home}/_metadata/v2/{last}")
