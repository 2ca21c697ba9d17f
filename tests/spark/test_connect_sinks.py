"""Sinks that a client of Spark Connect gives to `foreachBatch`, where the server is killed.

The function runs in a process of the server, which has no JVM: what a sink asks of the driver goes
over the protocol of Spark Connect.
"""

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cleancut import Checkpoint
from demo.postgres_server import postgres_server
from tests.spark.test_connect import Servers, server  # noqa: F401  # a fixture
from tests.support.connect_server import ConnectServer
from tests.support.connected_sinks import TABLE, Row, wanted, write
from tests.support.kafka_server import kafka_broker, needs_kafka
from tests.support.kills import run_module
from tests.support.redis_server import redis_server
from tests.support.seeds import hunting
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, long]

SEED = hunting(31)
FILES, KILLS = 10, 2


@contextmanager
def place_of(target: str) -> Iterator[tuple[str, Callable[[], list[Row]] | None]]:
    """Returns the server of a target, and a function that reads the target."""
    with ExitStack() as stack:
        if target == "postgres":
            database = stack.enter_context(postgres_server())
            yield database.dsn, lambda: database.rows(f"SELECT k, n FROM {TABLE}")
        elif target == "redis":
            redis = stack.enter_context(redis_server())
            client = stack.enter_context(redis.client())
            yield redis.url, lambda: [_row(fields) for _, fields in client.xrange(TABLE)]
        elif target == "kafka":
            broker = stack.enter_context(kafka_broker())
            broker.make_topic(TABLE)
            records = partial(broker.records, TABLE)
            yield broker.servers, lambda: [_row(json.loads(record.value())) for record in records()]
        else:
            yield "", None


def _row(fields: dict[str, Any]) -> Row:
    return int(fields["k"]), int(fields["n"])


def client(one: ConnectServer, home: Path, target: str, place: str, act: str) -> str:
    ended = run_module("tests.support.connected_sinks", one.remote, str(home), target, place, act)
    assert ended.returncode == 0, f"{ended.stderr[-5000:]}\n{one.log[-5000:]}"
    return ended.stdout


@pytest.mark.parametrize(
    "target",
    [
        *("files", "sqlite", "postgres", "delta", "iceberg", "redis"),
        pytest.param("kafka", marks=needs_kafka),
    ],
)
def test_a_sink_of_a_client_has_each_row_once_after_kills_of_the_server(
    target: str,
    server: Servers,  # noqa: F811
    tmp_path: Path,
    show: Callable[[str], None],
) -> None:
    draw = random.Random(f"{SEED} {target}")
    write(tmp_path, range(FILES))
    with place_of(target) as (place, rows):
        one = server("--cuts", "--mode", "unaligned")
        died_after = []
        for _ in range(KILLS):
            assert "BEGUN" in client(one, tmp_path, target, place, "run")
            time.sleep(draw.random())
            one.kill()
            died_after.append(Checkpoint(str(tmp_path / "checkpoint")).cuts()[-1].epoch)
            one.start()
        # Some of the input was left each time.
        assert died_after[-1] < FILES - 1
        assert "DONE" in client(one, tmp_path, target, place, "end")
        if rows is None:
            answer = client(one, tmp_path, target, place, "read").splitlines()[-1]
            written = [tuple(row) for row in json.loads(answer)]
        else:
            written = sorted(tuple(row) for row in rows())
    assert written == wanted(FILES)
    show(f"seed {SEED}: killed after epochs {died_after}, {len(written)} rows, each once")
