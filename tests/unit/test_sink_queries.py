"""One sink object and several queries: sequential use is accepted, concurrent use refused."""

from dataclasses import replace
from typing import Any

import pytest

from cleancut import RequestError
from cleancut.sinks import Batch, EpochSink, KafkaSink, fan_out, transformed
from tests.unit.sink_steps import BATCH, Side, Target, give
from tests.unit.test_sink_failures import Producer, Rows, connected
from tests.unit.test_sink_ledger import Side as LedgerSide


def side_of(query: str, run: str, epoch: int = 0) -> Side:
    return Side([], batch=replace(BATCH, epoch=epoch, query_id=query, run_id=run))


class AcceptingTarget(Target):
    """A target that accepts each epoch of each query."""

    def published(self, batch: Batch) -> str | None:
        return None


def test_a_sink_serves_one_query_after_the_other() -> None:
    sink = AcceptingTarget("a", [])
    for side in (
        side_of("q-1", "r-1"),
        side_of("q-1", "r-1", 1),
        side_of("q-2", "r-2"),
        side_of("q-1", "r-3", 2),
    ):
        give(sink, side)


@pytest.mark.parametrize("wrapped", [False, True], ids=["itself", "by transformed"])
def test_a_query_that_continues_after_another_one_has_begun_is_refused(wrapped: bool) -> None:
    sink: EpochSink = AcceptingTarget("a", [])
    give(sink, side_of("q-1", "r-1"))
    other = transformed(sink, lambda rows: rows) if wrapped else sink
    give(fan_out(other), side_of("q-2", "r-2"))
    with pytest.raises(RequestError, match=r"q-2.*a sink object for each query") as raised:
        give(sink, side_of("q-1", "r-1", 1))
    assert raised.value.error_id == "CLEANCUT_SINK_REFUSED"
    # The other query continues.
    give(fan_out(other), side_of("q-2", "r-2", 1))


def test_a_query_that_begins_within_an_epoch_of_another_one_is_refused() -> None:
    class Nested(AcceptingTarget):
        def stage(self, rows: Any, batch: Batch) -> str:
            if batch.query_id == "q-1":
                with pytest.raises(RequestError, match=r"q-1.*a sink object for each query"):
                    give(self, side_of("q-2", "r-2"))
            return super().stage(rows, batch)

    sink = Nested("a", [])
    give(sink, side_of("q-1", "r-1"))
    give(sink, side_of("q-1", "r-1", 1))


def test_a_kafka_sink_keeps_no_state_of_the_previous_query() -> None:
    Producer.notes.clear()
    sink: Any = KafkaSink("broker:9092", topic="t", retry_for_s=1)
    connected(sink, Producer)
    for query, run in (("q-1", "r-1"), ("q-2", "r-2")):
        for epoch in range(3):
            planned = 1000 if query == "q-1" else 2000
            batch = replace(BATCH, epoch=epoch, query_id=query, run_id=run, planned_ms=planned)
            side: Any = LedgerSide(batch)
            sink._begin_once(side, None)
            assert sink.published(batch) is None
            sink._rows = Rows([(b"k", b"v", None, None, None)])
            sink.publish("", batch)
            assert sink.published(batch) is not None
    notes = {key.rpartition(b"/")[2] for key in Producer.notes if key is not None and b"/" in key}
    assert notes == {b"q-1", b"q-2"}
