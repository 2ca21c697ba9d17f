"""`RedisSink` on a server: the contract, types, keys, durability, rollbacks, lost connections."""

import contextlib
import json
import logging
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from cleancut import RequestError, RetryableError
from cleancut.sinks import RedisSink
from cleancut.sinks._core.query_side import Operation
from cleancut.testing import SinkContract
from cleancut.testing._simulated_query import SimulatedQuery
from demo.ports import free_port
from demo.postgres_server import PASSWORD
from tests.spark.test_sink_pages import Page, counted
from tests.support.contracts import (
    DIES,
    FOLLOWED,
    GONE,
    LOST,
    LOST_MEANWHILE,
    SEALED,
    briefly,
    in_a_block,
)
from tests.support.redis_server import RedisProcess, redis_server
from tests.support.refusals import refusal
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

Row = tuple[Any, ...]
Give = Callable[[RedisSink, DataFrame, int], None]

# For each type: its column in Spark SQL, and the field of a hash.
TYPES = {
    "truth": ("true", b"true"),
    "tiny": ("tinyint(-128)", b"-128"),
    "large": ("bigint(9223372036854775807)", b"9223372036854775807"),
    "double": ("double('-Infinity')", b"-Infinity"),
    "exact": ("cast('1234567890.120' as decimal(38,3))", b"1234567890.120"),
    "words": ("'ä ''\"\\\\ \\t☃🙂'", "ä '\"\\ \t☃🙂".encode()),
    "bytes": ("unhex('00FF0A')", b"\x00\xff\n"),
    "day": ("date'0001-01-01'", b"0001-01-01"),
    "moment": ("timestamp'2024-03-31 02:30:00.123456 UTC'", b"2024-03-31T02:30:00.123456Z"),
    "local": ("timestamp_ntz'1600-02-29 23:59:59.999999'", b"1600-02-29 23:59:59.999999"),
    "list": ("array(1, null, 3)", b"[1,null,3]"),
    "struct": (
        "named_struct('a', 1, 'at', timestamp_ntz'2024-01-01 00:00:00.000001')",
        b'{"a":1,"at":"2024-01-01T00:00:00.000001"}',
    ),
    'odd "%:name {': ("'colon :x %s'", b"colon :x %s"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[RedisProcess]:
    with redis_server() as started:
        yield started


@pytest.fixture
def client(server: RedisProcess) -> Iterator[Any]:
    with contextlib.closing(server.client()) as opened:
        yield opened
        opened.flushall()


@pytest.fixture
def give() -> Give:
    """Passes an epoch of a simulated query to a sink, each in a separate run."""
    query = SimulatedQuery()
    return lambda sink, rows, epoch: query.start().give(sink, rows, epoch)


class OnRedis(SinkContract):
    server: RedisProcess

    @pytest.fixture(autouse=True)
    def given_server(self, server: RedisProcess) -> None:
        self.server = server

    def place(self, home: Path) -> str:
        # All tests of a run share the server.
        return f"{type(self).__name__}-{home.name}"

    def save(self, home: Path) -> dict[bytes, bytes]:
        """Dumps all keys of the server; no other test runs at the same time."""
        with contextlib.closing(self._raw()) as client:
            return {key: client.dump(key) for key in client.scan_iter()}

    def restore(self, home: Path, saved: dict[bytes, bytes]) -> None:
        self.drop(home)
        with contextlib.closing(self._raw()) as client:
            for key, value in saved.items():
                client.restore(key, 0, value)

    def drop(self, home: Path) -> None:
        with contextlib.closing(self._raw()) as client:
            client.flushall()

    def _raw(self) -> Any:
        """A client that returns bytes."""
        import redis

        return redis.Redis.from_url(self.server.url)


class KeysContract(OnRedis):
    keys = ("id",)

    def make_sink(self, home: Path) -> RedisSink:
        return RedisSink(self.server.url, key=f"{self.place(home)}/{{id}}", keep_undo=9)

    def read(self, home: Path) -> Iterable[Row]:
        with contextlib.closing(self.server.client()) as client:
            keys = list(client.scan_iter(f"{self.place(home)}/*"))
            # In one transaction, which a reader of complete epochs of several keys needs.
            pipeline = client.pipeline(transaction=True)
            for key in keys:
                pipeline.hgetall(key)
            return [
                (int(fields["id"]), fields["word"], int(fields["n"]))
                for fields in pipeline.execute()
                if fields
            ]


@long
class TestHashes(KeysContract):
    pass


@briefly(DIES, LOST, LOST_MEANWHILE, GONE)
class TestHashesBriefly(KeysContract):
    crashes = 3
    pauses = 1


@long
@in_a_block
@briefly(DIES, FOLLOWED, SEALED)
class TestHashesInABlock(KeysContract):
    pass


@long
class TestStrings(OnRedis):
    """JSON without undo records."""

    keys = ("id",)

    def make_sink(self, home: Path) -> RedisSink:
        return RedisSink(self.server.url, key=f"{self.place(home)}/{{id}}", value="json")

    def read(self, home: Path) -> Iterable[Row]:
        with contextlib.closing(self.server.client()) as client:
            keys = list(client.scan_iter(f"{self.place(home)}/*"))
            entries = [json.loads(text) for text in client.mget(keys)] if keys else []
            return [(entry["id"], entry["word"], entry["n"]) for entry in entries]


@long
class TestStream(OnRedis):
    def make_sink(self, home: Path) -> RedisSink:
        return RedisSink(self.server.url, stream=self.place(home), keep_undo=9)

    def read(self, home: Path) -> Iterable[Row]:
        with contextlib.closing(self.server.client()) as client:
            entries = [fields for _, fields in client.xrange(self.place(home))]
            return [(int(fields["id"]), fields["word"], int(fields["n"])) for fields in entries]


def test_each_type_of_spark_is_encoded_or_refused(
    spark: SparkSession, server: RedisProcess, client: Any, give: Give
) -> None:
    columns = ", ".join(f"{sql} AS `{name}`" for name, (sql, _) in TYPES.items())
    rows = spark.sql(f"SELECT 7 AS id, {columns}, int(null) AS nothing")
    give(RedisSink(server.url, key="t:{id}"), rows, 0)
    import redis

    raw: Any = redis.Redis.from_url(server.url)
    with contextlib.closing(raw):
        fields = {name.decode(): value for name, value in raw.hgetall("t:7").items()}
    assert fields == {"id": b"7"} | {name: value for name, (_, value) in TYPES.items()}
    give(RedisSink(server.url, key="j:{id}", value="json"), rows, 0)
    document = json.loads(client.get("j:7"))
    assert (document["nothing"], document["list"], document["bytes"]) == (
        None,
        [1, None, 3],
        "AP8K",
    )
    assert document["moment"][:26] == "2024-03-31T02:30:00.123456"
    bad = spark.sql("SELECT 1 AS id, null AS void, make_interval(1) AS calendar")
    error = refusal(lambda: give(RedisSink(server.url, key="b:{id}"), bad, 0))
    assert error.error_id == "CLEANCUT_SINK_REFUSED"
    assert "void (" in str(error)
    assert "calendar (" in str(error)
    assert client.keys("b:*") == []


@long
def test_rows_replace_and_delete_all_fields_of_their_key(
    spark: SparkSession, server: RedisProcess, client: Any, give: Give
) -> None:
    sink = RedisSink(server.url, key="r:{a}:{b}", order_by="at", delete_when="gone", ttl_s=600)

    def epoch(number: int, *rows: tuple[int, str, int, str | None, bool | None]) -> None:
        schema = "a int, b string, at int, v string, gone boolean"
        give(sink, spark.createDataFrame(list(rows), schema), number)

    epoch(0, (1, "x", 1, "one", False), (1, "y", 1, "two", None), (2, "x", 1, "three", False))
    assert client.hgetall("r:1:x") == {"a": "1", "b": "x", "at": "1", "v": "one"}
    assert 0 < client.ttl("r:1:x") <= 600
    epoch(
        1,
        *((1, "x", 10, "", True), (1, "x", 9, "late", False)),
        *((1, "y", 2, "", True), (1, "y", 3, None, False)),
        (7, "z", 1, "", True),
    )
    assert sorted(client.scan_iter("r:*")) == ["r:1:y", "r:2:x"]
    # A field that is null now has no former value.
    assert client.hgetall("r:1:y") == {"a": "1", "b": "y", "at": "3"}
    assert server.own_keys() == []


def test_ambiguous_keys_are_refused(
    spark: SparkSession, server: RedisProcess, client: Any, give: Give
) -> None:
    def refusal_of(sql: str, **options: Any) -> str:
        sink = RedisSink(server.url, key="d:{a}:{b}", **options)
        with pytest.raises(Exception, match="CLEANCUT_SINK_REFUSED") as raised:
            give(sink, spark.sql(sql), 0)
        return str(raised.value)

    assert "1 keys are duplicated" in refusal_of("SELECT explode(array(2, 3, 3)) AS a, 'b' AS b")
    assert "a row has no a, which is in the key" in refusal_of("SELECT int(null) AS a, 'b' AS b")
    assert "two rows could have the same key" in refusal_of("SELECT 'x:y' AS a, 'b' AS b")
    assert "no columns b" in refusal_of("SELECT 1 AS a")
    assert "at most 3 (max_rows)" in refusal_of("SELECT id AS a, id AS b FROM range(4)", max_rows=3)
    assert client.keys("d:*") == []
    # The staged rows of the last refused epoch are deleted with the first accepted one.
    give(RedisSink(server.url, key="d:{a}:{b}"), spark.sql("SELECT 1 AS a, 'b:c' AS b"), 0)
    assert client.keys("d:*") == ["d:1:b:c"]
    assert server.own_keys() == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "either the template of a key or the name of a stream"),
        ({"key": "k:{k}", "stream": "s"}, "either the template"),
        ({"stream": "s", "ttl_s": 5}, "require keys"),
        ({"key": "{a}{b}"}, "no text between a and b"),
        ({"key": "{a!r}"}, "column names"),
        ({"key": "{}"}, "column names"),
        ({"key": "{a"}, "expected '}'"),
        ({"key": "k", "value": "xml"}, "'hash' or 'json'"),
    ],
)
def test_contradictory_options_are_refused(options: dict[str, Any], problem: str) -> None:
    error = refusal(lambda: RedisSink("redis://127.0.0.1:1/0", **options))
    assert (error.error_id, type(error)) == ("CLEANCUT_SINK_REFUSED", RequestError)
    assert problem in str(error)


