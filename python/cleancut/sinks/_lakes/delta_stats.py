"""What Delta's log says of the values in a file, from the footer of that file."""

import json
from collections.abc import Collection, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

# As other writers of Delta have it: longer texts tell readers no more.
_TEXT_LETTERS = 32
_GREATEST_LETTER = "\U0010ffff"
# So many digits a JSON number keeps, whoever reads it.
_EXACT_DIGITS = 15
_MILLISECOND = 1000

_Path = tuple[str, ...]


def statistics(
    footer: "pq.FileMetaData", schema: "pa.Schema", indexed: int, unordered: Collection[str]
) -> str:
    """The statistics of a file, as JSON.

    Bounds are left out where they cannot be told for certain: a reader then takes the file for one
    that may have any value.

    Args:
        footer: of the file.
        schema: of its columns.
        indexed: of how many of its first columns they are told; -1 is all.
        unordered: names of columns with values that no bound covers (NaN).
    """
    lowest: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for at, path in enumerate(_leaves(schema)):
        if path is None or (0 <= indexed <= at):
            continue
        found = [footer.row_group(of).column(at).statistics for of in range(footer.num_row_groups)]
        if not found or any(of is None or not of.has_null_count for of in found):
            continue
        _put(nulls, path, sum(of.null_count for of in found))
        bounds = [of for of in found if of.has_min_max]
        # A group of nulls alone has no bounds; one that only lacks them spoils those of the others.
        spoilt = any(not of.has_min_max and of.num_values for of in found)
        if spoilt or not bounds or path[0] in unordered:
            continue
        low = _low(min(of.min for of in bounds))
        high = _high(max(of.max for of in bounds))
        if low is not None and high is not None:
            _put(lowest, path, low)
            _put(greatest, path, high)
    told = {"minValues": lowest, "maxValues": greatest, "nullCount": nulls}
    return json.dumps({"numRecords": footer.num_rows, **told})


def _leaves(schema: "pa.Schema") -> Iterator[_Path | None]:
    """The path of each column of a Parquet file; None within lists and maps."""
    import pyarrow as pa

    def of(kind: "pa.DataType", path: _Path | None) -> Iterator[_Path | None]:
        if pa.types.is_struct(kind):
            for field in kind:
                yield from of(field.type, None if path is None else (*path, field.name))
        elif pa.types.is_map(kind):
            yield from of(kind.key_type, None)
            yield from of(kind.item_type, None)
        elif pa.types.is_list(kind):
            yield from of(kind.value_type, None)
        else:
            yield path

    for field in schema:
        yield from of(field.type, (field.name,))


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
        # A text that goes on with the greatest letter may be greater than what is cut.
        is_greatest = value[_TEXT_LETTERS] == _GREATEST_LETTER
        return None if is_greatest else value[:_TEXT_LETTERS] + _GREATEST_LETTER
    if isinstance(value, datetime):
        # Delta's readers count with milliseconds.
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
