"""The exporter, on checkpoints that grow between scans."""

import gzip
import json
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cleancut import Checkpoint, RequestError
from cleancut._checkpoint.read.epoch_info import SLOW_KINDS
from cleancut._checkpoint.read.prices import PRICES
from cleancut._checkpoint.read.root import Root, open_root
from cleancut._cli import main as _cli
from cleancut._metrics.catalog import metrics
from cleancut._metrics.checkpoint_scan import CheckpointScan
from cleancut._metrics.otlp import push
from cleancut._metrics.prometheus import exposition, serve
from cleancut._metrics.samples import Sample
from cleancut._metrics.scans import Scans
from tests.support.patience import PATIENCE_S
from tests.unit.checkpoint_files import CheckpointFiles
from tests.unit.cut_files import CutFiles
from tests.unit.test_cli import run
from tests.unit.test_history_records import History, record
from tests.vectors.cut_writer import QUERY_ID, WRITTEN_MS, costs

NOW_S = WRITTEN_MS / 1000 + 60
OVERTAKEN = {
    "operator": 0,
    "partition": 1,
    "store": "cleancut-channel-0",
    "rows": 50,
    "digest": "0" * 16,
    "rowsInFlight": 20,
    "digestInFlight": "0" * 16,
    "bytesInFlight": 640,
    "rowsReplayed": 0,
    "rowsBeyondBound": 7,
    "arrivedMs": 900,
    "overtakenMs": 400,
}
ARRIVED = OVERTAKEN | {
    "partition": 0,
    "rowsInFlight": 0,
    "bytesInFlight": 0,
    "rowsBeyondBound": 0,
    "arrivedMs": 100,
}
ARRIVED.pop("overtakenMs")


class Clock:
    def __init__(self) -> None:
        self.s = NOW_S

    def __call__(self) -> float:
        return self.s


class Counted:
    """The objects of a checkpoint, with a counter of requests by operation and directory."""

    def __init__(self, root: Root) -> None:
        self._objects = root.objects
        self.requests: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        # The path is no request.
        if name == "path":
            return self._objects.path

        def call(*arguments: Any) -> Any:
            self.requests[f"{name} {arguments[0].partition('/')[0]}"] += 1
            return getattr(self._objects, name)(*arguments)

        return call


def commit(cuts: CutFiles, **fields: Any) -> int:
    """Commits one more epoch, a second after the previous one."""
    written = WRITTEN_MS + 1000 * cuts.epoch
    timings = {"epochMs": 700, "gateMs": 30, "previousCutMs": 21}
    measured = {"timings": timings, "costs": costs(), "writtenMs": written}
    return cuts.commit(([], 0), ([], 0), **measured | fields)


def scan_of(cuts: CutFiles, clock: Clock, **options: Any) -> tuple[CheckpointScan, Counted]:
    root = open_root(cuts.location)
    counted = Counted(root)
    watched = Root(root.location, counted)
    return CheckpointScan(watched, sizes_every_s=600, clock=clock, **options), counted


def values(samples: Any, **labels: str) -> dict[str, float]:
    """Returns the samples with these labels in addition to those of the query, by metric."""
    values = {}
    for sample in samples:
        rest = {
            name: sample.labels[name] for name in sample.labels if name not in ("query", "location")
        }
        if rest == labels:
            assert sample.metric not in values
            values[sample.metric] = sample.value
    return values


@pytest.fixture
def cuts(files: CheckpointFiles) -> CutFiles:
    """Three epochs."""
    return three_epochs(CutFiles(files))


def three_epochs(cuts: CutFiles) -> CutFiles:
    for _ in range(3):
        commit(cuts)
    return cuts


def owner(cuts: CutFiles, generation: int, host: str, started_s: float) -> None:
    note = {"generation": generation, "runId": "r", "host": host}
    note["startedMs"] = round(started_s * 1000)
    cuts.write(f"owners/{generation:020d}.json", json.dumps(note).encode())


