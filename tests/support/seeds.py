"""Seeds: fixed where a change is judged, random where faults are hunted."""

import os
import random


def fixed(default: int) -> int:
    """The seed of a test that must give the same answer each time; SEED in the environment wins."""
    return int(os.environ.get("SEED", default))


def chaos_runs() -> int:
    """How often the tests that break things at random are run: CLEANCUT_CHAOS_RUNS, or once."""
    return int(os.environ.get("CLEANCUT_CHAOS_RUNS", "1"))


def hunting(default: int) -> int:
    """As `fixed` for one run; for several a random one, so that each hunt looks elsewhere."""
    return fixed(default if chaos_runs() == 1 else random.SystemRandom().randrange(1_000_000))
