"""The comparison detects each way in which results can differ from the right answer."""

from collections.abc import Callable

import pandas as pd
import pytest

from demo.expected import expected_results
from demo.flights import load_flights
from demo.job import HOURLY, QUERIES, ROTATIONS
from demo.replay import flights_between
from demo.verdict import compare

Change = Callable[[pd.DataFrame], pd.DataFrame]


@pytest.fixture(scope="module")
def expected() -> dict[str, pd.DataFrame]:
    return expected_results(flights_between(load_flights(), 0, 3000))


def as_epochs(query: str, expected: pd.DataFrame) -> pd.DataFrame:
    """Returns the right results as epochs of 100 rows, in the order of events."""
    order = {HOURLY: ["hour_ms"], ROTATIONS: ["departed_ms", "seq"]}[query]
    rows = expected.sort_values(order, ignore_index=True)
    if query == HOURLY:
        return rows.assign(epoch=rows["hour_ms"].rank(method="dense").astype(int) // 5)
    return rows.assign(epoch=rows.index // 100)


@pytest.mark.parametrize("query", QUERIES)
def test_right_results_have_no_difference(query: str, expected: dict[str, pd.DataFrame]) -> None:
    shuffled = as_epochs(query, expected[query]).sample(frac=1, random_state=1)
    verdict = compare(query, expected[query], shuffled)
    assert verdict.differences == 0
    assert verdict.actual == verdict.expected == len(expected[query])
    assert verdict.examples == ""


def without_one(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.drop(index=rows.index[50])


def with_a_duplicate(rows: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([rows, rows.iloc[[50]]])


def with_one_in_two_versions(rows: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([rows, rows.iloc[[50]].assign(**{rows.columns[-2]: -1})])


def with_another_value(rows: pd.DataFrame) -> pd.DataFrame:
    changed = rows.copy()
    changed.loc[changed.index[50], rows.columns[-2]] += 1
    return changed


def with_null_for_a_value(rows: pd.DataFrame) -> pd.DataFrame:
    changed = rows.astype({rows.columns[-2]: "Int64"})
    changed.loc[changed.index[50], rows.columns[-2]] = pd.NA
    return changed


def with_an_unknown_key(rows: pd.DataFrame) -> pd.DataFrame:
    key = "seq" if "seq" in rows else "origin"
    strange = 10**9 if key == "seq" else "ZZZ"
    return pd.concat([rows, rows.iloc[[-1]].assign(**{key: strange})])


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(
    ("change", "count"),
    [
        (without_one, "lost"),
        (with_a_duplicate, "duplicated"),
        (with_one_in_two_versions, "duplicated"),
        (with_another_value, "wrong"),
        (with_null_for_a_value, "wrong"),
        (with_an_unknown_key, "unexpected"),
    ],
)
def test_each_difference_is_counted_by_its_kind(
    query: str, change: Change, count: str, expected: dict[str, pd.DataFrame]
) -> None:
    results = change(as_epochs(query, expected[query]))
    verdict = compare(query, expected[query], results)
    assert getattr(verdict, count) == 1
    assert verdict.differences == 1
    assert verdict.examples


@pytest.mark.parametrize("query", QUERIES)
def test_swapped_epochs_are_out_of_order(query: str, expected: dict[str, pd.DataFrame]) -> None:
    results = as_epochs(query, expected[query])
    first, last = results["epoch"].min(), results["epoch"].max()
    swapped = results.assign(epoch=results["epoch"].replace({first: last, last: first}))
    verdict = compare(query, expected[query], swapped)
    assert verdict.out_of_order > 0
    assert verdict.differences == verdict.out_of_order


def test_results_with_other_columns_are_refused(expected: dict[str, pd.DataFrame]) -> None:
    results = as_epochs(ROTATIONS, expected[ROTATIONS]).drop(columns="miles")
    with pytest.raises(ValueError, match="have the columns"):
        compare(ROTATIONS, expected[ROTATIONS], results)
