"""The epochs of a query as a list with a plot."""

from typing import TYPE_CHECKING

from cleancut._checkpoint.read.epoch_info import EpochInfo
from cleancut._checkpoint.read.plots import plot_epochs
from cleancut._checkpoint.read.prices import PRICES, PriceList
from cleancut._display.info_list import InfoList

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class EpochHistory(InfoList[EpochInfo]):
    """The cost of each epoch, ordered by epoch. A slice is an `EpochHistory` too."""

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
