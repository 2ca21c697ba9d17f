"""A query in mode unaligned that is killed while it writes to three servers, and readers poll.

One query writes its epochs to files, to a topic of Kafka, to a table of MariaDB and to keys of
Redis. Its driver dies by SIGKILL at random moments. A reader polls each target, the table and the
keys with their recorded last epoch at one moment. Verified: each of its answers has all epochs up
to that one, by the files, and the topic has each epoch completely or not at all; the last answer is
that of a batch; and kills, in-flight rows and intermediate answers have happened.
"""

import contextlib
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cleancut import Checkpoint
from tests.chaos.test_tables_killed import CLUSTER
from tests.support.kafka_server import KafkaBroker, kafka_broker, needs_kafka
from tests.support.kills import Campaign
from tests.support.mariadb import MariaDbServer, mariadb_server, needs_mariadb
from tests.support.polled_tables import ROW, Reader, check_answers, prefixes, summary
from tests.support.redis_server import RedisProcess, redis_server
from tests.support.seeds import hunting
from tests.support.server_victim import TOPIC, sinks_at
from tests.support.table_victim import NEWEST, QUERY, source_at, start
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos, needs_kafka, needs_mariadb]

SEED = hunting(31)
Servers = tuple[KafkaBroker, MariaDbServer, RedisProcess]


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with kafka_broker() as kafka, mariadb_server() as mariadb, redis_server() as redis:
        # With several partitions a reader may see the end of a transaction in one of them first.
        kafka.make_topic(TOPIC, partitions=1)
        yield kafka, mariadb, redis


def as_row(fields: dict[str, Any]) -> tuple[Any, ...]:
    number, file, partition, value = (fields[name] for name in ROW)
    return int(number), int(file), int(partition), int(value)


class Polled:
    """Polls the three targets.

    Attributes:
        topics: the rows of the topic by epoch.
    """

    def __init__(self, servers: Servers) -> None:
        self.topics: list[dict[int, Counter[tuple[Any, ...]]]] = []
        self._kafka, self._mariadb, self._redis = servers

    def __call__(self) -> Iterator[tuple[str, int, list[tuple[Any, ...]]]]:
        """Yields the table and the keys, each at one moment, with its recorded last epoch."""
        # One statement, hence one moment.
        rows = self._mariadb.rows(
            "SELECT (SELECT COALESCE(MAX(epoch), -1) FROM cleancut_epochs WHERE"
            f" SUBSTRING_INDEX(sink, '.', -1) = '{NEWEST}'),"
            " t.number, t.file, t.`partition`, t.value"
            f" FROM (SELECT 1) one LEFT JOIN {NEWEST} t ON true"
        )
        if rows:
            yield "table", rows[0][0], [row[1:] for row in rows if row[1] is not None]
        yield from self._keys()
        of_epochs: dict[int, Counter[tuple[Any, ...]]] = {}
        for record in self._kafka.records(TOPIC):
            [(_, epoch)] = record.headers()
            of_epochs.setdefault(int(epoch), Counter())[as_row(json.loads(record.value()))] += 1
        self.topics.append(of_epochs)

    def _keys(self) -> Iterator[tuple[str, int, list[tuple[Any, ...]]]]:
        with contextlib.closing(self._redis.client()) as client:
            ledgers = list(client.scan_iter("cleancut:*:ledger"))
            moment = client.pipeline(transaction=True)
            for ledger in ledgers:
                moment.get(ledger)
            for partition in range(16):
                moment.hgetall(f"{NEWEST}:{partition}")
            answers = moment.execute()
        if ledgers:
            last = json.loads(answers[0])["run"]["last"]
            yield "keys", last, [as_row(row) for row in answers[len(ledgers) :] if row]


@long
@pytest.mark.parametrize(
    ("files", "kills", "master"),
    [(12, 4, "local[2]"), (40, 20, CLUSTER)],
    ids=["4 kills", "20 kills"],
)
def test_readers_see_complete_epochs_during_kills_of_drivers(
    files: int,
    kills: int,
    master: str,
    spark: SparkSession,
    servers: Servers,
    tmp_path: Path,
    show: Callable[[str], None],
) -> None:
    kafka, mariadb, redis = servers
    forget_all(servers)
    source, root = source_at(tmp_path / "input", SEED), tmp_path / "query"
    source.write(*range(files))
    places = (kafka.servers, mariadb.url, redis.url)
    victim = ["-m", "tests.support.server_victim", master, str(SEED)]
    victim += [str(source.directory), str(root), *places]
    polled = Polled(servers)
    with Reader(polled) as reader:
        campaign = Campaign(victim, work=tmp_path, seed=SEED, driver_kills=kills, executor_kills=0)
        campaign.run(progress=reader.last_epoch)
        # No row stays in flight after it.
        start(spark, source, root, sinks_at(root, *places), mode="aligned").awaitTermination()
        reader.look()
    modes = [cut.mode for cut in Checkpoint(str(root / "checkpoint")).cuts()]
    every, newest = prefixes(spark, root)
    show(f"seed {SEED}: {summary(campaign, reader, modes)}")
    check_answers(reader, {"table": newest, "keys": newest})
    epochs = sorted(every)
    fresh = {epoch: every[epoch] - every[before] for before, epoch in itertools.pairwise(epochs)}
    for seen in polled.topics:
        for epoch, counted in seen.items():
            assert set(counted.values()) == {1}, f"epoch {epoch} is duplicated"
            assert frozenset(counted) == fresh[epoch], f"epoch {epoch} is torn"
    batch = {as_row(row.asDict()) for row in QUERY.build(source.batch(spark)).collect()}
    last = epochs[-1]
    assert every[last] == batch
    assert {row for counted in polled.topics[-1].values() for row in counted} == batch
    for target in ("table", "keys"):
        assert (target, last, newest[last]) in reader.answers
    assert campaign.drivers_killed == kills
    assert "unaligned" in modes
    assert redis.own_keys() == []
    assert mariadb.rows("SHOW TABLES LIKE 'cleancut\\_staged%'") == []


def forget_all(servers: Servers) -> None:
    """Deletes the data of the previous test."""
    kafka, mariadb, redis = servers
    for table in (NEWEST, "cleancut_runs", "cleancut_epochs"):
        mariadb.rows(f"DROP TABLE IF EXISTS {table}")
    with contextlib.closing(redis.client()) as client:
        client.flushall()
    kafka.remake_topic(TOPIC, partitions=1)
