"""Seeds: fixed where a change is judged, random where damage is looked for."""

import os
import random


def fixed(default: int) -> int:
    """The seed of a test that must give the same answer each time; SEED in the environment wins."""
    return int(os.environ.get("SEED", default))


def fresh() -> int:
    """A seed that differs from run to run; SEED in the environment wins."""
    return fixed(random.SystemRandom().randrange(1_000_000))
