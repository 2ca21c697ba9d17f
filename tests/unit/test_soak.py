"""The slopes of a soak find growth, and no growth in noise."""

import random
from statistics import fmean

import pytest

from tests.soak.__main__ import table
from tests.soak.slopes import Slope, slope

HOURS = [at / 360 for at in range(720)]


def _noise(seed: int, size: int = 720) -> list[float]:
    """Noise whose adjacent values are similar, as in samples of memory."""
    draw, value, values = random.Random(seed), 0.0, []
    for _ in range(size):
        value = 0.7 * value + draw.gauss(0, 1)
        values.append(value)
    return values


@pytest.mark.parametrize("seed", range(8))
def test_growth_is_found_in_noise(seed: int) -> None:
    values = [100 + 10 * at + noise for at, noise in zip(HOURS, _noise(seed), strict=True)]
    one = slope(HOURS, values, seed)
    assert one.low < one.per_hour < one.high
    assert one.grows(0.05)


@pytest.mark.parametrize("seed", range(8))
def test_noise_without_growth_does_not_grow(seed: int) -> None:
    one = slope(HOURS, [100 + noise for noise in _noise(seed)], seed)
    assert not one.grows(0.05)
    assert one.mean == pytest.approx(100, abs=1)


def test_the_interval_is_wider_with_fewer_samples() -> None:
    noise = _noise(1)
    few = slope(HOURS[:60], noise[:60])
    many = slope(HOURS, noise)
    assert few.high - few.low > 2 * (many.high - many.low)


def test_the_interval_contains_the_slope_nearly_always() -> None:
    hours = HOURS[:120]
    hits = 0
    for seed in range(40):
        values = [at + noise for at, noise in zip(hours, _noise(seed, 120), strict=True)]
        one = slope(hours, values, seed)
        hits += one.low <= 1 <= one.high
    assert hits >= 32


def test_constant_values_have_no_slope() -> None:
    one = slope(HOURS, [5.0] * len(HOURS))
    assert (one.per_hour, one.low, one.high) == pytest.approx((0, 0, 0), abs=1e-9)
    assert one.mean == fmean([5.0])
    assert not one.grows(0.05)


def test_few_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="7 samples are too few"):
        slope(HOURS[:7], HOURS[:7])


def test_the_table_names_what_grows() -> None:
    flat, growing = Slope(0, -1, 1, 100, 2), Slope(10, 9, 11, 100, 2)
    names = ["heap_mb", "jvm_rss_mb", "python_rss_mb", "jvm_threads", "python_threads"]
    names += ["jvm_files", "python_files", "objects", "object_mb", "requests_an_hour"]
    slopes = {name: growing if name == "objects" else flat for name in names}
    text = table(slopes, is_judged=True)
    grown = "without those of owners | 100.0 | +10.00 | +9.00 to +11.00 | **yes** |"
    assert f"| objects of the checkpoint, {grown}" in text
    assert text.count("| no |") == len(names) - 1
    assert table(slopes, is_judged=False).count("| too early |") == len(names)
