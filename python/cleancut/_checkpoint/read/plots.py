"""Drawings of a history by matplotlib, for papers and tickets."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cleancut._checkpoint.read.epoch_info import EpochInfo
from cleancut._checkpoint.read.prices import PriceList, request_costs
from cleancut._packages import extra_package

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MS = 1000


def plot_epochs(epochs: Sequence[EpochInfo], prices: PriceList) -> "Figure":
    """Draws what epochs took, what they left in flight, and what they asked of the store.

    Args:
        epochs: by their numbers.
        prices: by which requests are made dollars.

    Raises:
        RequestError: CLEANCUT_DEPENDENCY_MISSING.
        ValueError: there is no epoch.
    """
    extra_package("matplotlib.figure", feature="plot()", package="matplotlib", extra="plot")
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    if not epochs:
        raise ValueError("there is no epoch to draw")

    class Drawn(Figure):
        """A figure that a notebook shows without pyplot, which would keep it."""

        def _repr_png_(self) -> bytes:
            png = io.BytesIO()
            self.savefig(png, format="png")
            return png.getvalue()

    figure = Drawn(figsize=(9, 8), layout="constrained")
    times, rows, requests = figure.subplots(3, 1, sharex=True)
    _times(times, epochs)
    _rows(rows, epochs)
    _requests(requests, epochs, prices)
    requests.set_xlabel("epoch")
    for axis in (requests.xaxis, rows.yaxis, requests.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    return figure


def _times(axes: "Axes", epochs: Sequence[EpochInfo]) -> None:
    """Phases on top of each other: tasks, gate, and the write of the cut."""
    at = [of.epoch for of in epochs]
    gates = [(of.commit_ms or 0) / _MS for of in epochs]
    whole = [(of.duration_ms or 0) / _MS for of in epochs]
    tasks = [max(all_s - gate, 0.0) for all_s, gate in zip(whole, gates, strict=True)]
    cuts = [(of.cut_ms or 0) / _MS for of in epochs]
    bottom = [0.0] * len(at)
    for name, seconds in (("tasks and sink", tasks), ("gate", gates), ("write of the cut", cuts)):
        axes.bar(at, seconds, bottom=bottom, label=name, width=0.8)
        bottom = [below + own for below, own in zip(bottom, seconds, strict=True)]
    axes.set_ylabel("seconds")
    axes.set_title("What each epoch took")
    axes.legend(loc="upper left")


def _rows(axes: "Axes", epochs: Sequence[EpochInfo]) -> None:
    axes.step([of.epoch for of in epochs], [of.in_flight_rows for of in epochs], where="mid")
    axes.set_ylim(bottom=0, top=None if any(of.in_flight_rows for of in epochs) else 1)
    axes.set_ylabel("rows")
    axes.set_title("Rows in flight after it")


def _requests(axes: "Axes", epochs: Sequence[EpochInfo], prices: PriceList) -> None:
    """Requests as bars, where they are known, and what they cost as a line on its own axis."""
    known = [(of.epoch, of.requests) for of in epochs if of.requests is not None]
    at = [epoch for epoch, _ in known]
    axes.bar(at, [of.total.requests for _, of in known], label="requests", width=0.8)
    axes.set_ylabel("requests")
    axes.set_title(f"Requests, and what they cost at {prices.name}")
    dollars = axes.twinx()
    micros = [request_costs(of, prices) * 1e6 for _, of in known]
    dollars.plot(at, micros, color="black", linewidth=1, marker=".", label="millionths of a dollar")
    dollars.set_ylim(bottom=0)
    dollars.set_ylabel("millionths of a dollar")
