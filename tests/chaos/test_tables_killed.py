"""A query in mode unaligned that is killed while it writes to two tables, and a reader polls.

One query writes its epochs to files, to a table that keeps every row, and to one that keeps the
newest row of each partition. Its driver dies by SIGKILL at random moments. A reader polls both
tables, each with the last epoch of its ledger, in one statement. Verified: each of its answers has
all epochs up to that one, by the files; the last answer is that of a batch; and kills, in-flight
rows and intermediate answers have happened.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cleancut import Checkpoint
from demo.postgres_server import PostgresServer, postgres_server
from tests.support.kills import Campaign
from tests.support.polled_tables import ROW, Reader, check_answers, prefixes, summary
from tests.support.seeds import hunting
from tests.support.table_victim import ALL, NEWEST, QUERY, sinks_at, source_at, start
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos]

SEED = hunting(27)
CLUSTER = "local-cluster[2,1,1024]"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as started:
        yield started


def ask(server: PostgresServer) -> Iterator[tuple[str, int, list[tuple[Any, ...]]]]:
    """Yields both tables, each with its last epoch by the ledger."""
    for table in (ALL, NEWEST):
        # One statement, hence one moment.
        rows = server.rows(
            "SELECT (SELECT coalesce(max(epoch), -1) FROM cleancut_epochs"
            f" WHERE sink = 'table public.{table}'), {', '.join(ROW)}"
            f" FROM (SELECT 1) one LEFT JOIN {table} t ON true"
        )
        if rows:
            yield table, rows[0][0], [row[1:] for row in rows if row[1] is not None]


@long
@pytest.mark.parametrize(
    ("files", "kills", "master"),
    [(12, 4, "local[2]"), (40, 20, CLUSTER)],
    ids=["4 kills", "20 kills"],
)
def test_a_reader_sees_complete_epochs_during_kills_of_drivers(
    files: int,
    kills: int,
    master: str,
    spark: SparkSession,
    server: PostgresServer,
    tmp_path: Path,
    show: Callable[[str], None],
) -> None:
    for table in (ALL, NEWEST, "cleancut_runs", "cleancut_epochs"):
        server.rows(f"DROP TABLE IF EXISTS {table}")
    source, root = source_at(tmp_path / "input", SEED), tmp_path / "query"
    source.write(*range(files))
    victim = ["-m", "tests.support.table_victim", master, str(SEED)]
    victim += [str(source.directory), str(root), server.dsn]
    with Reader(lambda: ask(server)) as reader:
        campaign = Campaign(victim, work=tmp_path, seed=SEED, driver_kills=kills, executor_kills=0)
        campaign.run(progress=reader.last_epoch)
        # No row stays in flight after it.
        sink = sinks_at(root, server.dsn)
        start(spark, source, root, sink, mode="aligned").awaitTermination()
        reader.look()
    modes = [cut.mode for cut in Checkpoint(str(root / "checkpoint")).cuts()]
    every, newest = prefixes(spark, root)
    wanted = {ALL: every, NEWEST: newest}
    show(f"seed {SEED}: {summary(campaign, reader, modes)}")
    check_answers(reader, wanted)
    batch = {tuple(row[name] for name in ROW) for row in QUERY.build(source.batch(spark)).collect()}
    last = max(every)
    assert every[last] == batch
    for table, after in wanted.items():
        assert (table, last, after[last]) in reader.answers
    assert campaign.drivers_killed == kills
    assert "unaligned" in modes
    for (name,) in server.rows("SELECT tablename::text FROM pg_tables"):
        if name.startswith("cleancut_staged"):
            assert server.rows(f"SELECT count(*) FROM {name}") == [(0,)]
