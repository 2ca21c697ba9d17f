"""Each alert fires at a real Prometheus after its fault of a query.

Prometheus scrapes the exporter, or the driver, each second. Its rules are those of `conf`, with
shorter times and, for some faults, other thresholds.
"""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cleancut import Checkpoint, serve_metrics
from cleancut.sinks import sealed
from cleancut.testing import SkewedInput, slow
from demo.ports import free_port, listens
from tests.support.file_epochs import PLACES, Epochs, session_of
from tests.support.kills import environment, run_script
from tests.support.patience import PATIENCE_S
from tests.support.prometheus import Prometheus, binary, rules
from tests.support.tiers import long

pytestmark = [
    long,
    pytest.mark.spark,
    pytest.mark.skipif(binary() is None, reason="`make prometheus` compiles it, in ten minutes"),
]

PREFIX = "spark.sql.streaming.stateStore.cleancut."
# The alert of a checkpoint without a restore test.
UNPROVEN = {"CleancutRestoreNotTested"}


class Watched:
    """A Prometheus that scrapes one target, and its alerts."""

    def __init__(self, prometheus: Prometheus, location: str) -> None:
        self._prometheus = prometheus
        self._location = location

    def firing(self) -> set[str]:
        """Returns the names of alerts that fire for the checkpoint."""
        return {
            alert["labels"]["alertname"]
            for alert in self._prometheus.alerts()
            if alert["state"] == "firing" and self._location in alert["labels"]["location"]
        }

    def fires(self, alert: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Waits until an alert fires.

        Args:
            alert: its name.
            meanwhile: is called repeatedly.
        """
        until = time.monotonic() + PATIENCE_S
        while alert not in self.firing():
            assert time.monotonic() < until, (self._prometheus.alerts(), self._prometheus.log)
            meanwhile()
            time.sleep(0.2)

    def stays_quiet(self, seconds: float, expected: set[str]) -> None:
        """Checks for some seconds that no other alert fires."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            assert self.firing() <= expected
            time.sleep(0.5)


@contextmanager
def watched(
    home: Path,
    location: str,
    *options: str,
    thresholds: Mapping[str, str] | None = None,
) -> Iterator[Watched]:
    """Runs an exporter of a checkpoint, which a Prometheus scrapes."""
    port = free_port()
    command = [sys.executable, "-m", "cleancut", "exporter", location, "--port", str(port)]
    command += ["--every", "0.5", "--sizes-every", "1", "--address", "127.0.0.1", *options]
    with ExitStack() as ended:
        log = ended.enter_context((home / "exporter.log").open("wb"))
        process = subprocess.Popen(command, stdout=log, stderr=log)
        ended.callback(process.wait, 30)
        ended.callback(process.terminate)
        until = time.monotonic() + PATIENCE_S
        while not listens(port):
            assert process.poll() is None, (home / "exporter.log").read_text()
            assert time.monotonic() < until
            time.sleep(0.05)
        with scraping(home, port, location, thresholds) as watched:
            yield watched


@contextmanager
def scraping(
    home: Path, port: int, location: str, thresholds: Mapping[str, str] | None = None
) -> Iterator[Watched]:
    """Runs a Prometheus that scrapes a port."""
    prometheus = Prometheus(home / "prometheus", port, thresholds or {})
    try:
        yield Watched(prometheus, location)
    finally:
        prometheus.stop()


@pytest.fixture
def it(spark: SparkSession, tmp_path: Path) -> Epochs:
    """A query with two epochs."""
    query = Epochs(spark, tmp_path, PLACES["cuts"])
    query.add(2)
    query.run()
    return query


def test_an_intact_and_tested_query_fires_no_alert(it: Epochs, tmp_path: Path) -> None:
    Checkpoint(it.checkpoint).test_restore()
    query = it.start()
    try:
        with watched(tmp_path, it.checkpoint, "--budget", "5") as by:
            until = time.monotonic() + PATIENCE_S
            while time.monotonic() < until:
                it.add()
                query.processAllAvailable()
                by.stays_quiet(0.5, expected=set())
    finally:
        query.stop()


def test_a_corrupted_cut_fails_the_scan(it: Epochs, tmp_path: Path) -> None:
    with watched(tmp_path, it.checkpoint) as by:
        it.add()
        (epoch,) = it.run()
        cut = Path(it.checkpoint) / "cleancut" / "cuts" / f"{epoch:020d}.cut"
        by.stays_quiet(3, expected=UNPROVEN)
        it.add()
        (epoch,) = it.run()
        cut = cut.with_name(f"{epoch:020d}.cut")
        cut.write_bytes(b"damaged")
        by.fires("CleancutScanFailed")


def test_a_query_that_has_stopped_commits_nothing(it: Epochs, tmp_path: Path) -> None:
    with watched(tmp_path, it.checkpoint, thresholds={"1800": "10"}) as by:
        by.fires("CleancutNoCut")


def test_a_query_that_fails_at_each_start(it: Epochs, tmp_path: Path) -> None:
    it.add()
    it.broken = True
    with watched(tmp_path, it.checkpoint) as by:

        def start_again() -> None:
            with pytest.raises(StreamingQueryException, match="broken"):
                it.run()

        by.fires("CleancutCutsFail", start_again)


def test_a_store_without_pages_fails_requests(it: Epochs, tmp_path: Path) -> None:
    """A file has the name of their directory, so background tasks fail."""
    (Path(it.checkpoint) / "cleancut" / "pages").write_text("in the way")
    query = it.start()

    def epoch() -> None:
        it.add()
        query.processAllAvailable()

    port = free_port()
    try:
        with (
            serve_metrics(it.running, port=port, address="127.0.0.1"),
            scraping(tmp_path, port, it.checkpoint) as by,
        ):
            by.fires("CleancutRequestsFail", epoch)
    finally:
        query.stop()
    assert it.state() == it.expected(it.files)


class UnalignedQuery:
    """A query with one slow partition, whose rows stay in flight."""

    def __init__(self, spark: SparkSession, home: Path, bound: str, row_ms: int = 20) -> None:
        settings = {
            "spark.sql.shuffle.partitions": "4",
            f"{PREFIX}mode": "unaligned",
            f"{PREFIX}maxInFlightBytes": bound,
        }
        session = session_of(spark, PLACES["cuts"] | settings)
        self.input = SkewedInput(home / "input", seed=5, rows=400, keys=20, hot=0.7)
        self.input.write(0)
        self.files = 1
        self.checkpoint = str(home / "checkpoint")
        rows = self.input.stream(session).dropDuplicates(["key", "number"])
        # The first epoch of a run is aligned.
        is_late = (f.spark_partition_id() == 0) & (f.col("number") >= self.input.rows)
        late = slow("value", per_row_ms=row_ms, when=is_late)

        @sealed
        def take(batch: DataFrame, epoch: int) -> None:
            batch.collect()

        slowed = rows.select("key", "number", late.alias("value"))
        self.query = (
            slowed.writeStream.foreachBatch(take)
            .option("checkpointLocation", self.checkpoint)
            .start()
        )

    def more(self) -> None:
        """Writes one more file."""
        self.input.write(self.files)
        self.files += 1
        time.sleep(0.5)


def test_growing_in_flight_rows(spark: SparkSession, tmp_path: Path) -> None:
    it = UnalignedQuery(spark, tmp_path, "64m")
    try:
        wait_for_epoch(it.checkpoint)
        with watched(tmp_path, it.checkpoint, thresholds={"67108864": "2000"}) as by:
            by.fires("CleancutInFlightGrows", it.more)
    finally:
        it.query.stop()


def test_a_slow_row_makes_cuts_slow(spark: SparkSession, tmp_path: Path) -> None:
    """A capture waits for the row that its task processes."""
    it = UnalignedQuery(spark, tmp_path, "64m", row_ms=2000)
    try:
        wait_for_epoch(it.checkpoint)
        with watched(tmp_path, it.checkpoint, thresholds={"60": "0.3"}) as by:
            by.fires("CleancutCutSlow", it.more)
    finally:
        it.query.stop()


def test_an_overloaded_operator(spark: SparkSession, tmp_path: Path) -> None:
    it = UnalignedQuery(spark, tmp_path, "1k")
    try:
        wait_for_epoch(it.checkpoint)
        with watched(tmp_path, it.checkpoint) as by:
            by.fires("CleancutOperatorOverloaded", it.more)
    finally:
        it.query.stop()


def wait_for_epoch(checkpoint: str) -> None:
    until = time.monotonic() + PATIENCE_S
    cuts = Path(checkpoint) / "cleancut" / "cuts"
    while not list(cuts.glob("*.cut")):
        assert time.monotonic() < until
        time.sleep(0.1)


def test_missing_maintenance_leaves_snapshots_old(tmp_path: Path) -> None:
    answer = run_script(WITHOUT_MAINTENANCE, str(tmp_path))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    with watched(tmp_path, str(tmp_path / "checkpoint"), thresholds={"200": "9"}) as by:
        by.fires("CleancutSnapshotOld")


WITHOUT_MAINTENANCE = """
import sys
from pathlib import Path
from tests.support.file_epochs import Epochs, PLACES
from tests.support.sessions import builder

never = {"maintenanceInterval": "1h", "minDeltasForSnapshot": "100000"}
settings = {f"spark.sql.streaming.stateStore.{name}": value for name, value in never.items()}
it = Epochs(builder("local[2]", settings).getOrCreate(), Path(sys.argv[1]), PLACES["cuts"])
it.add(12)
it.run()
"""


def test_a_restore_that_was_not_tested_for_long(it: Epochs, tmp_path: Path) -> None:
    with watched(tmp_path, it.checkpoint, thresholds={"604800": "10"}) as by:
        by.fires("CleancutRestoreNotTested")
        Checkpoint(it.checkpoint).test_restore()
        until = time.monotonic() + PATIENCE_S
        while "CleancutRestoreNotTested" in by.firing():
            assert time.monotonic() < until
            time.sleep(0.2)
        # And again, when the restore test is old.
        by.fires("CleancutRestoreNotTested")


def test_a_replica_that_lags(it: Epochs, tmp_path: Path) -> None:
    Checkpoint(it.checkpoint).replicate(tmp_path / "copy")
    time.sleep(3)
    it.add(2)
    it.run()
    with watched(tmp_path, it.checkpoint, thresholds={"900": "2"}) as by:
        by.fires("CleancutReplicaLag")


def test_a_query_over_its_budget(it: Epochs, tmp_path: Path) -> None:
    it.add(5)
    it.run()
    with watched(tmp_path, it.checkpoint, "--budget", "0.000001") as by:
        by.fires("CleancutOverBudget")


def test_two_hosts_that_fence_each_other(tmp_path: Path) -> None:
    """Two drivers, one with another host name, are started in turn."""
    if shutil.which("unshare") is None or as_host("probe", ["true"]).wait() != 0:
        pytest.skip("no host can have another name here")
    source = tmp_path / "in"
    SkewedInput(source, seed=8, rows=60).write(0)
    checkpoint = tmp_path / "checkpoint"
    rival = [sys.executable, "-m", "tests.support.rival", "http://127.0.0.1:9"]
    rival += [checkpoint.as_uri(), str(source), str(tmp_path)]
    running: list[subprocess.Popen[bytes]] = []

    def start(host: str | None) -> None:
        before = owners(checkpoint)
        running.append(as_host(host, rival))
        until = time.monotonic() + PATIENCE_S
        while owners(checkpoint) == before:
            assert time.monotonic() < until
            assert running[-1].poll() is None
            time.sleep(0.1)

    try:
        start(None)
        wait_for_epoch(str(checkpoint))
        with watched(tmp_path, str(checkpoint)) as by:
            start("localhost")
            by.stays_quiet(3, expected=UNPROVEN)
            start(None)
            by.fires("CleancutTwoOwners")
    finally:
        (tmp_path / "done").touch()
        for driver in running:
            driver.wait(PATIENCE_S)


def owners(checkpoint: Path) -> int:
    return len(list((checkpoint / "cleancut" / "owners").glob("*.json")))


def as_host(host: str | None, command: list[str]) -> "subprocess.Popen[bytes]":
    """Starts a command, on a host with another name if one is given."""
    quiet = subprocess.DEVNULL
    variables = environment() | {"SPARK_LOCAL_IP": "127.0.0.1"}
    if host is not None:
        command = ["unshare", "--uts", "sh", "-c", f'hostname {host} && exec "$@"', "sh", *command]
    # The process group ends when its standard input is closed.
    return subprocess.Popen(
        command,
        env=variables,
        stdin=subprocess.PIPE,
        stdout=quiet,
        stderr=quiet,
        start_new_session=True,
    )


def test_each_alert_fires_in_a_test() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    (group,) = rules({})["groups"]
    alerts = {alert["alert"] for alert in group["rules"]}
    assert {alert for alert in alerts if f'.fires("{alert}"' not in source} == set()


def test_alerts_of_a_driver(it: Epochs, tmp_path: Path) -> None:
    """`serve_metrics` has the metrics of the alerts, except those that only the store knows."""
    query = it.start()
    try:
        it.add()
        query.processAllAvailable()
        port = free_port()
        with (
            serve_metrics(it.running, port=port, address="127.0.0.1"),
            scraping(tmp_path, port, it.checkpoint, {"1800": "5"}) as by,
        ):
            by.fires("CleancutRestoreNotTested")
            by.fires("CleancutNoCut")
    finally:
        query.stop()
