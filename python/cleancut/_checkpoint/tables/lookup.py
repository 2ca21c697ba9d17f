"""Looks up one key of a state without reading the rest of the state."""

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
from cleancut._unsafe_rows.encoder import Cell, cells_of, encoded
from cleancut._unsafe_rows.schema import struct_of
from cleancut._unsafe_rows.spread import partition_of

# Operators that partition rows by their whole key.
_BY_WHOLE_KEY = {
    "stateStoreSave",
    "dedupe",
    "dedupeWithinWatermark",
    "flatMapGroupsWithState",
    "applyInPandasWithState",
}

# The last column of a key is the start of the session.
_SESSIONS = "sessionWindowStateStoreSaveExec"

# Operators whose functions get keys unchanged. Spark normalizes the numbers of all other keys.
_BY_GIVEN_KEY = {"flatMapGroupsWithState", "applyInPandasWithState"}

# State of a group has the group's key; a map has a second key.
_BY_GROUP = {
    "transformWithStateExec",
    "transformWithStateInPandasExec",
    "transformWithStateInPySparkExec",
}

# Rows of a key are counted under the key, and stored under the key and their number.
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
    """The rows of one key: one, several for a list, or none.

    Args:
        history: the listed checkpoint.
        checkpoint: Spark's own files, which describe the operator.
        stored: the version.
        operator: Spark's operator id.
        family: the column family.
        key: the values of its columns.

    Raises:
        RequestError: CLEANCUT_STATE_NOT_FOUND, CLEANCUT_COLUMN_UNREADABLE, CLEANCUT_FORMAT_UNKNOWN.
        CorruptedError: an object that is read is corrupted, misplaced or missing.
        TypeError: the key does not fit its columns.
    """
    state = stored.keyed(stored.partitions[0])
    key_family = family_of(history, state, family)
    if key_family.encoding != UNSAFE_ROW:
        raise unreadable(key_family)
    spark_operator = Operator.at(
        checkpoint, operator, state.store.store, family, stored.version - 1
    )
    columns = struct_of(key_family.key_schema, "key")
    cells = cells_of(columns, key, "key", normalized=spark_operator.normalizes_keys)
    decoder, row = BatchDecoder(key_family, Selection()), encoded(cells)

    def values(partition: int) -> pa.RecordBatch:
        keyed_state = state if partition == state.store.partition else stored.keyed(partition)
        family_there = family_of(history, keyed_state, family)
        return decoder.batch(
            keyed_state, [(row, value) for value in keyed_state.values(family_there, row)]
        )

    # A hash always uses the normalized number.
    hashed = cells_of(columns, key, "key")
    partitions = spark_operator.partitions(key_family, hashed, stored.partitions)
    batches = [batch for batch in mapped(values, partitions) if batch.num_rows]
    return pa.Table.from_batches(batches, described(decoder.schema, state.store, stored))


@dataclass(frozen=True)
class Operator:
    """Spark's name of an operator, and the original number of its state partitions.

    Attributes:
        name: name of the operator; None if unknown.
        count: number of partitions when the query started; None if unknown.
        part: the part of its state: a store, or a family of its only store.
        is_map: whether a key consists of the group's key and the key of a map entry.
    """

    name: str | None = None
    count: int | None = None
    part: str = ""
    is_map: bool = False

    @staticmethod
    def at(checkpoint: Objects, operator: int, store: str, family: str, epoch: int) -> "Operator":
        """The operator in Spark's own file; unknown if the file cannot be read."""
        try:
            note = OperatorMetadata.parse(_note_of(checkpoint, f"state/{operator}", epoch))
        except (FileNotFoundError, ValueError):
            return Operator()
        counts = {entry.partitions for entry in note.stores if entry.name == store}
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
        """The partitions that may have a key: one, if the partitioning columns are known.

        Args:
            family: the family of the key.
            cells: the columns of the key.
            there: the partitions of the state. If their number differs from the recorded one, the
                state was rescaled, and all are read.
        """
        collated = "collate" in json.dumps(family.key_schema)
        divided = self._divided(cells, is_own=not family.is_internal)
        if divided is None or collated or list(there) != list(range(self.count or 0)):
            return there
        return [partition_of(divided, len(there)) if divided else 0]

    def _divided(self, cells: Sequence[Cell], *, is_own: bool) -> Sequence[Cell] | None:
        """The columns of a key that Spark partitions rows by."""
        if self.name in _BY_WHOLE_KEY or (self.name == _JOIN and self.part.endswith(_COUNTED)):
            return cells
        if self.name == _SESSIONS or (self.name == _JOIN and self.part.endswith(_NUMBERED)):
            return cells[:-1]
        if self.name in _BY_GROUP and is_own:
            return cells[0].fields if self.is_map else cells
        return None


def _note_of(checkpoint: Objects, home: str, epoch: int) -> bytes:
    """Spark's file that describes an operator for an epoch."""
    try:
        return checkpoint.read(f"{home}/_metadata/metadata")
    except FileNotFoundError:
        names = checkpoint.list(f"{home}/_metadata/v2")
        numbers = (number.rpartition("/")[2] for number in names)
        last = max(
            (int(number) for number in numbers if number.isdecimal() and int(number) <= epoch),
            default=None,
        )
        return checkpoint.read(f"{home}/_metadata/v2/{last}")
