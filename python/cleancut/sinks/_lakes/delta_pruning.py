"""Files of a Delta table that may have rows with the keys of an epoch, by what the log has of them.

A file is left out only if the log proves that no row of it has one of these keys. Bounds that are
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

# In the detail of a staged file: the values of its rows in the key columns that are partitions.
PARTITIONS = "keyPartitions"
# More combinations of these values than this are not recorded, because seals contain them.
MAX_PARTITIONS = 32


@dataclass(frozen=True)
class TableFile:
    """A file that a version of the table names.

    Attributes:
        path: below the table, as its log has it.
        bytes: its size.
        values: of its partition, as the log has them.
        lowest: bounds of columns, where the log has them.
        greatest: the same.
    """

    path: str
    bytes: int
    values: Mapping[str, str | None]
    lowest: Mapping[str, Any]
    greatest: Mapping[str, Any]


@dataclass(frozen=True)
class EpochKeys:
    """What is known of the keys of an epoch from the files in which it is staged.

    Attributes:
        staged: the files.
        schema: the columns of the table.
        keys: columns by which a row takes the place of another one.
        partitions: columns by whose values the table is partitioned.
    """

    staged: Sequence[StagedFile]
    schema: "pa.Schema"
    keys: tuple[str, ...]
    partitions: tuple[str, ...]

    def candidates(self, files: Sequence[TableFile]) -> list[TableFile]:
        """The files in which there may be rows with these keys."""
        return [of for of in files if self._may_have_partition(of) and self._may_have_bounds(of)]

    @cached_property
    def _details(self) -> list[dict[str, Any]]:
        return [json.loads(of.detail) for of in self.staged]

    @cached_property
    def _parted(self) -> tuple[str, ...]:
        return key_partitions(self.keys, self.partitions)

    @cached_property
    def _present(self) -> set[tuple[Any, ...]] | None:
        """All combinations of values in the key columns that are partitions; None if unknown."""
        if not self._parted or any(PARTITIONS not in of for of in self._details):
            return None
        return {self._typed(values) for of in self._details for values in of[PARTITIONS]}

    @cached_property
    def _ranges(self) -> dict[str, tuple[Any, Any]]:
        """The least and the greatest value of each key, where both are known."""
        stats = [json.loads(of["stats"]) for of in self._details]
        found = {}
        for key in self.keys:
            kind = self.schema.field(key).type
            low = [_bound(of["minValues"].get(key), kind) for of in stats]
            high = [_bound(of["maxValues"].get(key), kind) for of in stats]
            if None not in (*low, *high):
                found[key] = (min(low), max(high))
        return found

    def _typed(self, values: Sequence[str | None]) -> tuple[Any, ...]:
        kinds = [self.schema.field(name).type for name in self._parted]
        return tuple(
            typed_value(text, kind).as_py() for text, kind in zip(values, kinds, strict=True)
        )

    def _may_have_partition(self, file: TableFile) -> bool:
        if not self._parted:
            return True
        there = self._typed([file.values.get(name) for name in self._parted])
        # No key of an epoch is null, and null is equal to nothing.
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
            # The log names a column of a struct by its path, which may be that of another column.
            if key in self._parted or "." in key:
                continue
            kind = self.schema.field(key).type
            low, high = (_bound(of.get(key), kind) for of in (file.lowest, file.greatest))
            there = None if low is None or high is None else (low, high)
            if not _overlap(self._ranges.get(key), there):
                return False
        return True


def key_partitions(keys: Sequence[str], partitions: Sequence[str]) -> tuple[str, ...]:
    """The key columns that are partitions, in the order of the partitions."""
    return tuple(name for name in partitions if name in keys)


def typed_value(text: str | None, kind: "pa.DataType") -> "pa.Scalar":
    """A value of a partition, from the text that Delta's log has."""
    import pyarrow as pa

    if text is None:
        return pa.scalar(None, kind)
    if pa.types.is_timestamp(kind):
        # The text is in UTC and does not say so, or says Z.
        moment = pa.array([text.rstrip("Z")]).cast(pa.timestamp("us"))
        return moment.cast(kind)[0]
    return pa.array([text]).cast(kind)[0]


def _overlap(one: tuple[Any, Any] | None, other: tuple[Any, Any] | None) -> bool:
    if one is None or other is None:
        return True
    return bool(one[0] <= other[1] and other[0] <= one[1])


def _bound(value: Any, kind: "pa.DataType") -> Any:
    """A bound as a value that is compared; None if it proves nothing.

    Writers of Delta round bounds of timestamps to milliseconds, some of them inwards. Those of the
    epoch are rounded outwards, so both have a moment in common if the files have one.
    """
    import pyarrow as pa

    if value is None or isinstance(value, bool):
        return None
    if pa.types.is_integer(kind):
        return value if isinstance(value, int) else None
    if pa.types.is_floating(kind):
        return _float_bound(value, kind)
    if pa.types.is_decimal(kind):
        # JSON may have rounded it. Both sides are rounded alike, and so keep their order.
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
    # The text of a float of 32 bits stands for another number among those of 64 bits.
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
