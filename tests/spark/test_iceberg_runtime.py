"""Iceberg's runtime for Spark, of its newest supported version, together with Cleancut's state.

A query that drops duplicates and counts in windows runs on a cluster of processes, whose driver and
executors are killed. `IcebergSink` or Iceberg's own streaming sink writes its rows to an Iceberg
table. The rows that Iceberg's runtime reads in that session are compared with the rows of a batch.
`make spark41` sets `CLEANCUT_ICEBERG_JARS`.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cleancut import Checkpoint
from tests.support.events import SCHEMA, write_closing, write_events
from tests.support.iceberg_query import JARS, OURS, THEIRS, counted
from tests.support.kills import Campaign
from tests.support.lakes import OfIceberg, columns
from tests.support.seeds import fixed
from tests.support.tiers import long

pytestmark = [
    pytest.mark.spark,
    long,
    pytest.mark.skipif(not JARS, reason="Iceberg's runtime is for Spark 4.1"),
]

SEED = fixed(1911)
CLUSTER = "local-cluster[2,1,1024]"
FILES = 8
DRIVER_KILLS, EXECUTOR_KILLS = 2, 1


@pytest.mark.parametrize("kind", [OURS, THEIRS])
def test_a_table_has_the_rows_of_a_batch_after_kills(
    kind: str, spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    events = tmp_path / "events"
    (tmp_path / "last").mkdir()
    write_events(events, seed=SEED, files=range(FILES))
    write_closing(events, FILES)
    command = ["-m", "tests.support.iceberg_query", CLUSTER, kind, str(tmp_path)]
    campaign = Campaign(
        command,
        work=tmp_path,
        seed=SEED,
        driver_kills=DRIVER_KILLS,
        executor_kills=EXECUTOR_KILLS,
    )
    campaign.run(progress=lambda: len(list(tmp_path.glob("checkpoint/commits/[0-9]*"))))
    assert (campaign.drivers_killed, campaign.executors_killed) == (DRIVER_KILLS, EXECUTOR_KILLS)
    # Spark runs no epoch without input after a restart, which may leave windows open.
    write_closing(events, FILES + 1)
    Campaign(command, tmp_path / "last", SEED, driver_kills=0, executor_kills=0).run(lambda: 0)
    rows = json.loads((tmp_path / "read.json").read_text())
    batch = counted(spark.read.schema(SCHEMA).json(str(events))).collect()
    # The windows of the last file, which only advances the watermark, are open.
    last = max(row["at"] for row in batch)
    expected = sorted(list(row) for row in batch if row["at"] < last)
    show(f"seed {SEED}: {len(rows)} rows in {campaign.lives} lives")
    assert rows == expected
    # By the Python client, from the same catalog.
    of_python = columns(OfIceberg(tmp_path).rows(), "at", "k", "n", "total")
    assert of_python == [tuple(row) for row in expected]
    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
    # A restarted driver may read two files at once.
    assert len(checkpoint.cuts()) >= FILES - DRIVER_KILLS
    report = checkpoint.verify()
    assert report.ok, report
