"""Compares the output of a stream with the batch answer: lost, duplicated, out of order."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cleancut._brief import Brief

_EXAMPLES = 3


@dataclass(frozen=True, repr=False)
class RowComparison(Brief):
    """The comparison of two multisets of rows.

    Attributes:
        expected: number of rows of the batch answer.
        found: number of rows of the stream.
        lost: number of rows of the answer that the stream lacks.
        duplicated: number of rows of the answer that the stream has in excess.
        unexpected: number of rows of the stream that are not in the answer.
        out_of_order: number of rows that came after a later one of their key, or next to an equal
            one; 0 without an order.
        examples: the first rows of each kind, as text.
    """

    expected: int
    found: int
    lost: int
    duplicated: int
    unexpected: int
    out_of_order: int
    examples: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether the stream has exactly the rows of the answer, in order."""
        return not (self.lost or self.duplicated or self.unexpected or self.out_of_order)

    def __str__(self) -> str:
        counts = (
            f"{self.found} rows of {self.expected}: {self.lost} lost, "
            f"{self.duplicated} duplicated, {self.unexpected} unexpected, "
            f"{self.out_of_order} out of order"
        )
        return "\n  ".join([counts, *self.examples])


def assert_same_rows(
    stream_output: Any, batch_answer: Any, *, key: Sequence[str] = (), order: str | None = None
) -> RowComparison:
    """Fails if a stream did not output exactly the rows of the batch answer.

    Args:
        stream_output: rows in the output order of the stream, such as `EpochRows.rows`: a batch
            DataFrame, an Arrow table, or rows of Spark or mappings.
        batch_answer: rows in any of these forms and any order. It must not be empty, because a
            comparison with nothing shows nothing.
        key: columns that identify rows of one key.
        order: column that must ascend strictly among the rows of a key.

    Returns:
        The comparison.

    Raises:
        AssertionError: rows are lost, duplicated, unexpected or out of order; the text counts them
            and shows some of each. Or the answer is empty.
        ValueError: the two have different columns, or `key` and `order` are not both given.
    """
    comparison = compare_rows(stream_output, batch_answer, key=key, order=order)
    if comparison.expected == 0:
        raise AssertionError("The batch answer has no rows, so nothing is compared.")
    if not comparison.is_same:
        raise AssertionError(str(comparison))
    return comparison


def compare_rows(
    stream_output: Any, batch_answer: Any, *, key: Sequence[str] = (), order: str | None = None
) -> RowComparison:
    """Compares rows as `assert_same_rows` does, with the same arguments.

    Raises:
        ValueError: as for `assert_same_rows`.
    """
    if bool(key) != (order is not None):
        raise ValueError("order requires key: give both, or neither.")
    stream, expected = _rows(stream_output), _rows(batch_answer)
    if stream and expected and stream[0].keys() != expected[0].keys():
        raise ValueError(f"The columns differ: {list(stream[0])} and {list(expected[0])}.")
    got, wanted = (Counter(map(_frozen, rows)) for rows in (stream, expected))
    lost, more = wanted - got, got - wanted
    duplicated = Counter({row: count for row, count in more.items() if row in wanted})
    unexpected = more - duplicated
    disordered = [] if order is None else _disordered(stream, key, order)
    kinds: dict[str, Iterable[object]] = {
        "lost": map(dict, lost),
        "duplicated": map(dict, duplicated),
        "unexpected": map(dict, unexpected),
        "out of order": disordered,
    }
    return RowComparison(
        expected=len(expected),
        found=len(stream),
        lost=lost.total(),
        duplicated=duplicated.total(),
        unexpected=unexpected.total(),
        out_of_order=len(disordered),
        examples=tuple(
            f"{kind}: {row}" for kind, rows in kinds.items() for row in list(rows)[:_EXAMPLES]
        ),
    )


def last_rows(stream_output: Any, *, key: Sequence[str]) -> list[dict[str, Any]]:
    """The last row of each key: the result of a stream in update mode.

    Args:
        stream_output: as for `assert_same_rows`.
        key: columns that identify rows of one key.
    """
    return list({_key_of(row, key): row for row in _rows(stream_output)}.values())


def _disordered(rows: list[dict[str, Any]], key: Sequence[str], order: str) -> list[dict[str, Any]]:
    latest: dict[object, Any] = {}
    disordered = []
    for row in rows:
        row_key, at = _key_of(row, key), row[order]
        if row_key in latest and at <= latest[row_key]:
            disordered.append(row)
        else:
            latest[row_key] = at
    return disordered


def _key_of(row: Mapping[str, Any], key: Sequence[str]) -> object:
    return tuple(_frozen(row[column]) for column in key)


def _rows(given: Any) -> list[dict[str, Any]]:
    if hasattr(given, "to_pylist"):
        return list(given.to_pylist())
    rows = given.collect() if hasattr(given, "collect") else given
    return [row.asDict(recursive=True) if hasattr(row, "asDict") else dict(row) for row in rows]


def _frozen(value: Any) -> Any:
    """A hashable form: equal for equal values, and NaN equals itself."""
    if isinstance(value, Mapping):
        return tuple(sorted((name, _frozen(item)) for name, item in value.items()))
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    if isinstance(value, bytearray):
        return bytes(value)
    return "NaN" if isinstance(value, float) and math.isnan(value) else value
