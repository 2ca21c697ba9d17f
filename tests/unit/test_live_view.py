"""A coordinator that shows itself in a notebook, and a history that is drawn."""

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
from tests.unit.shown import Shown
from tests.unit.test_coordinator import Facade, coordinator

ROOTS = Path(__file__).parents[1] / "checkpoints/0.1.0/pages"


class Watched:
    """A coordinator over a facade of the JVM's, with a stored history before it."""

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


def drawn(facade: Facade, **options: float) -> tuple[LiveView, list[str], Watched]:
    outputs: list[str] = []
    watched = Watched(facade)
    view = LiveView(watched, outputs.append, every_s=0.02, **options)
    return view, outputs, watched


def wait_for(outputs: list[str], words: str) -> Shown:
    until = time.monotonic() + PATIENCE_S
    while words not in outputs[-1]:
        assert time.monotonic() < until, outputs[-1]
        time.sleep(0.01)
    return Shown(outputs[-1])


def courses(shown: Shown) -> dict[str, str]:
    """What each drawing says of itself, by the figure's name."""
    labels = [of.get("aria-label", "") for of in shown.spoken()]
    return dict(label.split(": ", 1) for label in labels)


def is_live(view: LiveView) -> bool:
    """As it is by now."""
    return view.is_live


def test_it_is_drawn_again_with_each_epoch_until_the_run_has_ended() -> None:
    facade = Facade(40)
    view, outputs, _ = drawn(facade)
    view.start()
    try:
        first = Shown(outputs[0])
        stored = Checkpoint(ROOTS).history()
        # The store's eighteen, and the driver's last.
        assert len(stored) == 18
        assert courses(first)["rows in flight"].startswith("19 values")
        assert "Drawn again every 0.02 s while the query runs." in first.words
        assert "committed" in first.words
        assert "40" in first.words
        facade.committed = [41]
        wait_for(outputs, ">41<")
        assert courses(Shown(outputs[-1]))["rows in flight"].startswith("20 values")
        # One epoch that is told twice is drawn once.
        facade.committed = [41]
        time.sleep(0.1)
        assert courses(Shown(outputs[-1]))["rows in flight"].startswith("20 values")
        assert is_live(view)
    finally:
        view.stop()
    shown = wait_for(outputs, "It was stopped.")
    assert not is_live(view)
    count = len(outputs)
    time.sleep(0.1)
    assert len(outputs) == count
    assert "It was stopped." in shown.words


def test_each_end_is_told_at_the_foot() -> None:
    ended = Facade(7)
    told = ended.status

    def without_run(location: str, session: Any) -> str:
        return told(location, session).replace('"runId": "r", ', "")

    view, outputs, _ = drawn(ended)
    view.start()
    ended.status = without_run  # type: ignore[method-assign]
    assert "The run has ended." in wait_for(outputs, "The run has ended.").words
    view, outputs, _ = drawn(Facade(7), longest_s=0.05)
    view.start()
    wait_for(outputs, "It is drawn no longer; show it again to go on.")
    view, outputs, watched = drawn(Facade(7))
    view.start()
    watched.fails = True
    wait_for(outputs, "The driver cannot be asked any more: [CLEANCUT_COORDINATOR_MISSING]")
    until = time.monotonic() + PATIENCE_S
    while view.is_live and time.monotonic() < until:
        time.sleep(0.01)
    assert not view.is_live


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What a notebook was told: whether anew or in the place of an output, and what."""
    from IPython import display

    told: list[tuple[str, str]] = []

    class Handle:
        def __init__(self, name: str) -> None:
            self.name = name

        def update(self, of: Any) -> None:
            told.append((self.name, of.data))

    def show(of: Any, *, display_id: bool) -> Handle:
        assert display_id
        name = f"output {sum(name.startswith('new') for name, _ in told)}"
        told.append((f"new {name}", of.data))
        return Handle(name)

    monkeypatch.setattr(display, "display", show)
    return told


def test_a_query_is_drawn_in_one_output_at_a_time(displayed: list[tuple[str, str]]) -> None:
    own = coordinator(Facade(7))
    own._ipython_display_()
    assert [name for name, _ in displayed] == ["new output 0"]
    second = own.watch(every=0.02)
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


def test_a_history_is_drawn_as_it_is_told() -> None:
    history = Checkpoint(ROOTS).history()
    figure = history.plot()
    times, rows, requests, dollars = figure.axes
    at = [of.epoch for of in history]
    tasks, gates, cuts = (
        {round(bar.get_center()[0]): bar.get_height() for bar in bars} for bars in times.containers
    )
    for of in history:
        assert gates[of.epoch] == pytest.approx((of.commit_ms or 0) / 1000)
        assert cuts[of.epoch] == pytest.approx((of.cut_ms or 0) / 1000)
        rest = max((of.duration_ms or 0) - (of.commit_ms or 0), 0)
        assert tasks[of.epoch] == pytest.approx(rest / 1000)
    line = rows.lines[0]
    assert list(line.get_xdata()) == at  # type: ignore[arg-type]
    assert list(line.get_ydata()) == [of.in_flight_rows for of in history]  # type: ignore[arg-type]
    counts = [bar.get_height() for bar in requests.containers[0]]
    assert counts == [of.requests.total.requests for of in history if of.requests]
    expected = [request_costs(of.requests, PRICES[0]) * 1e6 for of in history if of.requests]
    assert list(np.asarray(dollars.lines[0].get_ydata())) == pytest.approx(expected)
    assert PRICES[0].name in requests.get_title()
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]


def test_a_slice_is_drawn_too_and_prices_are_chosen() -> None:
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
    with pytest.raises(RequestError, match=r"cleancut\[plot\]"):
        Checkpoint(ROOTS).history().plot()
