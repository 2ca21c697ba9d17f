"""A coordinator that renders itself in a notebook, and the charts of a history."""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cleancut import Checkpoint, RequestError
from cleancut._checkpoint.read.prices import PRICES, request_costs
from cleancut._query.live_view import LiveView
from cleancut.errors import error_of
from cleancut.types import EpochHistory, PriceList
from tests.support.patience import PATIENCE_S
from tests.unit.rendered_html import RenderedHtml
from tests.unit.test_coordinator import Facade, coordinator

ROOTS = Path(__file__).parents[1] / "checkpoints/0.1.0/pages"


class WatchedQuery:
    """A coordinator over a fake JVM, with a stored history before its first epoch."""

    location = "s3://bucket/q"

    def __init__(self, facade: Facade) -> None:
        self._coordinator = coordinator(facade)
        self.fails = False

    def status(self) -> Any:
        if self.fails:
            raise error_of("CLEANCUT_COORDINATOR_MISSING", location=self.location)
        return self._coordinator.status()

    def history(self) -> EpochHistory:
        return Checkpoint(ROOTS).history()


def drawn(facade: Facade, **options: float) -> tuple[LiveView, list[str], WatchedQuery]:
    outputs: list[str] = []
    watched = WatchedQuery(facade)
    view = LiveView(watched, outputs.append, every_s=0.02, **options)
    return view, outputs, watched


def wait_for(outputs: list[str], words: str) -> RenderedHtml:
    until = time.monotonic() + PATIENCE_S
    while words not in outputs[-1]:
        assert time.monotonic() < until, outputs[-1]
        time.sleep(0.01)
    return RenderedHtml(outputs[-1])


def courses(shown: RenderedHtml) -> dict[str, str]:
    """Returns the label of each drawing by the name of its value."""
    labels = [drawing.get("aria-label", "") for drawing in shown.labelled_drawings()]
    return dict(label.split(": ", 1) for label in labels)


def is_live(view: LiveView) -> bool:
    """Whether the view is still updated."""
    return view.is_live


def test_the_view_is_updated_until_the_run_ends() -> None:
    facade = Facade(40)
    view, outputs, _ = drawn(facade)
    view.start()
    try:
        first = RenderedHtml(outputs[0])
        stored = Checkpoint(ROOTS).history()
        # The eighteen epochs of the store and the last one of the driver.
        assert len(stored) == 18
        assert courses(first)["in-flight rows"].startswith("19 values")
        assert "Updated every 0.02 s while the query runs." in first.words
        assert "committed" in first.words
        assert "40" in first.words
        facade.committed = [41]
        wait_for(outputs, ">41<")
        assert courses(RenderedHtml(outputs[-1]))["in-flight rows"].startswith("20 values")
        # An epoch that is reported twice is drawn once.
        facade.committed = [41]
        time.sleep(0.1)
        assert courses(RenderedHtml(outputs[-1]))["in-flight rows"].startswith("20 values")
        assert is_live(view)
    finally:
        view.stop()
    shown = wait_for(outputs, "It was stopped.")
    assert not is_live(view)
    count = len(outputs)
    time.sleep(0.1)
    assert len(outputs) == count
    assert "It was stopped." in shown.words


def test_the_footer_reports_the_end_of_the_run() -> None:
    ended = Facade(7)
    foot = ended.status

    def without_run(location: str, session: Any) -> str:
        return foot(location, session).replace('"runId": "r", ', "")

    view, outputs, _ = drawn(ended)
    view.start()
    ended.status = without_run  # type: ignore[method-assign]
    assert "The run has ended." in wait_for(outputs, "The run has ended.").words
    view, outputs, _ = drawn(Facade(7), longest_s=0.05)
    view.start()
    wait_for(outputs, "The time limit is reached; display it again to continue.")
    view, outputs, watched = drawn(Facade(7))
    view.start()
    watched.fails = True
    wait_for(outputs, "The driver is not reachable any more: [CLEANCUT_COORDINATOR_MISSING]")
    until = time.monotonic() + PATIENCE_S
    while view.is_live and time.monotonic() < until:
        time.sleep(0.01)
    assert not view.is_live


