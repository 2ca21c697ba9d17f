"""Costs of epochs, from their cuts, and the costs per day."""

import json
import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from cleancut import Checkpoint, RequestError
from cleancut._checkpoint.read.epoch_info import SLOW_KINDS
from cleancut._checkpoint.read.prices import CLASSES, PRICES, daily_costs
from cleancut._cli import main as _cli
from cleancut._format.cut.costs import RequestCount
from cleancut.types import EpochInfo, PriceList
from tests.unit.checkpoint_files import CheckpointFiles
from tests.unit.cut_files import CutFiles
from tests.unit.rendered_html import RenderedHtml
from tests.unit.test_cli import run
from tests.vectors.cut_writer import WRITTEN_MS, channels, costs, share

ROOT = Path(__file__).parents[2]
MS_A_DAY = 86_400_000


def commit(cuts: CutFiles, epoch: int, **fields: Any) -> None:
    timings = {"epochMs": 700 + epoch, "gateMs": 30, "previousCutMs": 20 + epoch}
    cuts.commit(([], 0), ([], 0), **{"timings": timings, "costs": costs()} | fields)


@pytest.fixture
def cuts(files: CheckpointFiles) -> CutFiles:
    """Epoch 0 is of a release without counters, 1 to 3 are of one run, 4 and 5 of the next."""
    cuts = CutFiles(files)
    cuts.commit(([], 0), ([], 0))
    for epoch in range(1, 4):
        commit(cuts, epoch)
    for epoch in range(4, 6):
        # The query was stopped for a day.
        commit(cuts, epoch, generation=2, writtenMs=WRITTEN_MS + MS_A_DAY + 3000 * epoch)
    return cuts


def history(cuts: CutFiles) -> list[EpochInfo]:
    return Checkpoint(cuts.location).history()


def test_a_cut_without_costs_is_read_as_before(cuts: CutFiles) -> None:
    first = history(cuts)[0]
    assert (first.epoch, first.stores, first.commit_ms) == (0, 2, 12)
    nothing = (first.duration_ms, first.requests, first.frames, first.slowest, first.costs)
    assert nothing == (None,) * 5
    assert Checkpoint(cuts.location).cut(0).costs is None


def test_the_history_reports_time_and_requests_of_each_epoch(cuts: CutFiles) -> None:
    epoch = history(cuts)[2]
    assert (epoch.duration_ms, epoch.commit_ms) == (702, 30)
    assert epoch.requests == {
        "create": RequestCount(1, 0, 0),
        "getRange": RequestCount(4, 0, 1),
        "head": RequestCount(1, 0, 0),
        "put": RequestCount(3, 1, 0),
    }
    assert (epoch.retries, epoch.failures) == (1, 1)
    assert (epoch.frames, epoch.frame_bytes) == (2, 40_200)
    assert (epoch.segments, epoch.segment_bytes) == (2, 40_750)
    assert (epoch.bytes_sent, epoch.bytes_received) == (41_200, 3_000_000_070)
    assert epoch.slowest is not None
    assert [(time.partition, time.executor, time.ms) for time in epoch.slowest] == [
        (3, "1", 412),
        (4, "", 9),
    ]


def test_the_next_cut_of_a_run_has_the_duration_of_its_predecessor(cuts: CutFiles) -> None:
    # Epoch 4 belongs to another run, whose first cut lacks the duration of the cut before it.
    assert [epoch.cut_ms for epoch in history(cuts)] == [21, 22, 23, None, 25, None]
    lags = [epoch.cut_lag_ms for epoch in history(cuts)]
    assert lags == [33, 52, 53, None, 55, None]


def test_a_cut_shows_its_costs(cuts: CutFiles) -> None:
    text = str(Checkpoint(cuts.location).cut())
    assert re.search(r"requests of executors +getRange 4, put 1\n", text)
    assert re.search(r"slowest store +0/3 default 412 ms on 1 at host-1\n", text)
    assert re.search(r"written in the epoch +40750 bytes, 2 frames, 2 segments\n", text)


