"""Slopes of samples over time, with confidence intervals."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_RESAMPLES = 2000
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Slope:
    """The slope of a quantity.

    Attributes:
        per_hour: the slope in units per hour.
        low: lower limit of the 95 % confidence interval.
        high: upper limit of the 95 % confidence interval.
        mean: the mean of the quantity.
        hours: the duration of the samples.
    """

    per_hour: float
    low: float
    high: float
    mean: float
    hours: float

    def grows(self, share: float) -> bool:
        """Whether the quantity has grown by more than a share of its mean, even at the low limit.

        Args:
            share: the accepted growth over the duration of the samples.
        """
        return self.low * self.hours > share * abs(self.mean)


def slope(hours: Sequence[float], values: Sequence[float], seed: int = 1) -> Slope:
    """Fits a line, and resamples blocks of its residuals, because adjacent samples are similar.

    Raises:
        ValueError: with fewer than eight samples.
    """
    if len(hours) < 8:
        raise ValueError(f"{len(hours)} samples are too few for a slope")
    at = np.asarray(hours) - np.mean(hours)
    measured = np.asarray(values, dtype=float)
    mean = float(measured.mean())
    fitted = float(at @ measured / (at @ at))
    residuals = measured - mean - fitted * at
    # Rows of indices: as many residuals, in random blocks of adjacent ones.
    block = max(2, round(len(at) ** 0.5))
    draw = np.random.default_rng(seed)
    blocks = draw.integers(0, len(at) - block + 1, size=(_RESAMPLES, -(-len(at) // block), 1))
    resampled = (blocks + np.arange(block)).reshape(_RESAMPLES, -1)[:, : len(at)]
    slopes = fitted + residuals[resampled] @ at / (at @ at)
    outside = 100 * (1 - _CONFIDENCE) / 2
    low, high = np.percentile(slopes, [outside, 100 - outside])
    return Slope(fitted, float(low), float(high), mean, hours[-1] - hours[0])
