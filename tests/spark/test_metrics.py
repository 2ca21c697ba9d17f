"""The metrics of a query with cuts in Spark's metrics system."""

import math
import re
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

from cleancut import Checkpoint, coordinator, serve_metrics
from cleancut._checkpoint.read.epoch_info import SLOW_KINDS
from cleancut._checkpoint.read.prices import CLASSES
from cleancut._metrics.catalog import metrics
from cleancut.types import CoordinatorStatus, CutDetails, RestoreTest
from tests.support.documented import blocks
from tests.support.file_epochs import PLACES, Epochs
from tests.support.kills import run_script
from tests.support.patience import PATIENCE_S
from tests.support.tiers import long

pytestmark = pytest.mark.spark

PAGE = "docs/operate/monitoring.md"

# The samples of an endpoint by name and labels.
Scraped = dict[str, dict[frozenset[tuple[str, str]], float]]


def snake(kind: str) -> str:
    return re.sub("([A-Z])", r"_\1", kind).lower()


REPORTED = {metric.name for metric in metrics().values() if "spark" in metric.sources}
KINDS = sorted(map(snake, CLASSES))
# Metrics that change between two reads, count from another moment, or need labels.
VARYING = {metric.name for metric in metrics().values() if metric.type == "counter"} | {
    "slowest_store_duration_seconds",
    "alignment_duration_seconds",
    "barrier_to_capture_duration_seconds",
}


def read_source(spark: SparkSession, name: str) -> dict[str, float]:
    """Returns all metrics of the source with this name; nothing if it does not exist."""
    jvm: Any = spark._jvm
    # By its name only: some of its other methods have types that are not on the class path.
    named = jvm.java.lang.Class.forName
    kind = jvm.java.lang.invoke.MethodType.methodType(
        named("org.apache.spark.metrics.MetricsSystem")
    )
    method = jvm.java.lang.invoke.MethodHandles.publicLookup().findVirtual(
        named("org.apache.spark.SparkEnv"), "metricsSystem", kind
    )
    arguments = jvm.java.util.ArrayList()
    arguments.add(spark.sparkContext._jsc.sc().env())
    sources: Any = method.invokeWithArguments(arguments).getSourcesByName(name)
    if sources.isEmpty():
        return {}
    registry = sources.head().metricRegistry()
    gauges, counters = registry.getGauges(), registry.getCounters()
    return {key: gauges[key].getValue() for key in gauges} | {
        key: counters[key].getCount() for key in counters
    }


def test_metrics_match_the_coordinator_and_the_store(spark: SparkSession, tmp_path: Path) -> None:
    """Compares each declared metric with its origin; restore tests are read in the background."""
    settings = {"spark.sql.streaming.metricsEnabled": "true"}
    it = Epochs(spark, tmp_path, PLACES["cuts"] | settings)
    it.add(2)
    it.run()
    proof = Checkpoint(it.checkpoint).test_restore()
    Checkpoint(it.checkpoint).replicate(tmp_path / "copy")
    it.add()
    query = it.start()
    name, until = f"cleancut.{query.id}", time.monotonic() + PATIENCE_S
    try:
        query.processAllAvailable()
        while (
            math.isnan(read_source(spark, name)["restore_test_epoch"]) and time.monotonic() < until
        ):
            time.sleep(0.05)
        # A read is cached for a second.
        time.sleep(1)
        figures = read_source(spark, name)
        status = coordinator(query).status()
        with serve_metrics(it.running, port=0, address="127.0.0.1") as server:
            scraped = scrape(f"http://127.0.0.1:{server.port}/metrics")
    finally:
        query.stop()
    assert_all_are_reported(figures)
    assert_metrics_of_epochs(figures, status, Checkpoint(it.checkpoint).cut(), proof)
    assert_metrics_of_requests(figures, status)
    assert figures["state_rows"] == len(it.expected(3))
    assert figures["state_memory_bytes"] > 0
    assert_metrics_with_labels(
        scraped, figures, {"query": str(query.id), "location": status.location}
    )
    while read_source(spark, name) and time.monotonic() < until:
        time.sleep(0.05)
    assert read_source(spark, name) == {}


