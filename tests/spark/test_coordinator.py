"""A query whose checkpoint is in a bucket: its coordinator, its history, and its requests."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import cleancut
from cleancut import Checkpoint, RequestError, coordinator
from cleancut.types import Coordinator, EpochInfo
from tests.support.counted_files import CountedFiles
from tests.support.documented import blocks
from tests.support.patience import PATIENCE_S
from tests.support.s3_servers import S3Server, s3proxy
from tests.support.tiers import long

pytestmark = pytest.mark.spark

KEYS = "spark.sql.streaming.stateStore.cleancut."
DOCUMENTED = "docs/use/object-stores.md"
EPOCHS = 6
FREE = {"delete", "uploadAbort"}
# The entries of the offset log and of the source's log, the cut, and the ownership check.
WITHOUT_SEGMENTS = {"create": 3, "get": 1}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3proxy(tmp_path_factory.mktemp("s3proxy")) as started:
        yield started


@pytest.fixture
def session(
    spark: SparkSession, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SparkSession]:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    # The JVM runs already; the credential chain of the SDK also reads these.
    system = spark._jvm.java.lang.System  # type: ignore[union-attr]
    properties = {"aws.accessKeyId": "access", "aws.secretAccessKey": "secret"}
    for name, value in properties.items():
        system.setProperty(name, value)
    session = spark.newSession()
    session.conf.set(f"{KEYS}s3.endpoint", server.endpoint)
    session.conf.set(f"{KEYS}s3.region", "us-east-1")
    yield session
    for name in properties:
        system.clearProperty(name)


class Counting(CountedFiles):
    """A count by key that runs until it is stopped."""

    def __init__(self, session: SparkSession, directory: Path, location: str) -> None:
        super().__init__(directory, keys=200)
        self.session = session
        self.location = location

    def counts(self) -> DataFrame:
        return self.counted(self.session)

    def start(self, sink: Callable[[DataFrame, int], None] | None = None) -> StreamingQuery:
        plain = self.counts().writeStream.outputMode("update")
        writer = plain.foreachBatch(sink) if sink else plain.format("noop")
        return writer.option("checkpointLocation", self.location).start()

    def batch(self) -> dict[int, int]:
        rows = self.session.read.schema("k long").json(str(self.source)).groupBy("k").count()
        return {row["k"]: row["count"] for row in rows.collect()}


def billed(handle: Coordinator) -> Counter[str]:
    """Returns the requests so far, except deletions, which are free."""
    kinds = handle.status().requests
    return Counter({kind: n.requests for kind, n in kinds.items() if kind not in FREE})


def without_search(requests: dict[str, float]) -> dict[str, float]:
    """Removes the lists of the one search for remains of killed processes after a start.

    It runs in the background, so that it may end within the measured epochs.
    """
    return {kind: n for kind, n in requests.items() if kind != "list" or n >= 1}


def requests_of_an_epoch(
    counting: Counting, sink: Callable[[DataFrame, int], None] | None = None
) -> dict[str, float]:
    """Returns the requests of an epoch after the first, which also reads state schemas."""
    counting.add()
    query = counting.start(sink)
    try:
        handle = coordinator(query)
        assert handle.wait_for(0, timeout=PATIENCE_S)
        query.processAllAvailable()
        before = billed(handle)
        for epoch in range(1, EPOCHS):
            counting.add()
            assert handle.wait_for(epoch, timeout=PATIENCE_S)
        query.processAllAvailable()
        billed_requests = billed(handle) - before
        return {kind: count / (EPOCHS - 1) for kind, count in billed_requests.items()}
    finally:
        query.stop()


@long
def test_requests_follow_epochs_and_not_partitions(
    session: SparkSession, server: S3Server, tmp_path: Path, show: Callable[[str], None]
) -> None:
    requests = {}
    for partitions in (2, 12):
        directory = tmp_path / str(partitions)
        directory.mkdir()
        session.conf.set("spark.sql.shuffle.partitions", str(partitions))
        # Snapshots are written in the background, at any time.
        session.conf.set("spark.sql.streaming.stateStore.minDeltasForSnapshot", "100")
        location = f"s3://{server.BUCKET}/queries/{partitions}"
        counting = Counting(session, directory, location)
        requests[partitions] = requests_of_an_epoch(counting)
        stores = Checkpoint(location, endpoint=server.endpoint).cut().stores
        assert len(stores) == partitions
        assert Checkpoint(location, endpoint=server.endpoint).verify().problems == ()
    show(f"requests of an epoch by partitions: {requests}")
    few, many = map(without_search, requests.values())
    # An epoch with any number of task waves writes one object in its last commit.
    assert few == many == {**WITHOUT_SEGMENTS, "put": 1}


class Written:
    """The rows that a sink wrote, by epoch: a repeated epoch replaces them."""

    def __init__(self) -> None:
        self.epochs: dict[int, dict[int, int]] = {}
        self.fails = False

    def sealed(self) -> Callable[[DataFrame, int], None]:
        @cleancut.sinks.sealed
        def write(df: DataFrame, epoch: int) -> None:
            if self.fails:
                raise OSError("after the seal")
            rows = {row["k"]: row["count"] for row in df.collect()}
            # A second action reads the cached rows.
            assert df.count() == len(rows)
            self.epochs[epoch] = rows

        return write

    def last(self) -> dict[int, int]:
        """Returns the newest row of each key."""
        return {k: n for epoch in sorted(self.epochs) for k, n in self.epochs[epoch].items()}


def test_a_sealed_epoch_writes_one_object(
    session: SparkSession, server: S3Server, tmp_path: Path, show: Callable[[str], None]
) -> None:
    requests = {}
    session.conf.set("spark.sql.streaming.stateStore.minDeltasForSnapshot", "100")
    for partitions in (2, 6):
        directory = tmp_path / str(partitions)
        directory.mkdir()
        session.conf.set("spark.sql.shuffle.partitions", str(partitions))
        location = f"s3://{server.BUCKET}/sealed/{partitions}"
        counting, written = Counting(session, directory, location), Written()
        requests[partitions] = requests_of_an_epoch(counting, written.sealed())
        assert written.last() == counting.batch()
        checkpoint = Checkpoint(location, endpoint=server.endpoint)
        for epoch in range(EPOCHS):
            newest = [store.chain[-1] for store in checkpoint.cut(epoch).stores]
            assert len(newest) == partitions
            assert len({frame.segment for frame in newest}) == 1
        wrote = [(cost.segments, cost.frames) for cost in checkpoint.history()[:EPOCHS]]
        assert wrote == [(1, partitions)] * EPOCHS
        assert checkpoint.verify().problems == ()
    show(f"requests of a sealed epoch by partitions: {requests}")
    few, many = map(without_search, requests.values())
    # A seal repeats the ownership check if the last one is more than a second ago.
    for counted in (few, many):
        assert 1 <= counted["get"] <= 2
        assert {**counted, "get": 1} == {**WITHOUT_SEGMENTS, "put": 1}


def test_a_sink_that_fails_after_the_seal_gets_the_same_rows_again(
    session: SparkSession, server: S3Server, tmp_path: Path
) -> None:
    session.conf.set("spark.sql.shuffle.partitions", "3")
    counting = Counting(session, tmp_path, f"s3://{server.BUCKET}/sealed/failing")
    written = Written()
    counting.add()
    query = counting.start(written.sealed())
    query.processAllAvailable()
    written.fails = True
    counting.add()
    with pytest.raises(StreamingQueryException, match="after the seal"):
        query.processAllAvailable()
    assert list(written.epochs) == [0]
    written.fails = False
    counting.add()
    query = counting.start(written.sealed())
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert list(written.epochs) == [0, 1, 2]
    assert written.last() == counting.batch()


def test_the_documented_sink(session: SparkSession, server: S3Server, tmp_path: Path) -> None:
    session.conf.set("spark.sql.shuffle.partitions", "2")
    counting = Counting(session, tmp_path, "")
    counting.add()
    (code,) = blocks("docs/use/sinks/sealed.md", "python")
    code = code.replace("/lake", str(tmp_path / "lake")).replace(
        "s3://bucket", "s3://" + server.BUCKET
    )
    names: dict[str, Any] = {"cleancut": cleancut, "counts": counting.counts()}
    exec(code, names)
    names["query"].processAllAvailable()
    names["query"].stop()
    rows = session.read.parquet(str(tmp_path / "lake/counts")).collect()
    assert {row["k"]: row["count"] for row in rows} == counting.batch()


def test_rows_outside_of_a_query_cannot_be_sealed(spark: SparkSession) -> None:
    with pytest.raises(RequestError) as raised:
        cleancut.seal(spark.range(3), 0)
    assert raised.value.error_id == "CLEANCUT_SEAL_BATCH_INVALID"


def test_status_history_and_savepoints(
    session: SparkSession, server: S3Server, tmp_path: Path
) -> None:
    session.conf.set("spark.sql.shuffle.partitions", "3")
    location = f"s3://{server.BUCKET}/queries/history"
    counting = Counting(session, tmp_path, location)
    counting.add()
    query = counting.start()
    try:
        handle = coordinator(query)
        assert handle.wait_for(0, timeout=PATIENCE_S)
        assert not handle.wait_for(7, timeout=0.2)
        counting.add()
        assert handle.wait_for(1, timeout=PATIENCE_S)
        status = handle.status()
        assert status.run_id == str(query.runId)
        assert (status.generation, status.committed) == (1, 1)
        assert [cut.epoch for cut in handle.history()] == [0, 1]
        assert [cut.epoch for cut in handle.history(since=1)] == [1]
        assert handle.history(since=datetime.now(UTC)) == []
        for _ in range(2):
            counting.add()
        exec(blocks(DOCUMENTED, "python")[1], {"cleancut": cleancut, "query": query})
        assert handle.drop_savepoint("before-upgrade")
        assert handle.create_savepoint("before-upgrade", 0) == 0
        assert handle.create_savepoint("now") == 3
        with pytest.raises(RequestError) as taken:
            handle.create_savepoint("now")
        assert taken.value.error_id == "CLEANCUT_SAVEPOINT_INVALID"
        assert handle.drop_savepoint("now")
        assert not handle.drop_savepoint("now")
    finally:
        query.stop()
    query = counting.start()
    try:
        counting.add()
        again = coordinator(query)
        assert again.wait_for(4, timeout=PATIENCE_S)
        assert again.status().generation == 2
        assert [cut.generation for cut in again.history()] == [1, 1, 1, 1, 2]
        assert [cut.generation for cut in again.history(since=3)] == [1, 2]
    finally:
        query.stop()


def test_the_status_of_an_ended_query_is_read_from_its_store(
    session: SparkSession, server: S3Server, tmp_path: Path
) -> None:
    session.conf.set("spark.sql.shuffle.partitions", "2")
    counting = Counting(session, tmp_path, f"s3://{server.BUCKET}/queries/ended")
    counting.add()
    query = counting.start()
    handle = coordinator(query)
    assert handle.wait_for(0, timeout=PATIENCE_S)
    query.stop()
    end = time.monotonic() + PATIENCE_S
    while (status := handle.status()).run_id is not None:
        assert time.monotonic() < end
    assert (status.committed, status.epoch, status.last) == (0, None, None)
    assert coordinator(query).status().committed == 0
    assert not handle.cut_now()
    assert handle.create_savepoint("after-the-end") == 0
    counting.add()
    counting.add()
    query = counting.start()
    try:
        query.processAllAvailable()
        assert handle.status().run_id == str(query.runId)
        assert (handle.status().generation, handle.status().committed) == (2, 2)
    finally:
        query.stop()


# The server's names of request kinds; two kinds may be one operation.
OPERATIONS = {
    "PUT": {"put", "create"},
    "GET": {"get", "getRange"},
    "HEAD": {"head"},
    "LIST": {"list"},
}


def operations(server: S3Server, location: str) -> list[tuple[str, str]]:
    """Returns the requests of a query's clients, in order: the operation, and its target."""
    assert server.request_log is not None
    name = re.escape(location.removeprefix(f"s3://{server.BUCKET}/")).replace("/", "(?:/|%2F)")
    request = re.compile(rf"\{{(\w+)@\w+ http://[^/]+(/\S*{name}(?:/|%2F)\S*) HTTP/")
    requests = request.findall(server.request_log.read_text())
    return [("LIST" if "list-type=2" in target else method, target) for method, target in requests]


