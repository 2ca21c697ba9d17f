"""The metrics that a driver serves, over a fake JVM that answers like the Scala side."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cleancut import RequestError, serve_metrics
from cleancut._metrics.catalog import metrics
from cleancut._query import metrics_server
from cleancut._query.metrics_server import DriverScan, of_status
from cleancut.errors import error_of
from tests.unit.test_coordinator import Facade, coordinator
from tests.unit.test_exporter import scraped, values
from tests.vectors.cut_writer import WRITTEN_MS

ID = "b3a7c9d2-51f0-4c8e-8f7a-2d9e4b6c1a05"


@pytest.fixture
def facade(monkeypatch: pytest.MonkeyPatch) -> Facade:
    """The facade of the one query with cuts; the other query has none."""
    facade = Facade(42)

    def connect(query: Any) -> Any:
        if query.id != ID:
            raise error_of("CLEANCUT_COORDINATOR_MISSING", location="elsewhere")
        return coordinator(facade)

    monkeypatch.setattr("cleancut._query.coordinator._known_notes", {})
    monkeypatch.setattr(metrics_server, "coordinator", connect)
    return facade


@pytest.fixture
def session(facade: Facade) -> Any:
    queries = [SimpleNamespace(id="without cuts"), SimpleNamespace(id=ID)]
    return SimpleNamespace(streams=SimpleNamespace(active=queries))


def test_a_query_with_cuts_has_all_metrics(session: Any, facade: Facade) -> None:
    scan = DriverScan(session)
    samples = scan.scan()
    assert {(sample.labels["query"], sample.labels["location"]) for sample in samples} == {
        (ID, "s3://bucket/q/cleancut")
    }
    plain = values(samples)
    assert (plain["committed_epoch"], plain["epochs_total"]) == (42, 0)
    assert (plain["stores"], plain["owner_generation"]) == (9, 3)
    assert plain["last_commit_timestamp_seconds"] == WRITTEN_MS / 1000
    assert (plain["epoch_duration_seconds"], plain["cut_write_duration_seconds"]) == (0.8, 0.021)
    assert plain["cut_lag_seconds"] == 0.071
    assert (plain["executors"], plain["aligned_operators"]) == (2, 1)
    assert plain["unreadable_savepoints"] == 1
    assert (plain["restore_test_epoch"], plain["epochs_since_restore_test"]) == (41, 1)
    assert plain["restore_test_timestamp_seconds"] == 7
    assert (plain["sent_bytes_total"], plain["segments_total"]) == (11, 4)
    assert values(samples, kind="put") == {
        "requests_total": 11,
        "request_retries_total": 2,
        "request_failures_total": 1,
    }
    assert values(samples, replica="/copy") == {
        "replica_lag_epochs": 2,
        "replica_lag_seconds": 2.5,
    }
    assert values(samples, cause="commit") == {"slow_epochs_total": 2}
    assert values(samples, cause="upload") == {"slow_epochs_total": 0}
    facade.committed = [44]
    assert values(scan.scan())["epochs_total"] == 2
    reported = {sample.metric for sample in samples} | {
        "scan_success",
        "last_scan_timestamp_seconds",
        "parked_timestamp_seconds",
    }
    assert reported == {metric.name for metric in metrics().values() if "driver" in metric.sources}


def test_a_query_has_no_metrics_before_its_first_epoch_and_after_its_end(
    session: Any, facade: Facade
) -> None:
    facade.committed = [None]
    assert DriverScan(session).scan() == []
    session.streams.active = []
    assert DriverScan(session).scan() == []


def test_a_run_that_waits_to_take_over_has_one_metric(session: Any, facade: Facade) -> None:
    scan = DriverScan(session)
    for is_standby, role in ((False, "successor"), (True, "standby")):
        facade.parked = {"parkedSinceMs": 5000, "isStandby": is_standby}
        samples = scan.scan()
        assert values(samples, role=role) == {"parked_timestamp_seconds": 5}
        assert len(samples) == 1
        assert samples[0].labels["query"] == ID
    facade.parked = {}
    assert "committed_epoch" in values(scan.scan())


def test_a_run_without_commits_reports_the_last_epoch(facade: Facade) -> None:
    status = replace(coordinator(facade).status(), last=None)
    plain = values(of_status(status, first=40))
    assert (plain["committed_epoch"], plain["epochs_total"]) == (42, 2)
    assert "epoch_duration_seconds" not in plain


def test_each_scrape_queries_the_driver_and_reports_failures(session: Any, facade: Facade) -> None:
    here = frozenset({("query", ID), ("location", "s3://bucket/q/cleancut")})
    success = "cleancut_scan_success", frozenset({("location", "driver")})
    with serve_metrics(session, port=0, address="127.0.0.1") as server:
        assert repr(server) == f"MetricsServer(port={server.port})"
        assert scraped(server.port)["cleancut_committed_epoch", here] == 42
        facade.committed = [43]
        samples = scraped(server.port)
        assert (samples["cleancut_committed_epoch", here], samples[success]) == (43, 1)

        def fail(location: str, session: Any) -> str:
            raise error_of("CLEANCUT_OBJECT_STORE_UNAVAILABLE", location="s3://bucket")

        facade.status = fail  # type: ignore[method-assign]
        samples = scraped(server.port)
        assert (samples["cleancut_committed_epoch", here], samples[success]) == (43, 0)


def test_a_missing_session_and_a_port_in_use_are_refused(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_server, "running_session", lambda: None)
    monkeypatch.setattr(metrics_server, "client_session", lambda: None)
    with pytest.raises(RequestError, match="CLEANCUT_SESSION_MISSING"):
        serve_metrics(port=0)
    with (
        serve_metrics(session, port=0, address="127.0.0.1") as server,
        pytest.raises(RequestError, match="CLEANCUT_METRICS_BIND_FAILED"),
    ):
        serve_metrics(session, port=server.port, address="127.0.0.1")