def test_a_scan_reports_the_last_epoch(files: CheckpointFiles) -> None:
    cuts = three_epochs(CutFiles(files))
    commit(cuts, channels=[OVERTAKEN, ARRIVED])
    scan, _ = scan_of(cuts, Clock(), budget=5.0)
    samples = scan.scan()
    info, history = Checkpoint(cuts.location).cut().info, Checkpoint(cuts.location).history()
    assert {sample.labels["query"] for sample in samples} == {QUERY_ID}
    assert {sample.labels["location"] for sample in samples} == {str(cuts.location)}
    plain = values(samples)
    assert (plain["committed_epoch"], plain["stores"]) == (3, 2)
    assert plain["last_commit_timestamp_seconds"] == WRITTEN_MS / 1000 + 3
    assert (plain["epoch_duration_seconds"], plain["commit_duration_seconds"]) == (0.7, 0.03)
    assert (plain["cut_write_duration_seconds"], plain["cut_lag_seconds"]) == (0.021, 0.051)
    assert plain["executors"] == costs()["executors"]["count"]
    assert (plain["overloaded_operators"], plain["budget_dollars_per_day"]) == (1, 5)
    assert (plain["epochs_since_restore_test"], "restore_test_epoch" in plain) == (4, False)
    assert plain["stored_bytes"] == open_root(cuts.location).stored_bytes()
    operator = values(samples, operator="0")
    assert operator == {
        "alignment_duration_seconds": 0.8,
        "barrier_to_capture_duration_seconds": 0.5,
        "in_flight_rows": 20,
        "in_flight_bytes": 640,
        "in_flight_over_limit_rows": 7,
    }
    slowest = history[-1].slowest
    assert slowest is not None
    stores = values(samples, operator="0", store="default")
    assert stores["slowest_store_duration_seconds"] == slowest[0].ms / 1000
    assert (stores["longest_chain_frames"], stores["oldest_snapshot_age_epochs"]) == (4, 4)
    assert stores["chain_bytes"] == info.bytes
    for prices, expected in zip(PRICES, Checkpoint(cuts.location).cost_per_day(), strict=True):
        figures = values(samples, prices=prices.name)
        assert figures == {"cost_dollars_per_day": pytest.approx(expected.usd)}


def test_counters_start_at_the_first_scan(cuts: CutFiles) -> None:
    scan, _ = scan_of(cuts, Clock())
    first = values(scan.scan())
    counters = {
        metric.name
        for metric in metrics().values()
        if metric.type == "counter" and not metric.labels
    }
    assert {name: first[name] for name in counters} == dict.fromkeys(counters, 0)
    commit(cuts)
    # A cut of a release without counters.
    cuts.commit(([], 0), ([], 0))
    samples = scan.scan()
    used = Checkpoint(cuts.location).cut(3).costs
    assert used is not None
    plain = values(samples)
    assert plain["epochs_total"] == 2
    assert plain["segments_total"] == used.all.segments
    assert plain["segment_bytes_total"] == used.all.segment_bytes
    assert plain["sent_bytes_total"] == used.all.bytes_sent
    assert plain["received_bytes_total"] == used.all.bytes_received
    for kind, count in used.all.requests.items():
        assert values(samples, kind=kind) == {
            "requests_total": count.requests,
            "request_retries_total": count.retries,
            "request_failures_total": count.failures,
        }


def test_slow_epochs_are_counted_by_cause(cuts: CutFiles) -> None:
    """As the driver records them: after the first scanned cut, and each once."""
    history = History(cuts.root)
    history.write([record(epoch) for epoch in range(3)])
    scan, counted = scan_of(cuts, Clock())
    samples = scan.scan()
    assert "read history" not in counted.requests
    for cause in SLOW_KINDS:
        assert values(samples, cause=cause) == {"slow_epochs_total": 0}
    notes = [record(epoch) for epoch in (3, 4)]
    (gate, calm) = (record(5), record(6))
    gate["slow"] = gate["slow"] | {"kind": "commit"}
    del calm["slow"]
    history.write(notes)
    last = history.write([gate, calm])
    samples = scan.scan()
    assert values(samples, cause="straggler") == {"slow_epochs_total": 2}
    assert values(samples, cause="commit") == {"slow_epochs_total": 1}
    # History files are merged, and one more epoch is slow.
    last.unlink()
    later = record(7)
    later["slow"] = later["slow"] | {"kind": "of a later release"}
    history.write([*notes, gate, calm, later])
    first = counted.requests.copy()
    samples = scan.scan()
    assert (counted.requests - first)["read history"] == 1
    assert values(samples, cause="straggler") == {"slow_epochs_total": 2}
    assert values(samples, cause="of a later release") == {"slow_epochs_total": 1}
    counted.requests.clear()
    scan.scan()
    assert "read history" not in counted.requests


def test_objects_are_read_once(cuts: CutFiles) -> None:
    clock = Clock()
    owner(cuts, 1, "one", NOW_S)
    scan, counted = scan_of(cuts, clock)
    scan.scan()
    assert counted.requests["read cuts"] == 3
    first = counted.requests.copy()
    clock.s += 60
    scan.scan()
    listings = {"list cuts": 1, "list history": 1, "list proofs": 1, "list replicas": 1}
    quiet = {**listings, "read owners": 1}
    assert counted.requests - first == quiet
    commit(cuts)
    first = counted.requests.copy()
    scan.scan()
    assert counted.requests - first == {**quiet, "read cuts": 1}
    # Chains and sizes are read in turn.
    clock.s += 600
    first = counted.requests.copy()
    scan.scan()
    assert (counted.requests - first)["list segments"] == 1


