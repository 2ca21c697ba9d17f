"""The Python side of the coordinator, over a fake JVM that answers like the Scala side."""

import json
import re
import time
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from cleancut._checkpoint.replicate.records import RestoreTestStatus
from cleancut._format.cut.costs import RequestCount
from cleancut._provider import PROVIDER_CLASS
from cleancut._query.coordinator import Coordinator, EpochProgress
from cleancut._query.coordinator import coordinator as coordinator_of
from cleancut.errors import RequestError, error_of
from tests.support.patience import PATIENCE_S
from tests.vectors.cut_writer import WRITTEN_MS, channels, costs, share

LOCATION = "s3://bucket/q"
SESSION = object()
IN_FLIGHT = {"operator": 0, "channel": "cleancut-channel-0", "rows": 20, "of": 50}


class Facade:
    """Answers the calls of `io.cleancut.CleancutCoordinator` and records them."""

    def __init__(self, *committed: int | None) -> None:
        self.committed = list(committed)
        self.calls: list[tuple[Any, ...]] = []
        self.is_down = False
        # Fields of a run that waits to take over.
        self.parked: dict[str, Any] = {}

    def status(self, location: str, session: Any) -> str:
        assert session is SESSION
        committed = self.committed.pop(0) if len(self.committed) > 1 else self.committed[0]
        status: dict[str, Any] = {
            "location": f"{location}/cleancut",
            "slowest": [],
            "driver": share({"put": (7, 2, 1)}, bytesSent=11, bytesReceived=13),
            "executors": share({"put": (4, 0, 0), "getRange": (3, 1, 0)}, segments=4),
            "executorCount": 2,
            "inFlight": [],
            "aligned": {},
            "overloaded": {},
            "pysparkLoop": {},
            "unpipelined": "pipelinedCuts is false",
            "unreadableSavepoints": [],
            "slow": {"counts": {}},
        } | self.parked
        if self.parked:
            status["committed"] = committed
        elif committed is not None:
            status |= {"runId": "r", "generation": 3, "committed": committed}
            status["epoch"] = {
                "epoch": committed + 1,
                "attempts": 5,
                "complete": 4,
                "failed": 1,
                "stores": 9,
                "reported": 8,
            }
            status["slowest"] = costs()["slowest"]
            status["last"] = {
                "epoch": committed,
                "generation": 3,
                "writtenMs": WRITTEN_MS,
                "stores": 9,
                "timings": {"epochMs": 800, "gateMs": 50},
                "costs": costs(),
                "channels": channels(),
                "cutMs": 21,
            }
            status["inFlight"] = [IN_FLIGHT | {"partition": at} for at in (0, 5)]
            status["aligned"] = {"1": "limit is not captured yet"}
            status["overloaded"] = {"0": "7 rows did not stay in flight"}
            status["pysparkLoop"] = {"2": "it processes its initial state"}
            broken = {"name": "early", "detail": "its page is gone.", "lastEpoch": 4}
            status["unreadableSavepoints"] = [broken]
            last = {"epoch": 40, "kind": "commit", "typicalMs": 90, "detail": "its commit"}
            status["slow"] = {"counts": {"commit": 2, "input": 1}, "last": last}
        return json.dumps(status)

    def notes(self, location: str, session: Any) -> str:
        self.calls.append(("notes", location))
        if self.is_down:
            raise error_of("CLEANCUT_COORDINATOR_MISSING", location=location)
        names = [f"{41:020d}-{7000:020d}.json", f"{9:020d}-{9000:020d}.json", "a stranger"]
        copy = {"location": "/copy", "epoch": 40, "writtenMs": WRITTEN_MS - 2500, "copiedMs": 8000}
        return json.dumps({"proofs": names, "replicas": [json.dumps(copy), "{}", "no JSON"]})

    def pin(self, *arguments: Any) -> None:
        self.calls.append(arguments)

    def cutNow(self, *arguments: Any) -> bool:  # noqa: N802  (its name in Scala)
        self.calls.append(arguments)
        return True

    def unpin(self, *arguments: Any) -> bool:
        self.calls.append(arguments)
        return True


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cleancut._query.coordinator._known_notes", {})