def test_the_history_reports_the_shuffle_inputs_of_each_epoch(cuts: CutFiles) -> None:
    commit(cuts, 6, channels=channels())
    before, last = history(cuts)[-2:]
    assert (before.mode, before.in_flight_rows, before.operators) == ("aligned", 0, ())
    assert (before.alignment_ms, before.barrier_to_capture_ms) == (None, None)
    assert (last.mode, last.in_flight_rows) == ("unaligned", 20)
    assert (last.alignment_ms, last.barrier_to_capture_ms) == (772, 562)
    (operator,) = last.operators
    assert (operator.operator, operator.mode, operator.overtaken) == (0, "unaligned", (3,))
    assert (operator.alignment_ms, operator.barrier_to_capture_ms) == (772, 562)
    assert operator.capture_ms == 540
    assert (operator.in_flight_rows, operator.in_flight_bytes) == (20, 640)
    assert (operator.replayed_rows, operator.over_limit_rows) == (12, 7)

    cut = Checkpoint(cuts.location).cut(6)
    assert [
        (shuffle_input.partition, shuffle_input.arrived_ms, shuffle_input.overtaken_ms)
        for shuffle_input in cut.shuffle_inputs
    ] == [
        (3, 812, 250),
        (4, 40, None),
        (5, None, None),
    ]
    assert re.search(r"operator 0 +unaligned, 20 in-flight rows, alignment 772 ms", str(cut))
    assert Checkpoint(cuts.location).cut(5).shuffle_inputs == []


def test_the_history_shows_itself_as_a_table(cuts: CutFiles) -> None:
    history = Checkpoint(cuts.location).history()
    head = str(history).split("\n", maxsplit=1)[0].split()
    assert head[:3] == ["epoch", "written", "duration_ms"]
    assert "phases" in head
    assert "costs" not in head
    assert "9" in RenderedHtml(history._repr_html_()).column("requests")
    assert str(history[-1].requests) == "create 1, getRange 4, head 1, put 3"


def test_the_history_is_json(cuts: CutFiles, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "history", str(cuts.location), "--json")
    assert status == _cli.OK
    history = json.loads(out)
    assert [epoch["epoch"] for epoch in history] == [0, 1, 2, 3, 4, 5]
    assert history[0]["requests"] is None
    assert history[5]["requests"]["put"] == {"requests": 3, "retries": 1, "failures": 0}
    assert history[5]["costs"]["executors"]["segment_bytes"] == 40_300
    assert history[5]["slowest"][0]["host"] == "host-1"


def test_daily_costs_follow_from_requests_and_intervals(cuts: CutFiles) -> None:
    """Epochs 1 to 3 took one second each, and epoch 5 took three; 0 and 4 are the first of their
    runs.
    """
    s3, r2 = Checkpoint(cuts.location).cost_per_day()
    epochs = 4 / 6 * 86_400
    assert s3.epochs_per_day == pytest.approx(epochs)
    # put 3 + create 1, and getRange 4 + head 1, in each epoch.
    assert (s3.class_a_per_day, s3.class_b_per_day) == pytest.approx((4 * epochs, 5 * epochs))
    assert s3.free_per_day == 0
    stored = sum(path.stat().st_size for path in cuts.root.glob("*/**/*") if path.is_file())
    assert s3.stored_bytes == stored > 1000
    assert s3.requests_usd == pytest.approx(epochs * (4 * 0.005 + 5 * 0.0004) / 1000)
    assert r2.requests_usd == pytest.approx(epochs * (4 * 4.50 + 5 * 0.36) / 1e6)
    assert s3.storage_usd == pytest.approx(stored / 1e9 * 0.023 / 30)
    assert r2.storage_usd == pytest.approx(stored / 1e9 * 0.015 / 30)
    assert s3.usd == s3.requests_usd + s3.storage_usd


def test_prices_may_be_others(cuts: CutFiles) -> None:
    mine = PriceList("mine", date(2030, 1, 1), 0.0, 1_000_000.0, 0.0)
    (cost,) = Checkpoint(cuts.location).cost_per_day([mine])
    assert (cost.store, cost.as_of) == ("mine", date(2030, 1, 1))
    assert cost.usd == pytest.approx(cost.class_b_per_day)


