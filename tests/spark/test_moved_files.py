"""A checkpoint whose files were moved without Cleancut.

Spark's descriptions of `transformWithState` have absolute paths of state schemas, so they name the
former location, and Spark does not start the query.
"""

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import cleancut
from cleancut import Checkpoint
from tests.support.sessions import with_cuts
from tests.support.slow_keys import FORMS, Pace

pytestmark = pytest.mark.spark

KEYS = 5


def run(session: SparkSession, home: Path, location: Path) -> list[tuple[int, int]]:
    """Adds a file with each key, and returns the keys with their counts."""
    source = home / "in"
    source.mkdir(exist_ok=True)
    number = len(list(source.iterdir()))
    lines = (json.dumps({"k": key, "n": KEYS * number + key}) for key in range(KEYS))
    (source / f"{number}.json").write_text("\n".join(lines), encoding="utf-8")
    rows = session.readStream.schema("k long, n long").json(str(source))
    received: list[tuple[int, int]] = []

    def take(batch: DataFrame, _: int) -> None:
        received.extend((row.k, row.c) for row in batch.collect())

    counted = FORMS["transformWithStateInPandas"](rows, Pace(0.0))
    query = counted.writeStream.outputMode("update").foreachBatch(take).trigger(availableNow=True)
    query.option("checkpointLocation", str(location)).start().awaitTermination()
    return sorted(received)


def test_a_clone_of_moved_files_continues(spark: SparkSession, tmp_path: Path) -> None:
    session, former = with_cuts(spark, 2), tmp_path / "former"
    for count in (1, 2):
        assert run(session, tmp_path, former) == [(key, count) for key in range(KEYS)]
    moved, clone = former.rename(tmp_path / "moved"), tmp_path / "clone"
    assert Checkpoint(str(moved)).verify().ok
    cleancut.clone(str(moved), str(clone), same_query=True, session=session).apply(session)
    assert run(session, tmp_path, clone) == [(key, 3) for key in range(KEYS)]
    # An operation on the moved files writes the paths as well.
    cleancut.rescale(str(moved), 3, session=session).apply(session)
    assert run(session, tmp_path, moved) == [
        (key, count) for key in range(KEYS) for count in (3, 4)
    ]