def coordinator(facade: Facade) -> Coordinator:
    driver: Any = SimpleNamespace(session=SESSION, side={"coordinator": facade}.get)
    return Coordinator(driver, LOCATION, {}, PROVIDER_CLASS)


def test_a_session_that_was_stopped_coordinates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    query: Any = SimpleNamespace()
    with pytest.raises(RequestError, match="a session that was stopped") as raised:
        coordinator_of(query)
    assert raised.value.error_id == "CLEANCUT_COORDINATOR_MISSING"


def test_status_before_the_first_task() -> None:
    status = coordinator(Facade(None)).status()
    assert status.run_id is None
    assert status.committed is None
    assert status.epoch is None
    assert status.driver.requests == {"put": RequestCount(requests=7, retries=2, failures=1)}
    assert status.requests["put"] == RequestCount(requests=11, retries=2, failures=1)
    assert status.last is None
    assert "committed" in str(status)


def test_status_of_a_run_that_waits_to_take_over() -> None:
    facade = Facade(41)
    facade.parked = {"parkedSinceMs": 5000, "isStandby": False}
    status = coordinator(facade).status()
    assert (status.run_id, status.committed) == (None, 41)
    assert (status.parked_since, status.is_standby) == (datetime.fromtimestamp(5, UTC), False)
    assert re.search("parked as successor +since 1970-01-01 00:00:05 UTC", str(status))
    facade.parked["isStandby"] = True
    status = coordinator(facade).status()
    assert status.is_standby
    assert "parked as standby" in str(status)
    facade.parked = {}
    status = coordinator(facade).status()
    assert (status.parked_since, status.is_standby) == (None, False)
    assert "parked" not in str(status)


def test_status_of_an_epoch_in_progress() -> None:
    status = coordinator(Facade(41)).status()
    assert (status.generation, status.committed) == (3, 41)
    assert status.epoch == EpochProgress(42, 5, 4, 1, 9, 8)
    assert (status.driver.bytes_sent, status.driver.bytes_received) == (11, 13)
    assert (status.executors.segments, status.executor_count) == (4, 2)
    assert [time.ms for time in status.slowest] == [412, 9]


def test_status_reports_the_restore_test_and_the_lag_of_replicas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    facade = Facade(42)
    query = coordinator(facade)
    status = query.status()
    assert status.restore_test == RestoreTestStatus(41, datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC))
    (copy,) = status.replicas
    assert (copy.location, copy.epoch, copy.lag_epochs, copy.lag_ms) == ("/copy", 40, 2, 2500)
    assert "epoch 41, tested at 1970-01-01 00:00:07 UTC" in str(status)
    assert "replica at /copy" in str(status)
    assert "epoch 40, lag 2 epochs, 2.5 s; the last pass ended at 1970-01-01" in str(status)
    # `status` reads the store at most once per minute; `wait_for` never does.
    assert coordinator(facade).status().replicas == status.replicas
    assert query.wait_for(42)
    assert facade.calls == [("notes", LOCATION)]
    now = time.monotonic()
    monkeypatch.setattr("time.monotonic", lambda: now + 61)
    # If the store does not answer, `status` returns the last answer.
    facade.is_down = True
    assert query.status().restore_test == status.restore_test
    assert len(facade.calls) == 2


def test_status_without_restore_tests_and_replicas() -> None:
    facade = Facade(None)
    facade.is_down = True
    status = coordinator(facade).status()
    assert (status.restore_test, status.replicas) == (None, ())


def test_status_reports_the_costs_of_the_last_epoch() -> None:
    last = coordinator(Facade(41)).status().last
    assert last is not None
    assert (last.epoch, last.stores) == (41, 9)
    assert (last.duration_ms, last.commit_ms, last.cut_ms) == (800, 50, 21)
    assert last.cut_lag_ms == 71
    assert last.requests is not None
    assert last.requests["put"] == RequestCount(requests=3, retries=1, failures=0)
    assert (last.retries, last.failures, last.segment_bytes) == (1, 1, 40_750)


