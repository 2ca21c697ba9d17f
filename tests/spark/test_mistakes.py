"""What a user's terminal shows after common mistakes, as `common-mistakes.md` has it."""

import re
import shutil
import sqlite3
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import cleancut
from cleancut import Checkpoint
from cleancut._provider import PROVIDER_CLASS, PROVIDER_KEY
from cleancut._session.installation import SPARK, spark_line
from cleancut._session.options import PREFIX
from cleancut._session.settings import FILE_MANAGER_KEY
from cleancut.sinks import SqlSink, sealed
from tests.support.copies import copied
from tests.support.damages import flip
from tests.support.documented import ROOT, blocks
from tests.support.file_epochs import session_of, write_file
from tests.support.patience import PATIENCE_S
from tests.support.sessions import ROCKSDB

pytestmark = pytest.mark.spark

PAGE = "docs/operate/common-mistakes.md"
CUTS = {PROVIDER_KEY: PROVIDER_CLASS, f"{PREFIX}cuts": "true"}
_NONE: Mapping[str, str] = MappingProxyType({})
Sink = Callable[[DataFrame, int], None]
# The values that differ between runs, as the page has them.
ID = "4f6c1d1e-0b7a-4c52-9f0e-6c1d7f3a2b10"
VARYING = (
    (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", ID),
    (r"(probe|driver)-[0-9a-f]{32}", r"\1-01a222df96027ecfb410b80b13a7a86e"),
    (r"\.seg at \d+", ".seg at 620"),
    (r"calling o\d+\.", "calling o93."),
)


class Orders:
    """A query over files that is started repeatedly, with mistakes."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.spark, self.home, self.files = spark, home, 0
        self.location = str(home / "orders")
        (home / "in").mkdir()

    def rows(self, settings: Mapping[str, str]) -> DataFrame:
        session = session_of(
            self.spark, CUTS | {"spark.sql.shuffle.partitions": "1"} | dict(settings)
        )
        write_file(self.home / "in" / f"{self.files}.json", [{"k": self.files}], self.files)
        self.files += 1
        return session.readStream.schema("k int").json(str(self.home / "in"))

    def counts(self, settings: Mapping[str, str]) -> DataFrame:
        return self.rows(settings).groupBy("k").count()

    def start(self, rows: DataFrame, sink: Sink | None = None) -> StreamingQuery:
        writer = rows.writeStream.outputMode("update")
        writer = writer.format("noop") if sink is None else writer.foreachBatch(sink)
        writer = writer.option("checkpointLocation", self.location)
        return writer.trigger(availableNow=True).start()

    def run(self, sink: Sink | None = None, settings: Mapping[str, str] = _NONE) -> StreamingQuery:
        query = self.start(self.counts(settings), sink)
        query.awaitTermination()
        return query

    def shown(self, failure: BaseException) -> str:
        return self.as_documented("".join(traceback.format_exception_only(failure)))

    def as_documented(self, text: str) -> str:
        text = text.replace(str(self.home), "/data")
        for pattern, value in VARYING:
            text = re.sub(pattern, value, text)
        return text


@pytest.fixture
def orders(spark: SparkSession, tmp_path: Path) -> Orders:
    return Orders(spark, tmp_path)


@contextmanager
def properties(spark: SparkSession, **values: str) -> Iterator[None]:
    """System properties of the driver's JVM, whose names have underscores instead of dots."""
    system: Any = spark._jvm.java.lang.System  # type: ignore[union-attr]
    names = {name.replace("_", "."): value for name, value in values.items()}
    for name, value in names.items():
        system.setProperty(name, value)
    try:
        yield
    finally:
        for name in names:
            system.clearProperty(name)


class Refusal(BaseHTTPRequestHandler):
    """The response of S3 to a request with an unknown access key."""

    def respond(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        body = (
            b"<Error><Code>InvalidAccessKeyId</Code><Message>The AWS Access Key Id you provided "
            b"does not exist in our records.</Message></Error>"
        )
        self.send_response(403)
        self.send_header("content-type", "application/xml")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = respond  # noqa: N815

    def log_message(self, *_: object) -> None:
        """No line per request."""


def wrong_credentials(orders: Orders) -> None:
    server = HTTPServer(("127.0.0.1", 0), Refusal)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with properties(orders.spark, aws_accessKeyId="AKIAOLD", aws_secretAccessKey="rotated"):
            orders.location = "s3://company-checkpoints/orders"
            endpoint = f"http://127.0.0.1:{server.server_port}"
            orders.run(
                settings={
                    f"{PREFIX}s3.endpoint": endpoint,
                    f"{PREFIX}s3.region": "eu-west-1",
                    f"{PREFIX}s3.pathStyle": "true",
                }
            )
    finally:
        server.shutdown()
        thread.join(PATIENCE_S)
        server.server_close()


def no_region(orders: Orders) -> None:
    keys = {"aws_accessKeyId": "AKIA", "aws_secretAccessKey": "secret"}
    with properties(orders.spark, **keys, aws_disableEc2Metadata="true"):
        orders.location = "s3://company-checkpoints/orders"
        orders.run()


def other_provider(orders: Orders) -> None:
    orders.run(settings={PROVIDER_KEY: ROCKSDB, f"{PREFIX}cuts": "false"})
    orders.run()


def second_driver(orders: Orders) -> None:
    orders.run()
    first, second = Path(orders.location), orders.home / "second"
    copied(first, second)
    orders.location = str(second)
    orders.run()
    orders.location = str(first)
    write = sealed(lambda rows, _epoch: rows.write.format("noop").mode("overwrite").save())

    def overtaken(rows: DataFrame, epoch: int) -> None:
        copied(second / "cleancut", first / "cleancut", over=True)
        write(rows, epoch)

    orders.run(overtaken)


def changed_operator(orders: Orders) -> None:
    orders.run()
    rows = orders.rows({f"{PREFIX}checkCompatibility": "true"})
    orders.start(rows.groupBy(f.col("k").cast("string").alias("k")).count())


def corrupted_cut(orders: Orders) -> None:
    orders.run()
    [cut] = Path(orders.location).glob("cleancut/cuts/*.cut")
    flip(cut, position=cut.stat().st_size // 2)
    orders.run()


def corrupted_state(orders: Orders) -> None:
    orders.run()
    # A process that has the state in memory does not read the segment.
    moved = orders.home / "restored"
    shutil.move(orders.location, moved)
    orders.location = str(moved)
    [segment] = moved.glob("cleancut/segments/*/*.seg")
    flip(segment, position=segment.stat().st_size // 2)
    orders.run()


def lost_epochs(orders: Orders) -> None:
    database = orders.home / "shop.db"

    def create() -> None:
        connection = sqlite3.connect(database)
        connection.execute("CREATE TABLE counts (k INTEGER PRIMARY KEY, count INTEGER)")
        connection.close()

    create()
    sink = SqlSink(f"sqlite:///{database}", "counts", keys=["k"])
    orders.run(sink)
    database.unlink()
    create()
    orders.run(sink)


def no_jar(orders: Orders) -> None:
    # A class that no jar has.
    orders.run(settings={FILE_MANAGER_KEY: "io.cleancut.NoSuchFileManager"})


FAILURES: dict[Callable[[Orders], None], tuple[str, type[Exception]]] = {
    wrong_credentials: ("CLEANCUT_OBJECT_STORE_REFUSED", IllegalArgumentException),
    no_region: ("CLEANCUT_OBJECT_STORE_REFUSED", IllegalArgumentException),
    other_provider: ("CLEANCUT_PROVIDER_MISMATCH", IllegalArgumentException),
    second_driver: ("CLEANCUT_FENCED", StreamingQueryException),
    changed_operator: ("CLEANCUT_QUERY_INCOMPATIBLE", IllegalArgumentException),
    corrupted_cut: ("CLEANCUT_CUT_CORRUPTED", IllegalArgumentException),
    corrupted_state: ("CLEANCUT_FRAME_CORRUPTED", StreamingQueryException),
    lost_epochs: ("CLEANCUT_SINK_EPOCHS_LOST", StreamingQueryException),
    no_jar: ("CLEANCUT_JAR_NOT_LOADED", Exception),
}


def documented(name: str) -> str:
    """The block of the page in the section of a mistake."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    sections = dict(re.findall(r"<!-- (\w+) -->\n.*?```text\n(.*?)```", text, flags=re.DOTALL))
    return str(sections[name]).replace("NoSuchFileManager", "CleancutCheckpointFileManager")


def comparable(text: str) -> str:
    """The text, without Spark's message if it is not that of the newest version."""
    return text if spark_line() == SPARK[-1] else text.partition("\n\n")[0].strip()


@pytest.mark.parametrize("mistake", FAILURES)
def test_the_terminal_shows_the_error_and_at_most_one_line_of_spark(
    mistake: Callable[[Orders], None], orders: Orders
) -> None:
    error_id, kind = FAILURES[mistake]
    with pytest.raises(kind) as raised:
        mistake(orders)
    text = str(raised.value)
    assert text.startswith(f"[{error_id}] ")
    first, empty, rest = text.partition("\n\n")
    assert len(first.splitlines()) == 5
    assert len(rest.splitlines()) == (1 if empty else 0)
    assert "\tat " not in text
    error = cleancut.errors.find_error(raised.value)
    assert error is not None
    assert (str(error), error.error_id) == (first, error_id)
    expected = orders.shown(raised.value).replace(
        "NoSuchFileManager", "CleancutCheckpointFileManager"
    )
    assert comparable(documented(mistake.__name__)) == comparable(expected)


def test_the_exception_of_a_query_shows_the_same(orders: Orders) -> None:
    """`awaitTermination()` and `query.exception()` have different ways to PySpark."""
    orders.run()
    shutil.move(orders.location, orders.home / "restored")
    orders.location = str(orders.home / "restored")
    [segment] = Path(orders.location).glob("cleancut/segments/*/*.seg")
    flip(segment, position=segment.stat().st_size // 2)
    query = orders.start(orders.counts({}))
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination()
    failure = query.exception()
    assert failure is not None
    lines, of_call = str(failure).split("\n"), str(raised.value).split("\n")
    assert lines[:-1] == of_call[:-1]
    assert lines[-1].startswith("Spark's message: ")
    # Spark's text is still available.
    assert raised.value.getMessage().startswith("[STREAM_FAILED]")


def test_another_number_of_partitions_is_no_error(orders: Orders) -> None:
    orders.run()
    settings = {"spark.sql.shuffle.partitions": "8"}
    orders.run(settings=settings)
    partitions = {store.partition for store in Checkpoint(orders.location).stores()}
    assert partitions == {0}
    compatibility = cleancut.check_compatibility(
        orders.location, orders.counts(settings), output_mode="update"
    )
    assert documented("partitions").strip() == orders.as_documented(str(compatibility)).strip()


def test_a_sink_that_does_not_seal_aligns_the_query(orders: Orders) -> None:
    def collect(rows: DataFrame, _epoch: int) -> None:
        rows.collect()

    query = orders.run(collect, {f"{PREFIX}mode": "auto"})
    aligned = cleancut.coordinator(query).status().aligned
    assert documented("unsealed").strip() == orders.as_documented(str(aligned)).strip()


def test_every_block_of_the_page_is_compared() -> None:
    names = {*(mistake.__name__ for mistake in FAILURES), "partitions", "unsealed"}
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert {*re.findall(r"<!-- (\w+) -->", text)} == names
    assert len(blocks(PAGE, "text")) == len(names)


def test_a_stop_during_a_failing_function_does_not_overflow_spark(
    orders: Orders,
) -> None:
    """Spark searches the text of the function's exception; 2,000 characters were too many.

    The thread of the query ended before it recorded how the query had ended.
    """
    entered = threading.Event()
    ended = threading.Event()

    @sealed
    def failing(rows: DataFrame, _epoch: int) -> None:
        entered.set()
        ended.wait(PATIENCE_S)
        try:
            # An exception of a class that PySpark does not know, so that py4j's is raised.
            jvm: Any = rows.sparkSession._jvm
            jvm.java.util.ArrayList().iterator().next()
        except Exception as e:
            raise ValueError("line\n" * 200_000) from e

    query = orders.start(orders.counts({}), failing)
    assert entered.wait(PATIENCE_S)
    stopping = threading.Thread(target=query.stop)
    stopping.start()
    deadline = time.monotonic() + PATIENCE_S
    while query.isActive and time.monotonic() < deadline:
        time.sleep(0.01)
    ended.set()
    stopping.join(PATIENCE_S)
    assert not query.isActive
    # The interruption of the stop, or the exception of the function.
    assert query.status["message"].startswith(("Stopped", "Terminated with exception"))
