"""Compares the results of a query with the right answer, row by row."""

from dataclasses import dataclass

import pandas as pd

from demo.job import HOURLY, ROTATIONS

KEYS = {HOURLY: ["hour_ms", "origin", "carrier"], ROTATIONS: ["seq"]}
_EXAMPLES = 3


@dataclass(frozen=True)
class Verdict:
    """The differences between the results of one query and the right answer, in rows.

    Attributes:
        expected: rows of the right answer.
        actual: rows of the results.
        lost: expected keys without a row.
        duplicated: rows after the first one of an expected key.
        wrong: expected keys that have rows, but none with the right values.
        unexpected: rows with a key that was not expected.
        out_of_order: rows in an epoch after a row that had to follow them.
        examples: the first few wrong rows, for people.
    """

    expected: int
    actual: int
    lost: int
    duplicated: int
    wrong: int
    unexpected: int
    out_of_order: int
    examples: str

    @property
    def differences(self) -> int:
        """The number of differences; 0 if the results are right."""
        return self.lost + self.duplicated + self.wrong + self.unexpected + self.out_of_order


def compare(query: str, expected: pd.DataFrame, actual: pd.DataFrame) -> Verdict:
    """Compares as multisets, and checks the order of the epochs.

    Args:
        query: HOURLY or ROTATIONS.
        expected: the right answer; each key once.
        actual: the results, with the additional column `epoch`.

    Raises:
        ValueError: the right answer has a key twice, or the columns differ.
    """
    key = KEYS[query]
    columns = list(expected.columns)
    if set(actual.columns) != {*columns, "epoch"}:
        raise ValueError(f"The results have the columns {list(actual.columns)}, not {columns}.")
    pairs = _plain(expected).merge(
        _plain(actual[columns]),
        on=key,
        how="outer",
        suffixes=("", "_found"),
        indicator="side",
        validate="one_to_many",
    )
    same = _values_agree(pairs, [column for column in columns if column not in key])
    met = pairs["side"] == "both"
    right_keys = pairs[met & same].drop_duplicates(key)
    met_keys = pairs[met].drop_duplicates(key)
    again = pairs[met].duplicated(key)
    return Verdict(
        expected=len(expected),
        actual=len(actual),
        lost=int((pairs["side"] == "left_only").sum()),
        duplicated=int(again.sum()),
        wrong=len(met_keys) - len(right_keys),
        unexpected=int((pairs["side"] == "right_only").sum()),
        out_of_order=_ORDERS[query](actual),
        examples=_examples(pairs, ~(met & same) | again.reindex(pairs.index, fill_value=False)),
    )


def _plain(rows: pd.DataFrame) -> pd.DataFrame:
    """Numbers as nullable integers: on one side a column with nulls may have become floats."""
    numeric = rows.select_dtypes("number").columns
    return rows.astype(dict.fromkeys(numeric, "Int64"))


def _values_agree(pairs: pd.DataFrame, values: list[str]) -> pd.Series:
    agree = pd.Series(True, index=pairs.index)
    for value in values:
        left, right = pairs[value], pairs[f"{value}_found"]
        agree &= (left == right).fillna(False).astype(bool) | (left.isna() & right.isna())
    return agree


def _examples(pairs: pd.DataFrame, bad: pd.Series) -> str:
    shown = pairs[bad].head(_EXAMPLES)
    return "" if shown.empty else str(shown.T.to_string(header=False))


def _hours_out_of_order(actual: pd.DataFrame) -> int:
    """Hours close in order, and all of one hour in one epoch."""
    latest = actual.groupby("epoch")["hour_ms"].max().sort_index().cummax().shift()
    return int((actual["hour_ms"] <= actual["epoch"].map(latest)).sum())


def _rotations_out_of_order(actual: pd.DataFrame) -> int:
    """The rotations of one aircraft end in the order of their departures."""
    ordered = actual.sort_values(["tailnum", "departed_ms", "seq"])
    return int((ordered.groupby("tailnum")["epoch"].diff() < 0).sum())


_ORDERS = {HOURLY: _hours_out_of_order, ROTATIONS: _rotations_out_of_order}
