"""Epochs as spans, at a collector that accepts OTLP over HTTP."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from cleancut._checkpoint.read.history_files import recorded
from cleancut._cli import main as _cli
from cleancut._metrics.span_sender import SpanSender
from cleancut._metrics.spans import Span, spans_of
from cleancut.errors import RetryableError
from cleancut.types import EpochInfo
from tests.support.documented import blocks, commands
from tests.support.patience import PATIENCE_S
from tests.unit.cut_files import CutFiles
from tests.unit.test_exporter import collector, commit, cuts
from tests.unit.test_history_records import History, history, record
from tests.vectors.cut_writer import QUERY_ID

__all__ = ["cuts", "history"]
QUERY = {"query": "q", "location": "s3://bucket/q"}
MS = 1_000_000


def record_epochs(history: History, *epochs: int) -> list[EpochInfo]:
    history.write([record(epoch) for epoch in epochs])
    return recorded(history.root, epochs[0])


def by_name(spans: Sequence[Span]) -> dict[str, Span]:
    return {span.name: span for span in spans}


def test_an_epoch_has_spans_of_its_phases(history: History) -> None:
    """Record 41 of the vectors: 2300 ms until its cut, 40 ms of them in the commit."""
    (info,) = record_epochs(history, 41)
    spans = list(spans_of(info))
    assert len({span.id for span in spans}) == len(spans)
    written_ms = round(info.written.timestamp() * 1000)
    (root, *parts) = spans
    begin_ms = root.begin_ms
    assert (root.parent, root.begin_ms, root.end_ms) == (None, written_ms - 2300, written_ms + 9)
    assert root.attributes["cleancut.slow.kind"] == "straggler"
    assert root.attributes["cleancut.in_flight_rows"] == 12
    # Each span is within its parent.
    known = {span.id: span for span in spans}
    for span in parts:
        assert span.parent is not None
        around = known[span.parent]
        assert around.begin_ms <= span.begin_ms <= span.end_ms <= around.end_ms, span
    named = by_name(spans)
    commit = named["commit"]
    assert (commit.begin_ms, commit.end_ms) == (written_ms - 40, written_ms)
    phases = [span for span in spans if span.parent == "commit"]
    assert [span.end_ms - span.begin_ms for span in phases] == [
        info.timings[f"{span.name.removeprefix('commit: ')}Ms"] for span in phases
    ]
    assert (named["source"].begin_ms, named["source"].end_ms) == (begin_ms, begin_ms + 5)
    assert (named["planning"].begin_ms, named["planning"].end_ms) == (begin_ms + 5, begin_ms + 15)
    sink_ms = written_ms - 40 - 1
    assert (named["sink"].begin_ms, named["sink"].end_ms) == (sink_ms - 4, sink_ms)
    state = named["state operators"]
    assert (state.begin_ms, state.end_ms) == (sink_ms - 4 - 2220, sink_ms - 4)
    assert named["map side"].end_ms == state.begin_ms
    cut = named["write of the cut"]
    assert (cut.begin_ms, cut.end_ms) == (written_ms, written_ms + 9)


def test_the_slowest_stores_are_children_of_their_operators(history: History) -> None:
    (info,) = record_epochs(history, 41)
    assert info.slowest
    spans = list(spans_of(info))
    stores = [span for span in spans if span.name.startswith("store ")]
    assert len(stores) == len(info.slowest)
    longest: dict[int, int] = {}
    for store in info.slowest:
        longest[store.operator] = max(longest.get(store.operator, 0), store.ms)
    for span in spans:
        if span.parent == "" and span.name.startswith("operator "):
            assert span.end_ms - span.begin_ms == longest.pop(int(span.name.split()[1]))
            # Their start times are unknown.
            assert span.attributes["cleancut.begin"] == "assumed"
    assert longest == {}
    first, info_of_first = stores[0], info.slowest[0]
    assert first.end_ms - first.begin_ms == info_of_first.ms
    assert first.attributes["cleancut.partition"] == info_of_first.partition
    assert first.attributes["cleancut.executor"] == info_of_first.executor
    assert first.attributes["host.name"] == info_of_first.host


def test_unmeasured_phases_have_no_span(history: History) -> None:
    (info,) = record_epochs(history, 41)
    bare = replace(
        info, duration_ms=None, commit_ms=None, cut_ms=None, slowest=None, slow=None, requests=None
    )
    (root,) = spans_of(bare)
    assert root.begin_ms == root.end_ms
    assert not [name for name in root.attributes if "slow" in name or "requests" in name]


def received(bodies: Sequence[bytes]) -> Iterator[tuple[dict[str, str], Any]]:
    """Yields the spans with the attributes of their resource."""
    for body in bodies:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            where = {at.key: at.value.string_value for at in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    yield where, span


def test_a_collector_gets_a_trace_of_each_epoch(history: History) -> None:
    epochs = record_epochs(history, 41, 42)
    with collector("/v1/traces") as (url, bodies):
        sender = SpanSender(url)
        sender.send(epochs, QUERY)
        again = SpanSender(f"{url}/")
        again.send(epochs[:1], QUERY)
        sender.close()
        again.close()
    (first, second) = bodies
    sent = list(received([first]))
    assert {where["service.name"] for where, _ in sent} == {"cleancut"}
    assert {where["cleancut.location"] for where, _ in sent} == {"s3://bucket/q"}
    traces: dict[bytes, list[Any]] = {}
    for _, span in sent:
        traces.setdefault(span.trace_id, []).append(span)
    assert len(traces) == 2
    for info, spans in zip(epochs, traces.values(), strict=True):
        assert len({span.span_id for span in spans}) == len(spans)
        expected = list(spans_of(info))
        ids = {one.id: span.span_id for one, span in zip(expected, spans, strict=True)}
        for one, span in zip(expected, spans, strict=True):
            assert span.name == one.name
            assert span.parent_span_id == (b"" if one.parent is None else ids[one.parent])
            times = (span.start_time_unix_nano, span.end_time_unix_nano)
            assert times == (one.begin_ms * MS, one.end_ms * MS)
            attributes = {
                at.key: at.value.string_value or at.value.int_value for at in span.attributes
            }
            assert attributes == one.attributes
    # A repeated export has the same ids.
    repeated = {(span.trace_id, span.span_id) for _, span in received([second])}
    assert repeated == {(span.trace_id, span.span_id) for span in next(iter(traces.values()))}


def test_the_documented_command_is_one() -> None:
    ((_, *arguments),) = commands(blocks("docs/operate/monitoring.md", "sh")[1])
    parsed = _cli._parser().parse_args(arguments)
    assert (parsed.otlp, parsed.spans) == ("http://collector:4318", True)


def test_an_unreachable_collector_receives_the_spans_later(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cleancut._metrics.span_sender._TIMEOUT_S", 0.2)
    epochs = record_epochs(history, 41, 42, 43)
    with collector("/v1/traces") as (url, bodies):
        pass
    sender = SpanSender(url)
    with pytest.raises(RetryableError, match="spans of 2 epochs") as raised:
        sender.send(epochs[:2], QUERY)
    assert raised.value.error_id == "CLEANCUT_SPAN_EXPORT_FAILED"
    with collector("/v1/traces") as (other, bodies):
        sender._exporter = SpanSender(other)._exporter
        sender.send(epochs[2:], QUERY)
        sender.send([], QUERY)
    sender.close()
    numbers = [
        at.value.int_value
        for _, span in received(bodies)
        for at in span.attributes
        if at.key == "cleancut.epoch"
    ]
    assert numbers == [41, 42, 43]


def test_the_command_exports_epochs_recorded_after_its_first_scan(cuts: CutFiles) -> None:
    """To a collector that also receives metrics, which are sent separately."""
    notes = History(cuts.root)
    notes.write([record(epoch) for epoch in range(3)])
    with collector("/v1/traces") as (url, bodies):
        command = [sys.executable, "-m", "cleancut", "exporter", str(cuts.location)]
        options = ["--every", "0.1", "--otlp", url, "--spans"]
        process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert re.fullmatch(r"sending to http://.*\n", process.stdout.readline())
            until = time.monotonic() + PATIENCE_S
            while not bodies:
                assert time.monotonic() < until
                # Epochs that were recorded before its first scan are not exported.
                notes.write([record(commit(cuts))])
                time.sleep(0.3)
            process.terminate()
            assert process.wait(PATIENCE_S) == _cli.OK
        finally:
            process.kill()
            process.wait()
    sent = list(received(bodies))
    assert {where["cleancut.query"] for where, _ in sent} == {QUERY_ID}
    first = sent[0][1].attributes[0].value.int_value
    epochs = recorded(notes.root, first)[: sum(not span.parent_span_id for _, span in sent)]
    assert (first >= 3, epochs[0].epoch) == (True, first)
    wanted = [span.name for info in epochs for span in spans_of(info)]
    assert [span.name for _, span in sent] == wanted