def test_the_estimate_is_marked_as_one(cuts: CutFiles, capsys: pytest.CaptureFixture[str]) -> None:
    costs = Checkpoint(cuts.location).cost_per_day()
    for text in (str(costs), costs._repr_html_()):
        assert "This is an estimate" in text
        assert "Class B: get, getRange, head. Free: delete, uploadAbort." in text
    status, out, _ = run(capsys, "costs", str(cuts.location), "--json")
    assert status == _cli.OK
    assert [one["store"] for one in json.loads(out)] == [prices.name for prices in PRICES]
    assert json.loads(out)[0]["as_of"] == PRICES[0].as_of.isoformat()


def test_without_two_cuts_of_one_run_there_is_no_estimate(files: CheckpointFiles) -> None:
    cuts = CutFiles(files)
    cuts.commit(([], 0))
    cuts.commit(([], 0))
    with pytest.raises(RequestError, match="no two cuts of one run with costs") as raised:
        Checkpoint(files.location).cost_per_day()
    assert raised.value.error_id == "CLEANCUT_STATE_NOT_FOUND"


def test_an_unknown_request_is_billed_at_the_highest_price(cuts: CutFiles) -> None:
    one, two = history(cuts)[1:3]
    assert two.requests is not None
    requests = type(two.requests)({"copy": RequestCount(10, 0, 0)})
    costs = daily_costs([one, replace(two, requests=requests)], 0, PRICES)
    assert costs is not None
    assert (costs[0].class_a_per_day, costs[0].class_b_per_day) == (864_000, 0)


def test_requests_are_billed_by_their_class() -> None:
    source = ROOT / "jvm/core/src/main/scala/io/cleancut/objectstore/RequestKind.scala"
    declared = re.findall(
        r'extends RequestKind\("(\w+)", Billing\.(\w+)\)', source.read_text(encoding="utf-8")
    )
    words = {"ClassA": "A", "ClassB": "B", "Free": "free"}
    assert {kind: words[billing] for kind, billing in declared} == CLASSES


def test_a_side_without_requests_is_reported_as_such(files: CheckpointFiles) -> None:
    cuts = CutFiles(files)
    commit(cuts, 0, costs=costs(executors=share({}), slowest=[]))
    cut = Checkpoint(files.location).cut()
    assert re.search(r"requests of executors +nothing\n", str(cut))


def test_the_driver_has_the_same_prices() -> None:
    source = (ROOT / "jvm/core/src/main/scala/io/cleancut/history/StorePrices.scala").read_text()
    prices = dict(re.findall(r"Class([AB])PerMillion = ([\d.]+)", source))
    s3 = PRICES[0]
    assert {request_class: float(price) for request_class, price in prices.items()} == {
        "A": s3.class_a_per_million,
        "B": s3.class_b_per_million,
    }
    stored = re.findall(r"(GbMonth|MonthDays) = ([\d.]+)", source)
    assert dict(stored) == {"GbMonth": f"{s3.gb_month}", "MonthDays": "30"}


def test_the_driver_has_the_same_reasons_for_slow_epochs() -> None:
    source = (ROOT / "jvm/core/src/main/scala/io/cleancut/history/SlowEpochs.scala").read_text()
    named = dict(re.findall(r'val (\w+) = "([a-z-]+)"', source))
    listed = re.search(r"Kinds: Seq\[String\] =\s+Seq\(([^)]+)\) \+\+\s+Seq\(([^)]+)\)", source)
    assert listed is not None
    kinds = re.findall(r"\w+", f"{listed[1]}, {listed[2]}")
    assert [named[name] for name in kinds] == list(SLOW_KINDS)


def test_the_s3a_benchmark_has_the_same_prices() -> None:
    source = (ROOT / "jvm/s3a/src/main/scala/io/cleancut/s3a/Prices.scala").read_text()
    prices = re.findall(r'Prices\("(.+)", ([\d.]+), ([\d.]+)\)', source)
    assert [(name, float(a), float(b)) for name, a, b in prices] == [
        (one.name, one.class_a_per_million, one.class_b_per_million) for one in PRICES
    ]