def test_a_run_that_waits_to_take_over_has_not_ended() -> None:
    facade = Facade(7)
    facade.parked = {"parkedSinceMs": 5000, "isStandby": False}
    view, outputs, _ = drawn(facade)
    view.start()
    try:
        facade.parked = {"parkedSinceMs": 5000, "isStandby": True}
        assert "Updated every" in wait_for(outputs, "parked as standby").words
        assert is_live(view)
    finally:
        view.stop()


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Returns the outputs of a notebook: whether each is new or an update, and its content."""
    from IPython import display

    outputs: list[tuple[str, str]] = []

    class Handle:
        def __init__(self, name: str) -> None:
            self.name = name

        def update(self, content: Any) -> None:
            outputs.append((self.name, content.data))

    def show(content: Any, *, display_id: bool) -> Handle:
        assert display_id
        name = f"output {sum(name.startswith('new') for name, _ in outputs)}"
        outputs.append((f"new {name}", content.data))
        return Handle(name)

    monkeypatch.setattr(display, "display", show)
    return outputs


def test_a_query_is_drawn_in_one_output_at_a_time(displayed: list[tuple[str, str]]) -> None:
    query = coordinator(Facade(7))
    query._ipython_display_()
    assert [name for name, _ in displayed] == ["new output 0"]
    second = query.watch(every=0.02)
    try:
        names = [name for name, _ in displayed]
        assert names == ["new output 0", "output 0", "new output 1"]
        assert "It was stopped." in displayed[1][1]
        until = time.monotonic() + PATIENCE_S
        while displayed[-1][0] != "output 1" and time.monotonic() < until:
            time.sleep(0.01)
        assert displayed[-1][0] == "output 1"
    finally:
        second.stop()


def test_a_history_is_plotted_with_its_values() -> None:
    history = Checkpoint(ROOTS).history()
    figure = history.plot()
    times, rows, requests, dollars = figure.axes
    at = [epoch.epoch for epoch in history]
    bars = {
        str(container.get_label()): {
            round(bar.get_center()[0]): bar.get_height() for bar in container
        }
        for container in times.containers
    }
    # Earlier releases recorded no phase before the commit.
    assert set(bars) == {"commit", "other"}
    for epoch in history:
        commit = (epoch.commit_ms or 0) + (epoch.cut_ms or 0)
        assert bars["commit"][epoch.epoch] == pytest.approx(commit / 1000)
        rest = max((epoch.duration_ms or 0) - (epoch.commit_ms or 0), 0)
        assert bars["other"][epoch.epoch] == pytest.approx(rest / 1000)
    line = rows.lines[0]
    assert list(line.get_xdata()) == at  # type: ignore[arg-type]
    in_flight_rows = [epoch.in_flight_rows for epoch in history]
    assert list(line.get_ydata()) == in_flight_rows  # type: ignore[arg-type]
    counts = [bar.get_height() for bar in requests.containers[0]]
    assert counts == [epoch.requests.total.requests for epoch in history if epoch.requests]
    expected = [
        request_costs(epoch.requests, PRICES[0]) * 1e6 for epoch in history if epoch.requests
    ]
    assert list(np.asarray(dollars.lines[0].get_ydata())) == pytest.approx(expected)
    assert PRICES[0].name in requests.get_title()
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]


def test_a_slice_is_plotted_with_chosen_prices() -> None:
    history = Checkpoint(ROOTS).history()[-3:]
    assert isinstance(history, EpochHistory)
    free = PriceList("free", PRICES[0].as_of, 0.0, 0.0, 0.0)
    figure = history.plot(free)
    assert len(figure.axes[0].containers[0]) == 3
    assert set(figure.axes[3].lines[0].get_ydata()) == {0.0}  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no epoch"):
        EpochHistory().plot()


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(RequestError, match=r"\.whl\[plot\]"):
        Checkpoint(ROOTS).history().plot()