def test_restore_tests_replicas_and_owners_are_reported(cuts: CutFiles, tmp_path: Path) -> None:
    clock = Clock()
    for generation, host in enumerate(["one", "two", "one"], 1):
        owner(cuts, generation, host, NOW_S - 700 + 100 * generation)
    scan, _ = scan_of(cuts, clock)
    plain = values(scan.scan())
    assert (plain["owner_generation"], plain["owner_hosts"]) == (3, 2)
    proof = Checkpoint(cuts.location).test_restore()
    Checkpoint(cuts.location).replicate(tmp_path / "copy")
    commit(cuts)
    commit(cuts)
    clock.s += 300
    owner(cuts, 4, "one", clock.s)
    samples = scan.scan()
    plain = values(samples)
    assert (plain["restore_test_epoch"], plain["epochs_since_restore_test"]) == (2, 2)
    assert plain["restore_test_timestamp_seconds"] == proof.tested.timestamp()
    # A takeover more than ten minutes ago is no rivalry.
    assert (plain["owner_generation"], plain["owner_hosts"]) == (4, 1)
    assert values(samples, replica=str(tmp_path / "copy")) == {
        "replica_lag_epochs": 2,
        "replica_lag_seconds": 2,
    }


def test_a_scan_reports_each_metric_of_the_exporter(cuts: CutFiles, tmp_path: Path) -> None:
    Checkpoint(cuts.location).test_restore()
    Checkpoint(cuts.location).replicate(tmp_path / "copy")
    owner(cuts, 1, "one", NOW_S)
    scan, _ = scan_of(cuts, Clock(), budget=1)
    scans = Scans([scan])
    scans.run()
    commit(cuts, channels=[OVERTAKEN, ARRIVED])
    scans.run()
    declared = [metric for metric in metrics().values() if "exporter" in metric.sources]
    assert {sample.metric for sample in scans.samples()} == {metric.name for metric in declared}
    shown = exposition(scans.samples())
    helped = [f"# HELP cleancut_{metric.name} {metric.help}" for metric in declared]
    assert [line for line in shown.splitlines() if line.startswith("# HELP")] == helped


def test_a_failed_scan_keeps_the_last_samples(cuts: CutFiles) -> None:
    clock = Clock()
    failures: list[tuple[str, Any]] = []
    scan, _ = scan_of(cuts, clock)
    scans = Scans([scan], lambda location, error: failures.append((location, error)), clock)
    assert scans.run()
    epoch = commit(cuts)
    path = cuts.root / f"cuts/{epoch:020d}.cut"
    sound = path.read_bytes()
    path.write_bytes(sound[:-1])
    clock.s += 60
    assert not scans.run()
    ((location, error),) = failures
    assert (location, error.error_id) == (str(cuts.location), "CLEANCUT_CUT_CORRUPTED")
    plain = values(scans.samples())
    assert (plain["scan_success"], plain["committed_epoch"]) == (0, 2)
    assert plain["last_scan_timestamp_seconds"] == NOW_S
    path.write_bytes(sound)
    assert scans.run()
    plain = values(scans.samples())
    assert (plain["scan_success"], plain["committed_epoch"]) == (1, 3)
    assert plain["last_scan_timestamp_seconds"] == NOW_S + 60


def test_a_checkpoint_is_reported_from_its_first_cut_on(files: CheckpointFiles) -> None:
    cuts = CutFiles(files)
    scan, _ = scan_of(cuts, Clock())
    assert values(scan.scan()).get("committed_epoch") is None
    commit(cuts)
    assert values(scan.scan())["committed_epoch"] == 0


def scraped(port: int) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
        text = answer.read().decode()
    return parsed(text)


