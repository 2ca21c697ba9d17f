"""Statistics of a file for Delta's log, from the Parquet footer of the file."""

import json
from collections.abc import Collection, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

# The limit of other writers of Delta; a longer text does not improve pruning.
_TEXT_LETTERS = 32
_GREATEST_LETTER = "\U0010ffff"
# Number of digits that every JSON reader keeps.
_EXACT_DIGITS = 15
_MILLISECOND = 1000

_Path = tuple[str, ...]


def statistics(
    footer: "pq.FileMetaData", schema: "pa.Schema", indexed: int, unordered: Collection[str]
) -> str:
    """The statistics of a file, as JSON.

    Uncertain bounds are left out: a reader then assumes that the file may have any value.

    Args:
        footer: Parquet footer of the file.
        schema: schema of its columns.
        indexed: number of first columns with statistics; -1 is all.
        unordered: columns with values outside any bounds (NaN).
    """
    lowest: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for at, path in enumerate(_leaves(schema)):
        if path is None or (0 <= indexed <= at):
            continue
        groups = [
            footer.row_group(group).column(at).statistics for group in range(footer.num_row_groups)
        ]
        if not groups or any(group is None or not group.has_null_count for group in groups):
            continue
        _put(nulls, path, sum(group.null_count for group in groups))
        bounds = [group for group in groups if group.has_min_max]
        # A group that has only nulls has no bounds; other groups without bounds make them unknown.
        spoilt = any(not group.has_min_max and group.num_values for group in groups)
        if spoilt or not bounds or path[0] in unordered:
            continue
        low = _low(min(group.min for group in bounds))
        high = _high(max(group.max for group in bounds))
        if low is not None and high is not None:
            _put(lowest, path, low)
            _put(greatest, path, high)
    stats = {"minValues": lowest, "maxValues": greatest, "nullCount": nulls}
    return json.dumps({"numRecords": footer.num_rows, **stats})


def _leaves(schema: "pa.Schema") -> Iterator[_Path | None]:
    """The path of each column of a Parquet file; None within lists and maps."""
    import pyarrow as pa

    def leaves(kind: "pa.DataType", path: _Path | None) -> Iterator[_Path | None]:
        if pa.types.is_struct(kind):
            for field in kind:
                yield from leaves(field.type, None if path is None else (*path, field.name))
        elif pa.types.is_map(kind):
            yield from leaves(kind.key_type, None)
            yield from leaves(kind.item_type, None)
        elif pa.types.is_list(kind):
            yield from leaves(kind.value_type, None)
        else:
            yield path

    for field in schema:
        yield from leaves(field.type, (field.name,))


def _put(tree: dict[str, Any], path: _Path, value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _low(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_TEXT_LETTERS]
    if isinstance(value, datetime):
        return _moment(value.replace(microsecond=value.microsecond // _MILLISECOND * _MILLISECOND))
    return _plain(value)


def _high(value: Any) -> Any:
    if isinstance(value, str):
        if len(value) <= _TEXT_LETTERS:
            return value
        # A text that continues with the greatest letter may be greater than its prefix.
        is_greatest = value[_TEXT_LETTERS] == _GREATEST_LETTER
        return None if is_greatest else value[:_TEXT_LETTERS] + _GREATEST_LETTER
    if isinstance(value, datetime):
        # Delta's readers use milliseconds.
        rest = -value.microsecond % _MILLISECOND
        try:
            return _moment(value + timedelta(microseconds=rest))
        except OverflowError:
            return None
    return _plain(value)


def _moment(value: datetime) -> str:
    text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
    return f"{text}Z" if value.tzinfo == UTC or value.tzinfo is not None else text


def _plain(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float, date, Decimal)):
        return None
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value) if len(value.as_tuple().digits) <= _EXACT_DIGITS else None
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value
