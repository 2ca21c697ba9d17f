"""The epochs of a query as a list with a plot."""

from collections.abc import Iterator
from textwrap import fill
from typing import TYPE_CHECKING

from cleancut._checkpoint.read.epoch_info import EpochInfo
from cleancut._checkpoint.read.plots import plot_epochs
from cleancut._checkpoint.read.prices import PRICES, PriceList
from cleancut._display.info_list import InfoList
from cleancut._display.tables import width

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PAGE = "https://cleancut.io/operate/watching.html"
# Number of slow epochs whose reasons are printed in full.
_REASONS = 3


class EpochHistory(InfoList[EpochInfo]):
    """The cost of each epoch, ordered by epoch. A slice is an `EpochHistory` too."""

    def __str__(self) -> str:
        """The table, followed by the reasons of the last slow epochs and links."""
        return "\n".join([super().__str__(), *self._notes()])

    def _notes(self) -> Iterator[str]:
        for info in [info for info in self if info.slow is not None][-_REASONS:]:
            slow = info.slow
            assert slow is not None
            yield fill(
                f"Epoch {info.epoch} was slow ({slow.kind}), {slow.typical_ms} ms are usual: "
                f"{slow.detail}.",
                width(),
            )
        growth = self[-1].in_flight_growth if self else None
        if growth is not None:
            yield fill(f"{growth[:1].upper()}{growth[1:]}.", width())
        if self:
            yield f"The columns and the reasons: {_PAGE}"

    def plot(self, prices: PriceList = PRICES[0]) -> "Figure":
        """Plots the durations of epochs by phase, in-flight rows, and requests with their cost.

        Args:
            prices: price list that converts requests to dollars.

        Returns:
            A figure of matplotlib, which a notebook displays; `savefig` writes it to a file.

        Raises:
            RequestError: CLEANCUT_DEPENDENCY_MISSING, without the extra `cleancut[plot]`.
            ValueError: there are no epochs.
        """
        return plot_epochs(self, prices)
