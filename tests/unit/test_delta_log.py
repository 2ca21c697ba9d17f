"""What the log of a table of Delta says of a query, whichever way it was written."""

import json
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cleancut import RequestError
from cleancut.sinks import DeltaSink
from cleancut.sinks._core.runs import LedgerEpoch, Run
from cleancut.sinks._lakes.delta_connector import Connector
from cleancut.sinks._lakes.delta_log import Action, DeltaLog, noted, pointer
from cleancut.sinks._lakes.log import Entry, chain

QUERY = "q-1"
FOREIGN: list[Action] = [{"commitInfo": {"userMetadata": "{not JSON", "operation": "WRITE"}}]


class Log(DeltaLog):
    """A log in memory."""

    def __init__(self) -> None:
        self.commits: list[list[Action] | None] = []
        self.transactions: dict[str, int] = {}

    @property
    def label(self) -> str:
        return "/lake/rows"

    def version(self) -> int:
        return len(self.commits) - 1

    def transaction_version(self, application: str) -> int | None:
        return self.transactions.get(application)

    def actions(self, version: int) -> list[Action] | None:
        return self.commits[version]

    def configuration(self) -> Mapping[str, str]:
        return {}

    def by_library(self, of: Entry) -> None:
        self.transactions |= noted(of, len(self.commits))
        self.commits.append([{"commitInfo": {"cleancut": of.fields()}}, {"add": {}}])

    def by_connector(self, of: Entry, *, behind: int, merges: bool = False) -> None:
        """Past some commits of others that it did not know of."""
        notes = noted(of, len(self.commits))
        if merges:
            assert of.previous is not None
            notes = {pointer(QUERY): of.previous + 1}
        self.transactions |= notes
        self.commits += [FOREIGN] * behind
        text = json.dumps({"cleancut": of.fields()})
        self.commits.append([{"commitInfo": {"userMetadata": text}}, {"add": {}}])


def entry(epoch: int, previous: int | None) -> Entry:
    of = LedgerEpoch(0, epoch, 100 + epoch, "r-1", f"token {epoch}", 6, 0)
    return Entry(QUERY, "file:/ckpt", Run("r-1", last=epoch), previous, of, latest=of)


def test_the_last_entry_is_found_behind_commits_of_others() -> None:
    log = Log()
    log.commits += [FOREIGN] * 3
    log.by_library(entry(0, None))
    log.by_connector(entry(1, 3), behind=0)
    log.by_connector(entry(2, 4), behind=5)
    log.by_connector(entry(3, 10), behind=2, merges=True)
    log.by_connector(entry(4, 13), behind=7, merges=True)
    log.commits += [FOREIGN] * 4
    log.by_library(entry(5, 21))
    found = list(chain(log, log.head(QUERY)))
    assert [(of.at, of.entry.run.last) for of in found] == [
        *((26, 5), (21, 4), (13, 3), (10, 2), (4, 1), (3, 0)),
    ]
    assert log.head("another") is None


@pytest.mark.parametrize("merges", [False, True])
def test_of_a_deleted_commit_is_known_what_was_noted_beside_it(merges: bool) -> None:
    log = Log()
    log.by_library(entry(0, None))
    log.by_connector(entry(1, 0), behind=2, merges=merges)
    log.commits = [None] * len(log.commits) + [FOREIGN]
    if merges:
        # It would have been taken for the one before it, and written a second time.
        with pytest.raises(RequestError, match=r"CLEANCUT_SINK_REFUSED.* version 1 .*deleted"):
            log.head(QUERY)
        return
    head = log.head(QUERY)
    assert head is not None
    assert (head.entry.run.last, head.entry.latest) == (
        *(1, replace(_remembered(1), planned_ms=101)),
    )


def _remembered(epoch: int) -> LedgerEpoch:
    return LedgerEpoch(0, epoch, 0, "of an entry that is deleted", "", -1, 0)


@pytest.mark.parametrize(
    ("version", "settings", "told"),
    [
        ("4.3.0", {}, "it is not used on Spark 4.3.0"),
        ("4.2.1", {}, "the session was not started with `--conf spark.sql.extensions="),
        (
            "4.2.1",
            {"spark.sql.extensions": "io.x.Other,io.delta.sql.DeltaSparkSessionExtension"},
            "the session was not started with `--conf spark.sql.catalog.spark_catalog=",
        ),
    ],
)
def test_what_a_session_lacks_for_the_connector_is_told(
    version: str, settings: dict[str, str], told: str
) -> None:
    session: Any = SimpleNamespace(
        version=version,
        _jvm=_Anything(),
        _jsparkSession=_Anything(),
        sparkContext=None,
        conf=SimpleNamespace(get=settings.get),
    )
    with pytest.raises(RequestError, match=r"on Spark 4\.2 with `--packages io\.delta") as raised:
        Connector(session, "DeltaSink /lake/rows")
    assert raised.value.error_id == "CLEANCUT_SINK_CONNECTOR_MISSING"
    assert told in str(raised.value)


class _Anything:
    """What py4j gives for names of classes that are there."""

    def __getattr__(self, name: str) -> Any:
        return _Anything()

    def __call__(self, *arguments: Any) -> Any:
        return self


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"writer": "rust"}, "no writer 'rust'"),
        ({"writer": "spark", "storage_options": {"a": "b"}}, "storage_options are deltalake's"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(options: Any, told: str) -> None:
    with pytest.raises(RequestError, match=told):
        DeltaSink("/lake/rows", **options)
