"""Queries continue from checkpoints of each release, on each Spark version (`tests/checkpoints`).

The batch after the last epoch has the rows of a query that was never stopped, and its state is
intact. So formats, IDs and Spark's own records are read as they were written, and a query moves
between all supported Spark versions.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import cleancut
from tests.support.releases import BATCHES, expected, kind_of, names, run, unpacked
from tests.support.tiers import usually

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", usually(["0.1.0/4.0/cuts-aggregation.zip"], names()))
def test_a_query_continues_from_the_checkpoint_of_a_release(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    checkpoint, kind = unpacked(name, tmp_path), kind_of(name)
    cuts_before = len(cleancut.Checkpoint(checkpoint).cuts())
    assert (cuts_before > 0) == ("cuts" in name)
    for batch in (BATCHES, BATCHES + 1):
        assert run(spark, kind, checkpoint) == expected(kind, batch)
    report = cleancut.Checkpoint(checkpoint).verify()
    assert report.ok, report.problems
    assert report.stores > 0
    if cuts_before:
        last = cleancut.Checkpoint(checkpoint).cuts()[-1]
        # The first of these runs begins with an epoch without rows if the previous run was stored
        # before its end marker (PROTOCOL, O8), as if that run might still be alive.
        assert last.generation == BATCHES + 2
        assert last.epoch in (BATCHES + 1, BATCHES + 2)
