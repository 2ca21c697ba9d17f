"""Seeds: fixed in tests of a change, random in searches for faults."""

import os
import random


def fixed(default: int) -> int:
    """Returns the seed of a deterministic test; the environment variable SEED overrides it."""
    return int(os.environ.get("SEED", default))


def chaos_runs() -> int:
    """Returns the number of runs of randomized fault tests: CLEANCUT_CHAOS_RUNS, or one."""
    return int(os.environ.get("CLEANCUT_CHAOS_RUNS", "1"))


def hunting(default: int) -> int:
    """Returns the fixed seed for one run, and a random one for each of several runs."""
    return fixed(default if chaos_runs() == 1 else random.SystemRandom().randrange(1_000_000))
