"""A query in mode unaligned that is killed while it writes to tables of lakes, and a reader polls.

One query writes its epochs to files, to tables of Delta and of Iceberg that keep every row, and to
one of Delta that keeps the newest row of each partition. Its driver dies by SIGKILL at random
moments. A reader polls all tables with the usual libraries, each with the last epoch of its log.
Verified: each of its answers has all epochs up to that one, by the files; the last answer is that
of a batch; and kills, in-flight rows and intermediate answers have happened.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from cleancut import Checkpoint
from tests.support.kills import Campaign
from tests.support.lakes import OfDelta, OfIceberg
from tests.support.polled_tables import ROW, Reader, check_answers, prefixes, summary
from tests.support.seeds import hunting
from tests.support.table_victim import (
    ALL,
    LAKES,
    NEWEST,
    QUERY,
    sinks_at,
    source_at,
    start,
)
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos]

SEED = hunting(29)
ICEBERG = "iceberg"


def tuples_of(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in ROW) for row in rows]


def ask(root: Path) -> Iterator[tuple[str, int, list[tuple[Any, ...]]]]:
    """Yields the existing tables, each at one version, with the last epoch of that version."""
    metadata = root / "checkpoint" / "metadata"
    if not metadata.exists():
        return
    query = json.loads(metadata.read_text())["id"]
    for name in (ALL, NEWEST):
        lake = OfDelta(root / name)
        if lake.exists():
            table = DeltaTable(lake.path)
            yield (
                name,
                lake.last_epoch(table.version(), query),
                tuples_of(pa.table(table.to_pyarrow_table()).to_pylist()),
            )
    iceberg = OfIceberg(root)
    if iceberg.exists():
        shown = iceberg.catalog().load_table(iceberg.NAME)
        text = shown.properties.get(f"cleancut.query.{query}")
        epoch = -1 if text is None else json.loads(text)["entry"]["lastEpoch"]
        yield ICEBERG, epoch, tuples_of(shown.scan().to_arrow().to_pylist())


@long
@pytest.mark.parametrize(("files", "kills"), [(12, 4)], ids=["4 kills"])
def test_a_reader_sees_complete_epochs_during_kills_of_drivers(
    files: int,
    kills: int,
    spark: SparkSession,
    tmp_path: Path,
    show: Callable[[str], None],
) -> None:
    source, root = source_at(tmp_path / "input", SEED), tmp_path / "query"
    root.mkdir()
    source.write(*range(files))
    victim = ["-m", "tests.support.table_victim", "local[2]", str(SEED)]
    victim += [str(source.directory), str(root), LAKES]
    with Reader(lambda: ask(root)) as reader:
        campaign = Campaign(victim, work=tmp_path, seed=SEED, driver_kills=kills, executor_kills=0)
        campaign.run(progress=reader.last_epoch)
        # No row stays in flight after it.
        start(spark, source, root, sinks_at(root, LAKES), mode="aligned").awaitTermination()
        reader.look()
    modes = [cut.mode for cut in Checkpoint(str(root / "checkpoint")).cuts()]
    every, newest = prefixes(spark, root)
    wanted = {ALL: every, NEWEST: newest, ICEBERG: every}
    show(f"seed {SEED}: {summary(campaign, reader, modes)}")
    check_answers(reader, wanted)
    batch = {tuple(row[name] for name in ROW) for row in QUERY.build(source.batch(spark)).collect()}
    last = max(every)
    assert every[last] == batch
    for table, after in wanted.items():
        # An epoch without rows is no commit.
        assert any(name == table and rows == after[last] for name, _, rows in reader.answers), table
    assert campaign.drivers_killed == kills
    assert "unaligned" in modes
