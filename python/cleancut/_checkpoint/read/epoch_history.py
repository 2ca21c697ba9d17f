"""The epochs of a query as a list that can be drawn."""

from typing import TYPE_CHECKING

from cleancut._checkpoint.read.epoch_info import EpochInfo
from cleancut._checkpoint.read.plots import plot_epochs
from cleancut._checkpoint.read.prices import PRICES, PriceList
from cleancut._display.info_list import InfoList

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class EpochHistory(InfoList[EpochInfo]):
    """What each epoch cost, by their epochs; a slice is such a list."""

    def plot(self, prices: PriceList = PRICES[0]) -> "Figure":
        """Draws it: what epochs took by phase, rows in flight, and requests with their costs.

        Args:
            prices: by which requests are made dollars.

        Returns:
            A figure of matplotlib, which shows itself in a notebook; `savefig` writes it to a file.

        Raises:
            RequestError: CLEANCUT_DEPENDENCY_MISSING, without the extra `cleancut[plot]`.
            ValueError: there is no epoch.
        """
        return plot_epochs(self, prices)
