"""Plots of a history by matplotlib, for papers and tickets."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cleancut._checkpoint.read.epoch_info import OTHER, PHASES, EpochInfo
from cleancut._checkpoint.read.prices import PriceList, request_costs
from cleancut._packages import extra_package

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MS = 1000


def plot_epochs(epochs: Sequence[EpochInfo], prices: PriceList) -> "Figure":
    """Plots the durations, in-flight rows and requests of epochs.

    Args:
        epochs: the epochs, in order.
        prices: price list that converts requests to dollars.

    Raises:
        RequestError: CLEANCUT_DEPENDENCY_MISSING.
        ValueError: there are no epochs.
    """
    extra_package("matplotlib.figure", feature="plot()", package="matplotlib", extra="plot")
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    if not epochs:
        raise ValueError("there is no epoch to draw")

    class Drawn(Figure):
        """A figure that a notebook displays without pyplot, which would retain it."""

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
    """Stacked phases in the order of time; phases that no epoch has are omitted."""
    at = [info.epoch for info in epochs]
    bottom = [0.0] * len(at)
    for name in (*PHASES, OTHER):
        seconds = [info.phases[name] / _MS for info in epochs]
        if any(seconds):
            axes.bar(at, seconds, bottom=bottom, label=name, width=0.8)
            bottom = [below + height for below, height in zip(bottom, seconds, strict=True)]
    axes.set_ylabel("seconds")
    axes.set_title("Duration of each epoch")
    axes.legend(loc="upper left")


def _rows(axes: "Axes", epochs: Sequence[EpochInfo]) -> None:
    axes.step(
        [info.epoch for info in epochs], [info.in_flight_rows for info in epochs], where="mid"
    )
    axes.set_ylim(bottom=0, top=None if any(info.in_flight_rows for info in epochs) else 1)
    axes.set_ylabel("rows")
    axes.set_title("In-flight rows after each epoch")


def _requests(axes: "Axes", epochs: Sequence[EpochInfo], prices: PriceList) -> None:
    """Requests as bars, if they are known, and their cost as a line on its own axis."""
    known = [(info.epoch, info.requests) for info in epochs if info.requests is not None]
    at = [epoch for epoch, _ in known]
    axes.bar(at, [info.total.requests for _, info in known], label="requests", width=0.8)
    axes.set_ylabel("requests")
    axes.set_title(f"Requests and their cost at {prices.name}")
    dollars = axes.twinx()
    micros = [request_costs(info, prices) * 1e6 for _, info in known]
    dollars.plot(at, micros, color="black", linewidth=1, marker=".", label="millionths of a dollar")
    dollars.set_ylim(bottom=0)
    dollars.set_ylabel("millionths of a dollar")
