"""What a chain of entries in the log of a table says, and what files tell of their values."""

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
    found_in,
    handles_of,
    owned_head,
    past,
    publishing,
)

BATCH = Batch(0, query_id="q-1", run_id="r-1", checkpoint="file:/ckpt", planned_ms=100)


class Log:
    """A log in memory, that of one table."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def head(self, query_id: str) -> Placed | None:
        mine = [at for at, of in enumerate(self.entries) if of.query_id == query_id]
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
    found = Log()
    found.begin(Run("r-1"))
    found.publish(0, 1, 2)
    return found


def test_an_entry_is_read_as_it_was_written(log: Log) -> None:
    for entry in log.entries:
        assert Entry.parse(json.loads(json.dumps(entry.fields())), "here") == entry


def test_a_chain_passes_the_commits_of_another_query(log: Log) -> None:
    log.begin(Run("r-1"), query_id="q-2")
    log.publish(0, query_id="q-2")
    log.publish(3)
    mine = [of.epoch.epoch for of in past(chain(log, log.head("q-1")))]
    assert mine == [3, 2, 1, 0]
    found = found_in(log, at(3), "sink")
    assert found is not None
    assert (found.handle, found.planned_ms) == ("token 3", 103)


def test_an_epoch_that_is_later_than_all_is_not_published(log: Log) -> None:
    assert found_in(log, at(3), "sink") is None
    assert found_in(log, replace(at(0), query_id="q-3"), "sink") is None


def test_an_epoch_with_other_input_and_one_that_is_missing_are_refused(log: Log) -> None:
    with pytest.raises(RequestError) as taken:
        found_in(log, replace(at(1), planned_ms=7), "sink")
    assert taken.value.error_id == "CLEANCUT_SINK_EPOCH_CONFLICT"
    log.publish(7)
    with pytest.raises(RequestError, match="comes before it"):
        found_in(log, at(5), "sink")


def test_a_run_that_was_followed_owns_nothing(log: Log) -> None:
    assert owned_head(log, at(3), "sink").at == 3
    log.begin(Run("r-2", former=("r-1",), last=2))
    with pytest.raises(FencedError):
        owned_head(log, at(3), "sink")


def test_what_was_gone_back_behind_is_undone_by_the_furthest_act(log: Log) -> None:
    log.begin(Run("r-1", last=2), undone_after=1)
    log.publish(5, 6)
    log.begin(Run("r-1", last=6), undone_after=5)
    log.publish(9)
    found = [(of.epoch.epoch, of.is_undone) for of in past(chain(log, log.head("q-1")))]
    assert found == [(9, False), (6, True), (5, False), (2, True), (1, False), (0, False)]
    log.begin(Run("r-1", last=9), undone_after=0)
    found = [(of.epoch.epoch, of.is_undone) for of in past(chain(log, log.head("q-1")))]
    assert [epoch for epoch, undone in found if not undone] == [0]
    head = log.head("q-1")
    assert head is not None
    assert handles_of(log, head, 2) == ["token 2"]


def test_what_a_log_does_not_reach_is_not_taken_for_unpublished(log: Log) -> None:
    """A file of the table was taken for one that a try had left, and was deleted."""
    head = log.head("q-1")
    assert head is not None
    cut = replace(head, entry=replace(head.entry, previous=-1))
    assert handles_of(log, cut, 2) is None
    assert handles_of(log, cut, 3) == []
    log.begin(replace(head.entry.run, run_id="r-2"))
    log.entries[-1] = replace(log.entries[-1], previous=-1, latest=head.entry.epoch)
    found = found_in(log, at(2), "sink")
    assert found is not None
    assert found.handle == "token 2"
    begun = log.head("q-1")
    assert begun is not None
    assert handles_of(log, begun, 2) is None


def test_a_handle_keeps_what_was_staged() -> None:
    staged = Staged("t", (StagedFile("a/b", 10, 2, "{}"), StagedFile("c", 5, 1, "{}")))
    assert Staged.decode(staged.encode()) == staged
    assert staged.rows == 3


def told(columns: dict[str, Any], indexed: int = -1, group: int = 2) -> dict[str, Any]:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=group)
    footer = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    found: dict[str, Any] = json.loads(statistics(footer, table.schema, indexed, {"nan"}))
    return found


def test_bounds_cover_all_values_or_are_left_out() -> None:
    day, zone = dt.date(1969, 12, 31), dt.UTC
    moment = dt.datetime(1969, 12, 31, 23, 59, 59, 999_001, zone)
    found = told(
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
    assert found["numRecords"] == 3
    assert found["minValues"] == {
        "id": -1,
        "word": "a" * 32,
        "day": "1969-12-31",
        "moment": "1969-12-31T23:59:59.999Z",
        "small": 1.25,
        "struct": {"a": 1},
        "last": 7,
    }
    assert found["maxValues"] == {
        "id": 3,
        "word": "b" * 32 + "\U0010ffff",
        "day": "1969-12-31",
        "moment": "1970-01-01T00:00:00.000Z",
        "small": 1.25,
        "struct": {"a": 5},
        "last": 9,
    }
    assert found["nullCount"] == {
        **{"id": 1, "word": 1, "day": 2, "moment": 2, "nan": 0, "wide": 2, "small": 2},
        **{"struct": {"a": 1}, "last": 0},
    }
    assert set(told({"a": [1], "b": [2]}, indexed=1)["minValues"]) == {"a"}


def test_values_of_partitions_are_told_as_deltas_log_has_them() -> None:
    values = [None, "", "x", True, 5, Decimal("1.50"), dt.date(2024, 1, 2)]
    assert list(map(partition_text, values)) == [
        *(None, None, "x", "true", "5", "1.50", "2024-01-02"),
    ]
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 6, dt.UTC)
    assert partition_text(moment) == "2024-01-02 03:04:05.000006"


def test_values_that_may_be_secret_are_told_by_their_names() -> None:
    options = {"AWS_SECRET_ACCESS_KEY": "s", "aws_session_token": "t", "AWS_REGION": "eu"}
    assert secrets_in(options) == ["s", "t"]
