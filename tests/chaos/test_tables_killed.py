"""A query in mode unaligned that is killed while it writes to two tables, and a reader polls.

One query writes its epochs to files, to a table that keeps every row, and to one that keeps the
newest row of each partition. Its driver dies by SIGKILL at random moments. A reader takes both
tables all the time, each with the number of the last epoch by its ledger, in one statement.
Verified: each of its answers is that of all epochs up to that number, by the files; the end is the
answer of a batch; and kills, rows in flight and answers in between were there at all.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cleancut import Checkpoint
from demo.postgres_server import PostgresServer, postgres_server
from tests.support.kills import Campaign
from tests.support.seeds import hunting
from tests.support.table_victim import (
    ALL,
    NEWEST,
    QUERY,
    files_at,
    sinks_at,
    source_at,
    start,
)
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos]

SEED = hunting(27)
ROW = "number, file, partition, value"
_POLL_S = 0.05
CLUSTER = "local-cluster[2,1,1024]"

Rows = frozenset[tuple[Any, ...]]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as started:
        yield started


class Reader:
    """Polls the tables of a sink in a thread of its own.

    Attributes:
        answers: what it has seen: table, last epoch, and rows.
        polls: how many times it has asked.
    """

    def __init__(self, server: PostgresServer) -> None:
        self.answers: set[tuple[str, int, Rows]] = set()
        self.polls = 0
        self._server = server
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def __enter__(self) -> "Reader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def look(self) -> None:
        """Takes both tables as they are now."""
        for table in (ALL, NEWEST):
            # One statement, hence one moment.
            found = self._server.rows(
                "SELECT (SELECT coalesce(max(epoch), -1) FROM cleancut_epochs"
                f" WHERE sink = 'PostgresSink {table}'), {ROW}"
                f" FROM (SELECT 1) one LEFT JOIN {table} t ON true"
            )
            if found:
                rows = [row[1:] for row in found if row[1] is not None]
                assert len(set(rows)) == len(rows), "a row is there twice"
                self.answers.add((table, found[0][0], frozenset(rows)))
        self.polls += 1

    def _poll(self) -> None:
        while not self._is_over.wait(_POLL_S):
            self.look()

    def last_epoch(self) -> int:
        """The last that it has seen."""
        return max((epoch for _, epoch, _ in self.answers), default=-1)


def prefixes(spark: SparkSession, root: Path) -> dict[tuple[str, int], Rows]:
    """What each table has after each epoch, by the files."""
    sink = files_at(root)
    of_epochs: dict[int, list[tuple[Any, ...]]] = {of.epoch: [] for of in sink.epochs(spark)}
    for row in sink.read(spark, epoch_column="epoch").collect():
        of_epochs[row["epoch"]].append(tuple(row[name] for name in ROW.split(", ")))
    every: set[tuple[Any, ...]] = set()
    newest: dict[int, tuple[Any, ...]] = {}
    found: dict[tuple[str, int], Rows] = {(ALL, -1): frozenset(), (NEWEST, -1): frozenset()}
    for epoch, rows in of_epochs.items():
        every |= set(rows)
        # Of those of one epoch the greatest number counts, and of two epochs the later one.
        newest |= {row[2]: row for row in sorted(rows)}
        found[ALL, epoch] = frozenset(every)
        found[NEWEST, epoch] = frozenset(newest.values())
    return found


@long
@pytest.mark.parametrize(
    ("files", "kills", "master"),
    [(12, 4, "local[2]"), (40, 20, CLUSTER)],
    ids=["4 kills", "20 kills"],
)
def test_a_reader_sees_whole_epochs_wherever_drivers_die(
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
    with Reader(server) as reader:
        campaign = Campaign(victim, work=tmp_path, seed=SEED, driver_kills=kills, executor_kills=0)
        campaign.run(progress=reader.last_epoch)
        # No row stays in flight behind it.
        sink = sinks_at(root, server.dsn)
        start(spark, source, root, sink, mode="aligned").awaitTermination()
        reader.look()
    modes = [cut.mode for cut in Checkpoint(str(root / "checkpoint")).cuts()]
    wanted = prefixes(spark, root)
    show(
        f"seed {SEED}: {campaign.drivers_killed} drivers killed in {campaign.lives} lives;"
        f" {reader.polls} polls saw {len(reader.answers)} answers;"
        f" {modes.count('unaligned')} of {len(modes)} cuts with rows in flight"
    )
    for table, epoch, rows in reader.answers:
        right = wanted[table, epoch]
        assert rows == right, (table, epoch, len(rows - right), len(right - rows))
    batch = {
        tuple(row[name] for name in ROW.split(", "))
        for row in QUERY.build(source.batch(spark)).collect()
    }
    last = max(epoch for _, epoch in wanted)
    assert wanted[ALL, last] == batch
    assert (ALL, last, wanted[ALL, last]) in reader.answers
    assert (NEWEST, last, wanted[NEWEST, last]) in reader.answers
    assert campaign.drivers_killed == kills
    assert len({epoch for _, epoch, _ in reader.answers}) > 2
    assert "unaligned" in modes
    assert not [
        name
        for (name,) in server.rows("SELECT tablename::text FROM pg_tables")
        if name.startswith("cleancut_staged")
    ]