def test_status_shows_itself_and_is_json() -> None:
    status = coordinator(Facade(41)).status()
    text = str(status)
    assert re.search(r"under way +42: 8 of 9 stores\n", text)
    assert "0/3 default 412 ms on 1 at host-1" in text
    assert re.search(r"of 2 executors +getRange 3, put 4$", text)
    assert "<td>412" not in status._repr_html_()
    assert "0/3 default 412 ms on 1 at host-1</td>" in status._repr_html_()
    fields = json.loads(json.dumps(status.to_dict(), default=str))
    assert fields["last"]["costs"]["executors"]["requests"]["getRange"]["failures"] == 1
    assert fields["executors"]["requests"]["put"]["requests"] == 4


def test_status_reports_the_shuffle_inputs_of_the_last_epoch() -> None:
    last = coordinator(Facade(41)).status().last
    assert last is not None
    assert (last.mode, last.in_flight_rows) == ("unaligned", 20)
    assert (last.alignment_ms, last.barrier_to_capture_ms) == (772, 562)
    (operator,) = last.operators
    assert (operator.overtaken, operator.capture_ms) == ((3,), 540)


def test_wait_for_an_epoch() -> None:
    assert coordinator(Facade(None, 1, 2, 3)).wait_for(3, timeout=PATIENCE_S)
    assert not coordinator(Facade(2)).wait_for(3, timeout=0.2)


def test_a_savepoint_is_of_the_last_epoch_by_default() -> None:
    facade = Facade(41)
    assert coordinator(facade).create_savepoint("before-upgrade") == 41
    assert coordinator(facade).create_savepoint("older", 40) == 40
    assert coordinator(facade).drop_savepoint("older")
    assert facade.calls == [
        (LOCATION, SESSION, "before-upgrade", 41),
        (LOCATION, SESSION, "older", 40),
        (LOCATION, SESSION, "older"),
    ]


def test_a_savepoint_without_an_epoch_is_refused() -> None:
    with pytest.raises(RequestError) as raised:
        coordinator(Facade(None)).create_savepoint("early")
    assert raised.value.error_id == "CLEANCUT_SAVEPOINT_INVALID"


def test_status_lists_in_flight_rows_and_aligned_operators() -> None:
    status = coordinator(Facade(7)).status()
    assert [
        (
            in_flight.operator,
            in_flight.partition,
            in_flight.store,
            in_flight.rows,
            in_flight.total_rows,
        )
        for in_flight in status.in_flight
    ] == [
        (0, 0, "cleancut-channel-0", 20, 50),
        (0, 5, "cleancut-channel-0", 20, 50),
    ]
    assert status.aligned == {1: "limit is not captured yet"}
    assert re.search(r"in flight +40 rows in 2 channels", str(status))
    assert status.overloaded == {0: "7 rows did not stay in flight"}
    assert re.search(r"operator 0 is overloaded +7 rows did not stay in flight", str(status))
    assert status.pyspark_loop == {2: "it processes its initial state"}
    assert re.search(r"operator 2 uses PySpark's loop +it processes its initial state", str(status))
    assert [savepoint.name for savepoint in status.unreadable_savepoints] == ["early"]
    assert re.search(
        r"unreadable savepoint +Savepoint early cannot be read: its page is gone", str(status)
    )
    assert re.search(r"operator 1 is aligned +limit is not captured yet", str(status))
    assert status.unpipelined == "pipelinedCuts is false"
    before = coordinator(Facade(None)).status()
    assert (before.in_flight, before.aligned) == ((), {})


def test_cut_now_calls_the_driver() -> None:
    facade = Facade(7)
    assert coordinator(facade).cut_now()
    assert facade.calls == [(LOCATION, SESSION)]