def between_cuts(done: list[tuple[str, str]], first: int, last: int) -> Counter[str]:
    """Returns the operations from the write of a cut, inclusive, to the write of another."""

    def write_of(epoch: int) -> int:
        name = f"/cleancut/cuts/{epoch:020d}.cut"
        (place,) = (
            place
            for place, (operation, target) in enumerate(done)
            if operation == "PUT" and target.endswith(name)
        )
        return place

    return Counter(operation for operation, _ in done[write_of(first) : write_of(last)])


def recorded_requests(history: Sequence[EpochInfo]) -> Counter[str]:
    """Counts operations by the records in cuts."""
    counted: Counter[str] = Counter()
    for cost in history:
        assert cost.requests is not None
        for operation, kinds in OPERATIONS.items():
            counted[operation] += sum(n.requests for k, n in cost.requests.items() if k in kinds)
    return +counted


@long
def test_cuts_count_the_requests_to_the_server(
    session: SparkSession, server: S3Server, tmp_path: Path, show: Callable[[str], None]
) -> None:
    """Two concurrent queries of one process; each counts only its own requests."""
    session.conf.set("spark.sql.shuffle.partitions", "3")
    session.conf.set("spark.sql.streaming.stateStore.minDeltasForSnapshot", "100")
    counted = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        counted.append(Counting(session, tmp_path / name, f"s3://{server.BUCKET}/costs/{name}"))
        counted[-1].add()
    queries = [counting.start() for counting in counted]
    try:
        coordinators = [coordinator(query) for query in queries]
        for epoch in range(EPOCHS):
            for counting, one in zip(counted, coordinators, strict=True):
                assert one.wait_for(epoch, timeout=PATIENCE_S)
                counting.add()
        for query in queries:
            query.processAllAvailable()
        status = coordinators[0].status()
        assert status.last is not None
        assert status.last.requests is not None
        assert status.last.cut_ms is not None
        assert status.last.slowest
        assert "it took" in str(status)
    finally:
        for query in queries:
            query.stop()
    for counting, one in zip(counted, coordinators, strict=True):
        history = one.history()
        assert [cost.epoch for cost in history[:EPOCHS]] == [*range(EPOCHS)]
        # The first epoch has only a part of its requests: it began before the run owned the query.
        sent = between_cuts(operations(server, counting.location), 0, EPOCHS - 1)
        assert recorded_requests(history[1:EPOCHS]) == sent
        show(f"{counting.location}: {dict(sent)} in {EPOCHS - 1} epochs")
        assert sum(sent.values()) >= 5 * (EPOCHS - 1)
        for cost in history[:EPOCHS]:
            assert cost.duration_ms is not None
            assert cost.commit_ms is not None
            assert cost.duration_ms >= cost.commit_ms
            assert cost.slowest is not None
            assert [slow.executor for slow in cost.slowest] == ["driver"] * 3
            assert cost.duration_ms >= cost.slowest[0].ms
            assert (cost.retries, cost.failures) == (0, 0)
        lists = Checkpoint(counting.location, endpoint=server.endpoint)._root.objects
        sizes = lists.list("segments").values()
        assert sum(cost.segment_bytes or 0 for cost in history) == sum(sizes)
        assert sum(cost.segments or 0 for cost in history) == len(sizes)
        s3, r2 = one.cost_per_day()
        assert 0 < r2.requests_usd < s3.requests_usd
        a_day = s3.epochs_per_day / (len(history) - 1)
        writes = recorded_requests(history[1:])["PUT"] + recorded_requests(history[1:])["LIST"]
        assert s3.class_a_per_day == pytest.approx(writes * a_day)
        assert s3.stored_bytes > sum(sizes)