def assert_all_are_reported(figures: Mapping[str, float]) -> None:
    kinds = {name for name in figures if name not in REPORTED}
    assert {name for name in REPORTED if name not in figures} == set()
    assert kinds == {
        f"request{what}_{kind}_total" for what in ("s", "_retries", "_failures") for kind in KINDS
    } | {f"slow_epochs_{cause.replace('-', '_')}_total" for cause in SLOW_KINDS}


def assert_metrics_of_epochs(
    figures: Mapping[str, float], status: CoordinatorStatus, cut: CutDetails, proof: RestoreTest
) -> None:
    last = status.last
    assert last is not None
    assert (figures["committed_epoch"], figures["epochs_total"]) == (2, 1)
    assert figures["last_commit_timestamp_seconds"] == cut.info.written.timestamp()
    assert figures["epoch_duration_seconds"] * 1000 == pytest.approx(last.duration_ms)
    assert figures["commit_duration_seconds"] * 1000 == pytest.approx(last.commit_ms)
    assert figures["cut_write_duration_seconds"] * 1000 == pytest.approx(last.cut_ms)
    assert figures["cut_lag_seconds"] * 1000 == pytest.approx(last.cut_lag_ms)
    assert last.slowest is not None
    assert figures["slowest_store_duration_seconds"] * 1000 == pytest.approx(last.slowest[0].ms)
    assert (figures["stores"], figures["executors"]) == (3, status.executor_count)
    assert (figures["owner_generation"], figures["aligned_operators"]) == (2, len(status.aligned))
    assert (figures["in_flight_rows"], figures["in_flight_bytes"]) == (0, 0)
    assert (figures["in_flight_over_limit_rows"], figures["overloaded_operators"]) == (0, 0)
    assert math.isnan(figures["barrier_to_capture_duration_seconds"])
    assert figures["restore_test_timestamp_seconds"] == proof.tested.timestamp()
    assert (figures["restore_test_epoch"], figures["epochs_since_restore_test"]) == (1, 1)
    assert figures["replica_lag_epochs"] == 1
    assert 0 < figures["replica_lag_seconds"] < time.monotonic()
    chains = [store.chain for store in cut.stores]
    assert figures["longest_chain_frames"] == max(map(len, chains))
    bases = [chain[0].version if chain[0].kind == "snapshot" else 0 for chain in chains]
    assert figures["oldest_snapshot_age_epochs"] == cut.info.version - min(bases)
    assert figures["chain_bytes"] == cut.info.bytes


def assert_metrics_of_requests(figures: Mapping[str, float], status: CoordinatorStatus) -> None:
    # Maintenance may write a base after the last read.
    for kind, count in status.requests.items():
        assert 0 < figures[f"requests_{snake(kind)}_total"] <= count.requests
    assert figures["requests_total"] == sum(figures[f"requests_{kind}_total"] for kind in KINDS)
    assert (figures["request_retries_total"], figures["request_failures_total"]) == (0, 0)
    written = status.driver + status.executors
    assert 0 < figures["frames_total"] <= written.frames
    assert 0 < figures["segments_total"] <= written.segments
    assert 0 < figures["segment_bytes_total"] <= written.segment_bytes
    assert 0 < figures["sent_bytes_total"] <= written.bytes_sent
    assert 0 < figures["received_bytes_total"] <= written.bytes_received


def assert_metrics_with_labels(
    scraped: Scraped, figures: Mapping[str, float], here: Mapping[str, str]
) -> None:
    # The driver's endpoint has labels, and no sample for absent values.
    driver_metrics = {
        metric.name: metric for metric in metrics().values() if "driver" in metric.sources
    }
    for metric in driver_metrics.values():
        values = scraped.get(f"cleancut_{metric.name}", {})
        if metric.name in figures and metric.name not in VARYING:
            labelled = sum(values.values()) if metric.labels else values[frozenset(here.items())]
            assert labelled == pytest.approx(figures[metric.name], nan_ok=True), metric.name
    assert set(scraped) <= {f"cleancut_{name}" for name in driver_metrics}
    assert scraped["cleancut_scan_success"] == {frozenset({("location", "driver")}): 1}


def test_the_documented_server_serves(spark: SparkSession, tmp_path: Path) -> None:
    """Also without a running query, and only until it is closed."""
    (code,) = blocks(PAGE, "python")
    serving, closing = code.replace("9465", "0").split("server.close()")
    names: dict[str, Any] = {}
    exec(serving, names)
    url = f"http://127.0.0.1:{names['server'].port}/metrics"
    assert set(scrape(url)) == {"cleancut_scan_success", "cleancut_last_scan_timestamp_seconds"}
    exec(f"server.close(){closing}", names)
    with pytest.raises(urllib.error.URLError, match="refused"):
        scrape(url)


