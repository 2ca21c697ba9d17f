"""The Python side of operations on a checkpoint, over a fake JVM."""

import json
import re
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

import cleancut
from cleancut import Checkpoint
from cleancut._cli import main as _cli
from cleancut._operations import offline
from cleancut._provider import PROVIDER_CLASS
from cleancut.errors import RequestError
from tests.unit.cut_files import CutFiles

LOCATION = "file:/q"
# The digest of each plan here.
PLANNED = '{"epoch": 5, "source": 2, "last": 4}'
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Facade:
    """Answers the calls of `io.cleancut.CleancutOffline` and records them."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.facts: dict[str, Any] = {}

    def convert(self, session: Any, location: str, sink: str, provider: str, planned: str) -> str:
        call = ("convert", session, location, sink, provider, planned)
        return self._report(call, (3, 3), (ROCKSDB, PROVIDER_CLASS))

    def rescale(self, session: Any, location: str, sink: str, partitions: int, *how: Any) -> str:
        call = ("rescale", session, location, sink, partitions, *how)
        return self._report(call, (3, partitions), (ROCKSDB, ROCKSDB))

    def rollback(self, session: Any, location: str, *arguments: Any) -> str:
        return self._report(("rollback", session, location, *arguments), (3, 3), (ROCKSDB, ROCKSDB))

    def copy(self, session: Any, location: str, *arguments: Any) -> str:
        return self._report(("copy", session, location, *arguments), (3, 3), (ROCKSDB, ROCKSDB))

    def _report(
        self, call: tuple[Any, ...], partitions: tuple[int, int], providers: tuple[str, str]
    ) -> str:
        self.calls.append(call)
        counts = {"partitionsBefore": partitions[0], "partitions": partitions[1]}
        operator = {"operator": 0, "name": "stateStoreSave", "stores": 1} | counts
        if call[-1]:
            operator["rows"] = 17
        report = {
            "operation": "clone" if call[0] == "copy" else call[0],
            "location": call[2],
            "epoch": 5,
            "operators": [operator],
        }
        report |= {"source": 2, "last": 4, "notes": ["Mind the sink."]}
        report |= {"copiesRows": partitions[1] % partitions[0] != 0, "missingFiles": 0}
        providing = {"providerBefore": providers[0], "provider": providers[1]}
        return json.dumps(report | providing | counts | self.facts)


@pytest.fixture
def session() -> Any:
    facade = Facade()
    jvm = SimpleNamespace(io=SimpleNamespace(cleancut=SimpleNamespace(CleancutOffline=facade)))
    return SimpleNamespace(_jvm=jvm, _jsparkSession="session", facade=facade)


def test_a_plan_describes_its_operation_and_is_applied_once(session: Any) -> None:
    plan = cleancut.rescale("/q", 8, session=session)
    assert session.facade.calls == [("rescale", "session", "/q", "", 8, False, "")]
    assert "rescale /q" in str(plan)
    assert "partitions  3 -> 8" in str(plan)
    assert "Nothing has changed yet." in str(plan)
    assert "rows" not in str(plan)
    done = plan.apply(session)
    assert session.facade.calls[1:] == [("rescale", "session", "/q", "", 8, False, PLANNED)]
    assert (done.is_applied, done.operators[0].rows) == (True, 17)
    assert "17" in str(done)
    assert "yet" not in str(done)
    assert json.loads(json.dumps(done.to_dict()))["operators"][0]["rows"] == 17
    with pytest.raises(RequestError, match="has been applied before") as raised:
        done.apply(session)
    assert raised.value.error_id == "CLEANCUT_OPERATION_REFUSED"


def text_of_plan(session: Any, partitions: int, **facts: Any) -> str:
    session.facade.facts = facts
    return str(cleancut.rescale("/q", partitions, session=session))


def test_a_plan_states_size_time_and_whether_the_query_runs(session: Any) -> None:
    run = "run 3f2504e0 on host-7, generation 3, since 2026-11-26T08:00:00Z"
    text = text_of_plan(session, 8, stateBytes=1_300_000_000, cores=4, isStopped=False, owner=run)
    assert "  state       1.2 GiB\n" in text
    assert re.search(r"^  time        about \d+ min to \d+ min$", text, re.MULTILINE)
    assert f"  query       has not recorded its end: {run}\n" in text
    stopped = text_of_plan(session, 6, stateBytes=900, cores=4, isStopped=True)
    assert "  state       900 bytes\n  time        about 1 s\n  query       stopped\n" in stopped
    unknown = text_of_plan(session, 8)
    assert "state  " not in unknown
    assert "time  " not in unknown
    assert "  query       must be stopped: without cuts, no run is recorded\n" in unknown


def test_a_plan_reports_that_no_row_is_copied(session: Any) -> None:
    plan = cleancut.rescale("/q", 6, session=session)
    assert not plan.copies_rows
    assert "rows        referenced, none is copied" in str(plan)


def test_a_plan_names_providers_by_their_class(session: Any) -> None:
    plan = cleancut.convert(LOCATION, session=session)
    assert "RocksDBStateStoreProvider -> CleancutStateStoreProvider" in str(plan)
    assert (plan.epoch, plan.partitions, plan.provider) == (5, 3, PROVIDER_CLASS)
    assert len(repr(plan)) < 100


def test_a_rollback_is_applied_as_planned(session: Any) -> None:
    def calls(*arguments: Any, **named: Any) -> list[tuple[Any, ...]]:
        session.facade.calls.clear()
        cleancut.rollback("/q", *arguments, session=session, **named).apply(session)
        return [call[3:] for call in session.facade.calls]

    then = datetime(2026, 11, 25, 12, 0, 0, 250_000, tzinfo=UTC)
    at = int(then.timestamp() * 1000)
    # The JVM side finds the planned epoch, and refuses if the last one has changed.
    for given, which in (
        ((2,), ("epoch", 2, "")),
        ((then,), ("time", at, "")),
        (("good",), ("savepoint", 0, "good")),
    ):
        options = ("", *which, False, False)
        assert calls(*given) == [(*options, ""), (*options, PLANNED)]
    assert calls(undo=True)[1] == ("", "undo", 0, "", False, False, PLANNED)
    assert calls(2, allow_missing_input=True)[1] == ("", "epoch", 2, "", False, True, PLANNED)
    assert calls("good", file_sink="/out", rewrite=True)[1] == (
        *("/out", "savepoint", 0, "good", True, False),
        PLANNED,
    )
    plan = cleancut.rollback("/q", 2, session=session)
    assert "from the state after epoch 2" in str(plan)
    assert plan.notes == ("Mind the sink.",)
    assert "Mind the sink." in str(plan)
    assert not [key for key in plan.to_dict() if key.startswith("_")]


def test_a_rollback_takes_either_a_state_or_undo(session: Any) -> None:
    for at, undo in ((None, False), (2, True)):
        with pytest.raises(TypeError, match="or undo=True"):
            cleancut.rollback("/q", at, undo=undo, session=session)
    assert not session.facade.calls


def test_a_clone_is_of_another_query_unless_it_is_requested(session: Any) -> None:
    for same in (False, True):
        cleancut.clone("/q", "/c", session=session, same_query=same)
        target, is_other = session.facade.calls[-1][6:8]
        assert (target, is_other) == ("/c", not same)


def test_an_operation_requires_a_session_with_the_jar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "running_session", lambda: None)
    # The object that py4j returns for an unknown class.
    package = SimpleNamespace(io=SimpleNamespace(cleancut=SimpleNamespace(CleancutOffline=None)))
    for given in (None, SimpleNamespace(_jvm=package, _jsparkSession=None)):
        with pytest.raises(RequestError, match="The operation convert requires") as raised:
            cleancut.convert(LOCATION, session=given)  # type: ignore[arg-type]
        assert raised.value.error_id == "CLEANCUT_SESSION_MISSING"


def test_a_clone_gets_the_access_of_its_own_store_only(
    session: Any,
) -> None:
    def access_of(**how: Any) -> dict[str, str]:
        plan = cleancut.clone("/q", "s3://bucket/q", session=session, **how)
        plan.apply(session)
        planned, done = (json.loads(call[-3]) for call in session.facade.calls[-2:])
        assert planned == done
        access: dict[str, str] = planned
        return access

    assert access_of() == {}
    prefix = "spark.sql.streaming.stateStore.cleancut."
    assert access_of(target_access={"profile": "second-site", "requester_pays": True}) == {
        f"{prefix}s3.profile": "second-site",
        f"{prefix}s3.requesterPays": "true",
    }


def test_the_commands_pass_the_access_of_the_target(
    monkeypatch: pytest.MonkeyPatch, four_cuts: CutFiles
) -> None:
    given = {
        "endpoint": "http://127.0.0.1:9000",
        "region": "eu-west-1",
        "profile": "second-site",
        "access_point": "arn:aws:s3:eu-west-1:123456789012:accesspoint/mine",
        "encryption": "kms",
    }
    accesses: list[dict[str, object]] = []

    def ask(*_: object, **how: object) -> object:
        accesses.append(how)
        raise InterruptedError

    monkeypatch.setattr(_cli, "_session", lambda _: Mock())
    monkeypatch.setattr(_cli, "clone", ask)
    monkeypatch.setattr(Checkpoint, "replicate", ask)
    options = [f"--target-{name.replace('_', '-')}={value}" for name, value in given.items()]
    for command in ("clone", "replicate"):
        arguments = [command, str(four_cuts.location), "s3://bucket/q", *options]
        parsed = _cli._parser().parse_args([*arguments, "--target-requester-pays"])
        with pytest.raises(InterruptedError):
            parsed.run(parsed)
    cloned, replicated = accesses
    wanted = given | {"requester_pays": True}
    assert replicated == wanted | {"read_only": False}
    assert cloned["target_access"] == wanted