def test_metrics_report_the_frames_that_a_restart_loads(
    session: SparkSession, server: S3Server, tmp_path: Path
) -> None:
    session.conf.set("spark.sql.shuffle.partitions", "3")
    session.conf.set("spark.sql.streaming.stateStore.minDeltasForSnapshot", "100")
    location = f"s3://{server.BUCKET}/queries/restore"
    counting = Counting(session, tmp_path, location)
    for _ in range(2):
        counting.add()
    query = counting.start()
    query.processAllAvailable()
    query.stop()
    checkpoint = Checkpoint(location, endpoint=server.endpoint)
    before = checkpoint.cut()
    counting.add()
    query = counting.start()
    try:
        query.processAllAvailable()
        (progress,) = [p for p in query.recentProgress if p.numInputRows > 0]
    finally:
        query.stop()
    handle = progress.stateOperators[0].customMetrics
    assert handle["cleancutLoads"] == 3
    assert handle["cleancutLoadedFrames"] == before.info.frames == 6
    assert handle["cleancutLoadedBytes"] == before.info.bytes
    # The driver of the run sends the chains, so that no store reads a cut.
    assert handle["cleancutFindBytes"] == 0
    assert handle["cleancutDecodedBytes"] > 200 * 32
    assert handle["cleancutIndexedBytes"] > 200 * 32
    phases = [handle[f"cleancut{phase}Ms"] for phase in ("Find", "Download", "Decode", "Index")]
    # Each store reports its time in whole milliseconds.
    assert sum(phases) <= handle["cleancutLoadMs"] <= sum(phases) + 4 * 3


def test_a_query_on_a_file_system_has_no_coordinator(spark: SparkSession, tmp_path: Path) -> None:
    counting = Counting(spark.newSession(), tmp_path, str(tmp_path / "checkpoint"))
    counting.add()
    query = counting.start()
    try:
        with pytest.raises(RequestError) as handle:
            coordinator(query)
        assert handle.value.error_id == "CLEANCUT_COORDINATOR_MISSING"
    finally:
        query.stop()
