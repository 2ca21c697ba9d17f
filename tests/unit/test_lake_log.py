"""The chain of entries in the log of a table, and the statistics of files."""

import datetime as dt
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cleancut import FencedError, RequestError
from cleancut.sinks import Batch
from cleancut.sinks._core.ledger import Run
from cleancut.sinks._lakes.delta_files import partition_text, secrets_in
from cleancut.sinks._lakes.delta_stats import statistics
from cleancut.sinks._lakes.files import Staged, StagedFile
from cleancut.sinks._lakes.log import (
    Entry,
    Placed,
    chain,
    find_epoch,
    handles_of,
    owned_head,
    past,
    publishing,
)

BATCH = Batch(0, query_id="q-1", run_id="r-1", checkpoint="file:/ckpt", planned_ms=100)


class Log:
    """The log of one table, in memory."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def head(self, query_id: str) -> Placed | None:
        mine = [at for at, entry in enumerate(self.entries) if entry.query_id == query_id]
        return Placed(mine[-1], self.entries[mine[-1]]) if mine else None

    def entry(self, at: int, query_id: str) -> Entry | None:
        return self.entries[at] if at >= 0 else None

    def begin(self, run: Run, query_id: str = "q-1", undone_after: int | None = None) -> None:
        head = self.head(query_id)
        at = None if head is None else head.at
        self.entries.append(Entry(query_id, run, at, undone_after=undone_after))

    def publish(self, *epochs: int, query_id: str = "q-1") -> None:
        for epoch in epochs:
            batch = replace(BATCH, epoch=epoch, planned_ms=100 + epoch, query_id=query_id)
            head = owned_head(self, batch, "sink")
            self.entries.append(publishing(head, batch, f"token {epoch}", 1, "sink"))


def at(epoch: int) -> Batch:
    return replace(BATCH, epoch=epoch, planned_ms=100 + epoch)


@pytest.fixture
def log() -> Log:
    log = Log()
    log.begin(Run("r-1"))
    log.publish(0, 1, 2)
    return log


def test_an_entry_is_read_as_it_was_written(log: Log) -> None:
    for entry in log.entries:
        assert Entry.parse(json.loads(json.dumps(entry.fields())), "here") == entry


def test_a_chain_skips_the_commits_of_another_query(log: Log) -> None:
    log.begin(Run("r-1"), query_id="q-2")
    log.publish(0, query_id="q-2")
    log.publish(3)
    mine = [undoable.epoch.epoch for undoable in past(chain(log, log.head("q-1")))]
    assert mine == [3, 2, 1, 0]
    epoch = find_epoch(log, at(3), "sink")
    assert epoch is not None
    assert (epoch.handle, epoch.planned_ms) == ("token 3", 103)


def test_an_epoch_after_all_entries_is_not_published(log: Log) -> None:
    assert find_epoch(log, at(3), "sink") is None
    assert find_epoch(log, replace(at(0), query_id="q-3"), "sink") is None


def test_epochs_with_other_input_and_missing_epochs_are_refused(log: Log) -> None:
    with pytest.raises(RequestError) as taken:
        find_epoch(log, replace(at(1), planned_ms=7), "sink")
    assert taken.value.error_id == "CLEANCUT_SINK_EPOCH_CONFLICT"
    log.publish(7)
    with pytest.raises(RequestError, match="an earlier one"):
        find_epoch(log, at(5), "sink")


def test_a_run_with_a_successor_is_fenced(log: Log) -> None:
    assert owned_head(log, at(3), "sink").at == 3
    log.begin(Run("r-2", former=("r-1",), last=2))
    with pytest.raises(FencedError):
        owned_head(log, at(3), "sink")


def test_the_furthest_rollback_decides_which_epochs_are_undone(log: Log) -> None:
    log.begin(Run("r-1", last=2), undone_after=1)
    log.publish(5, 6)
    log.begin(Run("r-1", last=6), undone_after=5)
    log.publish(9)
    epochs = [
        (undoable.epoch.epoch, undoable.is_undone) for undoable in past(chain(log, log.head("q-1")))
    ]
    assert epochs == [(9, False), (6, True), (5, False), (2, True), (1, False), (0, False)]
    log.begin(Run("r-1", last=9), undone_after=0)
    epochs = [
        (undoable.epoch.epoch, undoable.is_undone) for undoable in past(chain(log, log.head("q-1")))
    ]
    assert [epoch for epoch, undone in epochs if not undone] == [0]
    head = log.head("q-1")
    assert head is not None
    assert handles_of(log, head, 2) == ["token 2"]


def test_an_epoch_before_the_log_is_not_unpublished(log: Log) -> None:
    """A file of the table was taken for one of a failed attempt, and was deleted."""
    head = log.head("q-1")
    assert head is not None
    cut = replace(head, entry=replace(head.entry, previous=-1))
    assert handles_of(log, cut, 2) is None
    assert handles_of(log, cut, 3) == []
    log.begin(replace(head.entry.run, run_id="r-2"))
    log.entries[-1] = replace(log.entries[-1], previous=-1, latest=head.entry.epoch)
    epoch = find_epoch(log, at(2), "sink")
    assert epoch is not None
    assert epoch.handle == "token 2"
    begun = log.head("q-1")
    assert begun is not None
    assert handles_of(log, begun, 2) is None


def test_a_handle_lists_the_staged_files() -> None:
    staged = Staged("t", (StagedFile("a/b", 10, 2, "{}"), StagedFile("c", 5, 1, "{}")))
    assert Staged.decode(staged.encode()) == staged
    assert staged.rows == 3


def statistics_of(columns: dict[str, Any], indexed: int = -1, group: int = 2) -> dict[str, Any]:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=group)
    footer = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    decoded: dict[str, Any] = json.loads(statistics(footer, table.schema, indexed, {"nan"}))
    return decoded


def test_bounds_cover_all_values_or_are_left_out() -> None:
    day, zone = dt.date(1969, 12, 31), dt.UTC
    moment = dt.datetime(1969, 12, 31, 23, 59, 59, 999_001, zone)
    bounds = statistics_of(
        {
            "id": [3, None, -1],
            "word": ["b" * 40, "a" * 40, None],
            "day": [day, None, None],
            "moment": pa.array([moment, None, None], pa.timestamp("us", "UTC")),
            "nan": [1.0, float("nan"), 2.0],
            "wide": pa.array([Decimal("12345678901234567890.5"), None, None]),
            "small": pa.array([Decimal("1.25"), None, None]),
            "list": [[1], None, [2]],
            "struct": [{"a": 1, "b": [1]}, None, {"a": 5, "b": None}],
            "last": [7, 8, 9],
        }
    )
    assert bounds["numRecords"] == 3
    assert bounds["minValues"] == {
        "id": -1,
        "word": "a" * 32,
        "day": "1969-12-31",
        "moment": "1969-12-31T23:59:59.999Z",
        "small": 1.25,
        "struct": {"a": 1},
        "last": 7,
    }
    assert bounds["maxValues"] == {
        "id": 3,
        "word": "b" * 32 + "\U0010ffff",
        "day": "1969-12-31",
        "moment": "1970-01-01T00:00:00.000Z",
        "small": 1.25,
        "struct": {"a": 5},
        "last": 9,
    }
    assert bounds["nullCount"] == {
        **{"id": 1, "word": 1, "day": 2, "moment": 2, "nan": 0, "wide": 2, "small": 2},
        **{"struct": {"a": 1}, "last": 0},
    }
    assert set(statistics_of({"a": [1], "b": [2]}, indexed=1)["minValues"]) == {"a"}


def test_partition_values_are_written_as_in_the_log_of_delta() -> None:
    values = [None, "", "x", True, 5, Decimal("1.50"), dt.date(2024, 1, 2)]
    assert list(map(partition_text, values)) == [
        *(None, None, "x", "true", "5", "1.50", "2024-01-02"),
    ]
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 6, dt.UTC)
    assert partition_text(moment) == "2024-01-02 03:04:05.000006"


def test_values_that_may_be_secret_are_masked() -> None:
    options = {"AWS_SECRET_ACCESS_KEY": "s", "aws_session_token": "t", "AWS_REGION": "eu"}
    assert secrets_in(options) == ["s", "t"]
