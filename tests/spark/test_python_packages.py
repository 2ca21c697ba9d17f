"""`start()` names the packages that the Python functions of a query import and do not find."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import cleancut
from cleancut._provider import PROVIDER_CLASS, PROVIDER_KEY
from tests.support.file_epochs import session_of, write_file

pytestmark = pytest.mark.spark

# Python imports a module of this name at its start.
BLOCKER = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
"""


class Nothing(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        pass

    def handleInputRows(  # noqa: N802  # Spark's name
        self, key: object, rows: object, timer_values: object
    ) -> Iterator[pd.DataFrame]:
        yield pd.DataFrame({"k": [1]})

    def close(self) -> None:
        pass


def processed(rows: DataFrame) -> DataFrame:
    grouped = rows.groupBy("k")
    return grouped.transformWithStateInPandas(Nothing(), "k long", "update", "none")


def applied(rows: DataFrame) -> DataFrame:
    def count(key: object, batches: object, state: object) -> Iterator[pd.DataFrame]:
        yield pd.DataFrame({"k": [1]})

    return rows.groupBy("k").applyInPandasWithState(
        count, "k long", "n long", "update", "NoTimeout"
    )


def mapped(rows: DataFrame) -> DataFrame:
    return rows.mapInArrow(lambda batches: batches, rows.schema)


def pickled(rows: DataFrame) -> DataFrame:
    return rows.select(F.udf(lambda k: k + 1, "long", useArrow=False)("k").alias("k"))


@pytest.fixture
def start(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[DataFrame], DataFrame], list[str]], None]:
    """Runs a query whose Python workers lack some modules."""
    for name in ("in", "blocker"):
        (tmp_path / name).mkdir()
    write_file(tmp_path / "in" / "0.json", [{"k": 1}], 0)

    def run(query: Callable[[DataFrame], DataFrame], blocked: list[str]) -> None:
        site = tmp_path / "blocker" / "sitecustomize.py"
        site.write_text(BLOCKER.format(blocked=blocked), encoding="utf-8")
        monkeypatch.setitem(spark.sparkContext.environment, "PYTHONPATH", str(site.parent))
        session = session_of(spark, {PROVIDER_KEY: PROVIDER_CLASS})
        rows = query(session.readStream.schema("k long").json(str(tmp_path / "in")))
        writer = rows.writeStream.format("noop").outputMode("update")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    return run


@pytest.mark.parametrize(
    ("query", "blocked", "packages"),
    [
        (processed, ["google"], "protobuf"),
        (processed, ["google", "pandas"], "pandas protobuf"),
        (applied, ["pandas"], "pandas"),
        (mapped, ["pyarrow"], "pyarrow"),
    ],
)
def test_a_missing_package_is_named_before_the_query_starts(
    start: Callable[..., None],
    tmp_path: Path,
    query: Callable[[DataFrame], DataFrame],
    blocked: list[str],
    packages: str,
) -> None:
    """The query failed later with "driver worker exited unexpectedly (crashed)"."""
    with pytest.raises(IllegalArgumentException) as raised:
        start(query, blocked)
    error = cleancut.errors.find_error(raised.value)
    assert error is not None
    assert error.error_id == "CLEANCUT_PYTHON_PACKAGE_MISSING"
    assert error.params["packages"] == packages
    assert f"pip install {packages}" in str(error)
    assert list((tmp_path / "checkpoint").iterdir()) == []


def test_a_package_that_the_functions_do_not_import_may_be_missing(
    start: Callable[..., None], tmp_path: Path
) -> None:
    start(pickled, ["google"])
    assert (tmp_path / "checkpoint" / "commits" / "0").exists()