def parsed(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_scrape_has_all_samples_in_prometheus_form() -> None:
    odd = 's3://bucket/a "quoted"\\path\n'
    samples = [
        Sample("committed_epoch", 7, {"query": "q", "location": odd}),
        Sample("requests_total", 12, {"query": "q", "location": odd, "kind": "put"}),
    ]
    here = frozenset({("query", "q"), ("location", odd)})
    with serve(lambda: samples, "127.0.0.1", 0) as server:
        scrape = scraped(server.port)
        with pytest.raises(RequestError, match="CLEANCUT_METRICS_BIND_FAILED"):
            serve(lambda: samples, "127.0.0.1", server.port)
    assert scrape == {
        ("cleancut_committed_epoch", here): 7,
        ("cleancut_requests_total", here | {("kind", "put")}): 12,
    }
    with pytest.raises(urllib.error.URLError, match="refused"):
        scraped(server.port)


@pytest.mark.parametrize("options", [["--port", "99999"], ["--address", "192.0.2.1"]])
def test_an_address_in_use_is_reported(
    cuts: CutFiles, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    status, printed, error = run(capsys, "exporter", str(cuts.location), *options)
    assert (status, printed) == (_cli.REFUSED, "")
    assert error.startswith("[CLEANCUT_METRICS_BIND_FAILED] Metrics cannot be served at ")
    assert error.count("\n") == 5


def test_the_command_serves_new_epochs_until_it_is_stopped(cuts: CutFiles) -> None:
    command = [sys.executable, "-m", "cleancut", "exporter", str(cuts.location)]
    options = ["--every", "0.1", "--address", "127.0.0.1", "--port", "0"]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        announced = re.fullmatch(
            r"serving http://127\.0\.0\.1:(\d+)/metrics\n", process.stdout.readline()
        )
        assert announced is not None
        commit(cuts)
        here = frozenset({("query", QUERY_ID), ("location", str(cuts.location))})
        until = time.monotonic() + PATIENCE_S
        while scraped(int(announced[1])).get(("cleancut_committed_epoch", here)) != 3:
            assert time.monotonic() < until
            time.sleep(0.05)
        process.terminate()
        assert process.wait(PATIENCE_S) == _cli.OK
    finally:
        process.kill()
        process.wait()


def test_the_command_prints_the_samples_of_a_scrape_once(
    cuts: CutFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    status, printed, error = run(capsys, "exporter", str(cuts.location), "--once")
    assert (status, error) == (_cli.OK, "")
    here = frozenset({("query", QUERY_ID), ("location", str(cuts.location))})
    assert parsed(printed)["cleancut_committed_epoch", here] == 2
    (cuts.root / f"cuts/{2:020d}.cut").write_bytes(b"")
    status, printed, error = run(capsys, "exporter", str(cuts.location), "--once")
    assert (status, error.count("CLEANCUT_CUT_CORRUPTED")) == (_cli.DAMAGED, 1)
    failed = frozenset({("location", str(cuts.location))})
    assert parsed(printed) == {("cleancut_scan_success", failed): 0}


def test_a_location_without_checkpoint_is_refused_before_serving(
    cuts: CutFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = _cli.main(["exporter", str(cuts.location), str(tmp_path / "none"), "--port", "0"])
    printed = capsys.readouterr()
    assert (status, printed.out) == (_cli.REFUSED, "")
    assert printed.err.count("CLEANCUT_CHECKPOINT_NOT_FOUND") == 1


@pytest.mark.parametrize(
    "options",
    [
        ["exporter", "here", "--every", "0"],
        ["exporter", "here", "--sizes-every", "-1"],
        ["exporter", "here", "--budget", "five"],
        ["exporter"],
        ["exporter", "here", "--spans"],
        ["exporter", "here", "--spans", "--once"],
        ["top", "here", "--every", "inf"],
        ["top", "here", "--rows", "0"],
        ["top", "here", "--sort", "stars"],
    ],
)
def test_options_without_effect_are_refused(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        _cli.main(options)
    assert raised.value.code == _cli.REFUSED
    assert capsys.readouterr().err.startswith("[CLEANCUT_COMMAND_INVALID]")


@contextmanager
def collector(path: str = "/v1/metrics") -> Iterator[tuple[str, list[bytes]]]:
    """A server that accepts OTLP over HTTP, and the bodies sent to a path."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # its base class calls it so
            body = self.rfile.read(int(self.headers["Content-Length"]))
            packed = self.headers.get("Content-Encoding") == "gzip"
            if self.path == path:
                bodies.append(gzip.decompress(body) if packed else body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", bodies
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_collector_receives_the_same_values(cuts: CutFiles) -> None:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
        ExportMetricsServiceRequest,
    )

    scan, _ = scan_of(cuts, Clock())
    scans = Scans([scan])
    scans.run()
    commit(cuts)
    scans.run()
    with collector() as (url, bodies), push(scans.samples, url, every_s=0.2):
        until = time.monotonic() + PATIENCE_S
        while not bodies and time.monotonic() < until:
            time.sleep(0.05)
    message = ExportMetricsServiceRequest.FromString(bodies[-1])
    (resource,) = message.resource_metrics
    named = {
        attribute.key: attribute.value.string_value for attribute in resource.resource.attributes
    }
    assert named["service.name"] == "cleancut"
    figures = {}
    for metric in resource.scope_metrics[0].metrics:
        data = metric.sum if metric.HasField("sum") else metric.gauge
        assert metric.HasField("sum") == (f"{metric.name}_total" in expected_counters())
        suffix = "_total" if metric.HasField("sum") else ""
        for point in data.data_points:
            labels = frozenset(
                (attribute.key, attribute.value.string_value) for attribute in point.attributes
            )
            value = point.as_double if point.HasField("as_double") else point.as_int
            figures[f"{metric.name}{suffix}", labels] = value
    assert figures == parsed(exposition(scans.samples()))


def expected_counters() -> set[str]:
    return {f"cleancut_{metric.name}" for metric in metrics().values() if metric.type == "counter"}