@long
@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (["--appendonly", "no"], "no append-only log"),
        (["--appendonly", "yes", "--appendfsync", "no"], "operating system decides"),
        (["--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"],
         "may evict any key"),
        (["--appendonly", "yes", "--cluster-enabled", "yes", "--cluster-port", str(free_port())],
         "part of a cluster"),
    ],
)  # fmt: skip
def test_a_server_without_durability_is_refused(
    settings: list[str], problem: str, spark: SparkSession, give: Give
) -> None:
    with redis_server(*settings) as other:
        error = refusal(lambda: give(RedisSink(other.url, key="k:{id}"), spark.range(3), 0))
        assert error.error_id == "CLEANCUT_SINK_REFUSED"
        assert problem in str(error)
        if "allow_volatile" in str(error):
            give(RedisSink(other.url, key="k:{id}", allow_volatile=True), spark.range(3), 0)
            with contextlib.closing(other.client()) as client:
                assert len(client.keys("k:*")) == 3


@long
def test_lost_epochs_of_a_server_are_detected_in_the_same_run(spark: SparkSession) -> None:
    """It restarted without its log: the next epoch would hide that one is missing."""
    with redis_server("--appendonly", "no") as other:
        run = SimulatedQuery().start()
        sink = RedisSink(other.url, key="k:{id}", allow_volatile=True)
        run.give(sink, spark.range(3), 0)
        other.kill()
        other.start()
        error = refusal(lambda: run.give(sink, spark.range(3), 1))
        assert error.error_id == "CLEANCUT_SINK_EPOCHS_LOST"
        assert "does not contain epoch 0 of the query" in str(error)


