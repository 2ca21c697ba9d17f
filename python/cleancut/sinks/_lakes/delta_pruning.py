"""Selects the files of a Delta table that may contain keys of an epoch, by the table's log.

A file is skipped only if the log proves that no row of it has one of these keys. Bounds that are
missing, of another type than their column, or NaN prove nothing.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cleancut.sinks._lakes.files import StagedFile

if TYPE_CHECKING:
    import pyarrow as pa

# Field in the detail of a staged file: the values of its rows in the key partition columns.
PARTITIONS = "keyPartitions"
# Limit on recorded combinations of these values, because seals contain them.
MAX_PARTITIONS = 32


@dataclass(frozen=True)
class TableFile:
    """A file in a version of the table.

    Attributes:
        path: path below the table, as in its log.
        bytes: size of the file.
        values: values of its partition, as in the log.
        lowest: lower bounds of columns, if the log has them.
        greatest: upper bounds of columns, if the log has them.
    """

    path: str
    bytes: int
    values: Mapping[str, str | None]
    lowest: Mapping[str, Any]
    greatest: Mapping[str, Any]


@dataclass(frozen=True)
class EpochKeys:
    """Knowledge about the keys of an epoch, from the files in which it is staged.

    Attributes:
        staged: the files.
        schema: the columns of the table.
        keys: key columns, by which a row replaces another one.
        partitions: partition columns of the table.
    """

    staged: Sequence[StagedFile]
    schema: "pa.Schema"
    keys: tuple[str, ...]
    partitions: tuple[str, ...]

    def candidates(self, files: Sequence[TableFile]) -> list[TableFile]:
        """The files that may contain rows with these keys."""
        return [
            file for file in files if self._may_have_partition(file) and self._may_have_bounds(file)
        ]

    @cached_property
    def _details(self) -> list[dict[str, Any]]:
        return [json.loads(file.detail) for file in self.staged]

    @cached_property
    def _parted(self) -> tuple[str, ...]:
        return key_partitions(self.keys, self.partitions)

    @cached_property
    def _present(self) -> set[tuple[Any, ...]] | None:
        """All combinations of values in the key partition columns; None if unknown."""
        if not self._parted or any(PARTITIONS not in detail for detail in self._details):
            return None
        return {self._typed(values) for detail in self._details for values in detail[PARTITIONS]}

    @cached_property
    def _ranges(self) -> dict[str, tuple[Any, Any]]:
        """The least and the greatest value of each key column, if both are known."""
        stats = [json.loads(stats_of_file["stats"]) for stats_of_file in self._details]
        ranges = {}
        for key in self.keys:
            kind = self.schema.field(key).type
            low = [_bound(stats_of_file["minValues"].get(key), kind) for stats_of_file in stats]
            high = [_bound(stats_of_file["maxValues"].get(key), kind) for stats_of_file in stats]
            if None not in (*low, *high):
                ranges[key] = (min(low), max(high))
        return ranges

    def _typed(self, values: Sequence[str | None]) -> tuple[Any, ...]:
        kinds = [self.schema.field(name).type for name in self._parted]
        return tuple(
            typed_value(text, kind).as_py() for text, kind in zip(values, kinds, strict=True)
        )

    def _may_have_partition(self, file: TableFile) -> bool:
        if not self._parted:
            return True
        there = self._typed([file.values.get(name) for name in self._parted])
        # No key of an epoch is null, and null equals nothing.
        if None in there:
            return False
        if self._present is not None:
            return there in self._present
        return all(
            _overlap(self._ranges.get(name), (value, value))
            for name, value in zip(self._parted, there, strict=True)
        )

    def _may_have_bounds(self, file: TableFile) -> bool:
        for key in self.keys:
            # The log names a column of a struct by its path, which may equal another column's name.
            if key in self._parted or "." in key:
                continue
            kind = self.schema.field(key).type
            low, high = (_bound(bounds.get(key), kind) for bounds in (file.lowest, file.greatest))
            there = None if low is None or high is None else (low, high)
            if not _overlap(self._ranges.get(key), there):
                return False
        return True


def key_partitions(keys: Sequence[str], partitions: Sequence[str]) -> tuple[str, ...]:
    """The key columns that are partition columns, in partition order."""
    return tuple(name for name in partitions if name in keys)


def typed_value(text: str | None, kind: "pa.DataType") -> "pa.Scalar":
    """A partition value, parsed from the text in Delta's log."""
    import pyarrow as pa

    if text is None:
        return pa.scalar(None, kind)
    if pa.types.is_timestamp(kind):
        # The text is in UTC, without a zone or with Z.
        moment = pa.array([text.rstrip("Z")]).cast(pa.timestamp("us"))
        return moment.cast(kind)[0]
    return pa.array([text]).cast(kind)[0]


def _overlap(one: tuple[Any, Any] | None, other: tuple[Any, Any] | None) -> bool:
    if one is None or other is None:
        return True
    return bool(one[0] <= other[1] and other[0] <= one[1])


def _bound(value: Any, kind: "pa.DataType") -> Any:
    """A bound as a comparable value; None if it proves nothing.

    Writers of Delta round bounds of timestamps to milliseconds, some of them inwards. Bounds of the
    epoch are rounded outwards, so both ranges overlap if the files share a timestamp.
    """
    import pyarrow as pa

    if value is None or isinstance(value, bool):
        return None
    if pa.types.is_integer(kind):
        return value if isinstance(value, int) else None
    if pa.types.is_floating(kind):
        return _float_bound(value, kind)
    if pa.types.is_decimal(kind):
        # JSON may have rounded it. Both sides are rounded the same way, so their order is kept.
        return float(value) if isinstance(value, (int, float, Decimal)) else None
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return value if isinstance(value, str) else None
    if pa.types.is_timestamp(kind):
        return _moment_bound(value, kind)
    if pa.types.is_date(kind):
        return _date_bound(value)
    return None


def _float_bound(value: Any, kind: "pa.DataType") -> float | None:
    import pyarrow as pa

    if not isinstance(value, (int, float)):
        return None
        # The text of a 32-bit float denotes another number as a 64-bit float.
    number = pa.scalar(float(value), pa.float64()).cast(kind).as_py()
    return None if math.isnan(number) else float(number)


def _moment_bound(value: Any, kind: "pa.DataType") -> datetime | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return None
    is_comparable = isinstance(moment, datetime) and (moment.tzinfo is None) == (kind.tz is None)
    return moment if is_comparable else None


def _date_bound(value: Any) -> date | None:
    try:
        day = date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return None
    return day if isinstance(day, date) and not isinstance(day, datetime) else None