def scrape(url: str) -> Scraped:
    """Returns the samples of an endpoint by name and labels."""
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        text = answer.read().decode()
    samples: Scraped = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples[sample.name][frozenset(sample.labels.items())] = sample.value
    return samples


def test_a_process_reports_the_memory_of_its_state(spark: SparkSession, tmp_path: Path) -> None:
    it = Epochs(spark, tmp_path, PLACES["cuts"])
    it.add()
    it.run()
    figures = read_source(spark, "cleancut")
    assert set(figures) == {
        metric.name for metric in metrics().values() if "process" in metric.sources
    }
    assert 0 < figures["memory_resident_bytes"] <= figures["memory_limit_bytes"]
    assert figures["memory_mapped_bytes"] >= 0


@long
def test_metrics_require_streaming_metrics_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    it = Epochs(spark, tmp_path, PLACES["cuts"])
    it.add()
    query = it.start()
    try:
        query.processAllAvailable()
        assert read_source(spark, f"cleancut.{query.id}") == {}
    finally:
        query.stop()


@long
def test_sparks_own_sinks_have_the_metrics_of_driver_and_executors(tmp_path: Path) -> None:
    """On a cluster: the driver's Prometheus endpoint over HTTP, and a file sink in each process."""
    answer = run_script(ON_CLUSTER, str(tmp_path))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    scraped = {}
    for line in (tmp_path / "scraped").read_text().splitlines():
        name, _, value = line.rpartition(" ")
        scraped[name.partition("{")[0]] = float(value)
    prefix = "metrics_delays_driver_cleancut_counts_"
    figures = {
        name.removeprefix(prefix): value for name, value in scraped.items() if prefix in name
    }
    for metric in metrics().values():
        if "spark" in metric.sources:
            suffix = "Count" if metric.type == "counter" else "Value"
            assert f"{metric.name}_{suffix}" in figures
    assert (figures["committed_epoch_Value"], figures["epochs_total_Count"]) == (1, 2)
    assert figures["stores_Value"] == 3
    assert figures["executors_Value"] == 2
    # The driver of a cluster keeps no state.
    told_by = {path.name.split(".")[1] for path in (tmp_path / "csv").glob("*cleancut.memory*")}
    assert {"0", "1"} <= told_by
    for executor in ("0", "1"):
        rows = (tmp_path / "csv" / f"delays.{executor}.cleancut.memory_limit_bytes.csv").read_text()
        assert int(rows.splitlines()[-1].split(",")[1]) > 0


ON_CLUSTER = """
import sys, time, urllib.request
from pathlib import Path
from tests.spark.test_metrics import PAGE
from tests.support.documented import blocks
from tests.support.file_epochs import Epochs, PLACES
from tests.support.patience import wait_until
from tests.support.sessions import builder

home = Path(sys.argv[1])
(home / "csv").mkdir()
sinks = {
    "*.sink.csv.class": "org.apache.spark.metrics.sink.CsvSink",
    "*.sink.csv.period": "1",
    "*.sink.csv.directory": str(home / "csv"),
}
made = builder("local-cluster[2,1,1024]").config("spark.ui.enabled", "true")
made = made.config("spark.ui.port", "0")
for line in blocks(PAGE, "properties")[0].splitlines():
    made = made.config(*line.split())
for key, value in sinks.items():
    made = made.config(f"spark.metrics.conf.{key}", value)
spark = made.getOrCreate()
it = Epochs(spark, home, PLACES["cuts"])
it.name = "counts"
it.add(2)
query = it.start()
query.processAllAvailable()

def has_told(executor):
    path = home / "csv" / f"delays.{executor}.cleancut.memory_limit_bytes.csv"
    lines = path.read_text().splitlines() if path.exists() else []
    return len(lines) > 1 and int(lines[-1].split(",")[1]) > 0

wait_until(lambda: has_told(0) and has_told(1))
# Metrics are cached for a second.
time.sleep(1)
with urllib.request.urlopen(f"{spark.sparkContext.uiWebUrl}/metrics/prometheus/") as answer:
    (home / "scraped").write_bytes(answer.read())
query.stop()
spark.stop()
"""