@long
def test_a_log_synced_each_second_is_reported_once_per_run(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    with redis_server("--appendonly", "yes") as other:
        run, sink = SimulatedQuery().start(), RedisSink(other.url, key="k:{id}")
        with caplog.at_level(logging.WARNING, "cleancut.sinks"):
            run.give(sink, spark.range(3), 0)
            run.give(sink, spark.range(3), 1)
    assert len([text for text in caplog.messages if "appendfsync everysec" in text]) == 1


@long
def test_replaced_values_are_restored_with_their_ttl(
    spark: SparkSession, server: RedisProcess, client: Any
) -> None:
    query = SimulatedQuery()
    client.set("u:0", "another's")
    client.set("u:1", "another's too", ex=500)

    def epoch(number: int, low: int, high: int) -> None:
        sink = RedisSink(server.url, key="u:{id}", keep_undo=2)
        query.start().give(sink, spark.range(low, high), number)

    epoch(0, 5, 6)
    epoch(1, 0, 3)
    epoch(2, 1, 4)
    assert sorted(client.keys("u:*")) == ["u:0", "u:1", "u:2", "u:3", "u:5"]
    query.operations.append(Operation(epoch=3, source=0))
    epoch(4, 9, 10)
    assert sorted(client.keys("u:*")) == ["u:0", "u:1", "u:5", "u:9"]
    assert (client.get("u:0"), client.get("u:1")) == ("another's", "another's too")
    assert (client.ttl("u:0"), client.ttl("u:1") > 400) == (-1, True)
    # Only the last two epochs are recorded.
    epoch(5, 20, 21)
    epoch(6, 20, 22)
    query.operations.append(Operation(epoch=7, source=0))
    error = refusal(lambda: epoch(8, 0, 1))
    assert error.error_id == "CLEANCUT_SINK_UNDO_REFUSED"
    assert "is gone" in str(error)
    sink = RedisSink(server.url, key="u:{id}", keep_undo=2)
    assert [epoch.epoch for epoch in sink.epochs(query.query_id)] == [0, 4, 5, 6]
    assert sink.mark_unpublished(query.query_id, after=0) == 3
    epoch(8, 0, 1)
    assert client.hgetall("u:0") == {"id": "0"}


@long
def test_a_rollback_past_writes_of_another_query_is_refused(
    spark: SparkSession, server: RedisProcess, client: Any
) -> None:
    one, other = SimulatedQuery(), SimulatedQuery()

    def give(query: SimulatedQuery, epoch: int) -> None:
        sink = RedisSink(server.url, key="o:{id}", keep_undo=5)
        query.start().give(sink, spark.range(3), epoch)

    give(one, 0)
    give(one, 1)
    give(other, 0)
    one.operations.append(Operation(epoch=2, source=0))
    error = refusal(lambda: give(one, 3))
    assert error.error_id == "CLEANCUT_SINK_UNDO_REFUSED"
    assert other.query_id in str(error)


@long
def test_a_reader_sees_complete_epochs_while_connections_are_lost(
    spark: SparkSession, server: RedisProcess, client: Any, give: Give
) -> None:
    """The server repeatedly kills all connections except the reader's."""
    sink = RedisSink(server.url, key="w:{id}", retry_for_s=60)
    is_over, thrown, torn = threading.Event(), [], []

    def kill_connections() -> None:
        with contextlib.closing(server.client()) as killer:
            while not is_over.wait(0.1):
                thrown.append(killer.client_kill_filter(_type="normal", skipme=True))

    def read() -> None:
        names = [f"w:{at}" for at in range(100)]
        while not is_over.is_set():
            with contextlib.suppress(Exception), contextlib.closing(server.client()) as reader:
                pipeline = reader.pipeline(transaction=True)
                for name in names:
                    pipeline.hget(name, "epoch")
                seen = set(pipeline.execute())
                if len(seen) > 1:
                    torn.append(seen)

    threads = [threading.Thread(target=target, daemon=True) for target in (kill_connections, read)]
    for thread in threads:
        thread.start()
    try:
        for epoch in range(6):
            rows = spark.range(0, 100, 1, 2).selectExpr("id", f"{epoch} AS epoch")
            # A task whose connection was killed fails the epoch, which runs again.
            for _ in range(10):
                with contextlib.suppress(Exception):
                    give(sink, rows, epoch)
                    break
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert sum(thrown) > 3
    assert torn == []
    assert {client.hget(f"w:{at}", "epoch") for at in range(100)} == {"5"}


def test_a_query_continues_after_a_kill_of_the_server(
    spark: SparkSession, client: Any, give: Give
) -> None:
    with redis_server() as other:

        class KillingSink(RedisSink):
            def publish(self, handle: str, batch: Any) -> None:
                other.kill()
                starts = threading.Timer(0.3, other.start)
                starts.start()
                super().publish(handle, batch)
                starts.join()

        give(KillingSink(other.url, stream="s"), spark.range(100), 0)
        give(KillingSink(other.url, stream="s"), spark.range(100, 150), 1)
        with contextlib.closing(other.client()) as reader:
            assert [int(fields["id"]) for _, fields in reader.xrange("s")] == list(range(150))
        assert other.own_keys() == []


@long
def test_a_lost_list_is_staged_again(
    spark: SparkSession, server: RedisProcess, client: Any
) -> None:
    query = SimulatedQuery(keeps_seals=True)

    class DeletingSink(RedisSink):
        def publish(self, handle: str, batch: Any) -> None:
            client.delete(*[key for key in server.own_keys() if client.type(key) == "list"])
            super().publish(handle, batch)

    lost = refusal(
        lambda: query.start().give(DeletingSink(server.url, key="l:{id}"), spark.range(5), 0)
    )
    assert (lost.error_id, isinstance(lost, RetryableError)) == ("CLEANCUT_SINK_STAGED_LOST", True)
    assert client.keys("l:*") == []
    query.start().give(RedisSink(server.url, key="l:{id}"), spark.range(5), 0)
    assert len(client.keys("l:*")) == 5


@long
def test_a_stream_key_of_another_type_is_refused(
    spark: SparkSession, server: RedisProcess, client: Any, give: Give
) -> None:
    client.set("taken", 1)
    sink = RedisSink(server.url, stream="taken")
    assert "is no stream but a string" in str(refusal(lambda: give(sink, spark.range(5), 0)))
    assert client.get("taken") == "1"


@long
def test_the_documented_sink(
    spark: SparkSession, server: RedisProcess, client: Any, tmp_path: Path
) -> None:
    page = Page("docs/use/sinks/redis.md", spark, tmp_path)
    assert page.number == 1
    page.run(0, replaced={"redis://cache:6379/0": server.url})
    counts: Counter[str] = Counter()
    for key in client.scan_iter("counts:*"):
        row = client.hgetall(key)
        counts[row.get("k", "")] += int(row["count"])
    assert counts == {str(key): count for key, count in counted(page, spark, tmp_path).items()}


def test_the_password_is_masked_and_an_unreachable_server_is_an_error(
    spark: SparkSession,
    server: RedisProcess,
    client: Any,
    give: Give,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    encoded = server.url.split(":")[2].split("@")[0]
    sink = RedisSink(server.url, key="p:{id}")
    give(sink, spark.range(3), 0)
    texts = [repr(sink), sink.name, repr(sink._server)]
    away = RedisSink(server.url.replace(str(server.port), "1"), key="p:{id}", retry_for_s=0.3)
    lost = refusal(lambda: give(away, spark.range(3), 1))
    assert (lost.error_id, "0.3 seconds" in str(lost)) == ("CLEANCUT_SINK_UNREACHABLE", True)
    wrong = RedisSink(server.url.replace(encoded, f"{encoded}x"), key="p:{id}")
    refused = refusal(lambda: give(wrong, spark.range(3), 1))
    assert refused.error_id == "CLEANCUT_SINK_REFUSED"
    texts += traceback.format_exception(lost) + traceback.format_exception(refused)
    texts.append(caplog.text)
    for secret in (PASSWORD, encoded):
        assert not [text for text in texts if secret in text]
