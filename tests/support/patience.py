"""The limit of every wait in the tests.

A wait polls for its condition and ends when the condition holds, so that the limit costs time only
where a test fails. It is long, because a busy machine must not fail a test.
"""

import time
from collections.abc import Callable

PATIENCE_S = 600.0


def wait_until(
    condition: Callable[[], object],
    *,
    every_s: float = 0.02,
    otherwise: Callable[[], object] = lambda: "the condition does not hold",
) -> None:
    """Polls until `condition` holds.

    Raises:
        AssertionError: with the result of `otherwise`, if it does not hold in `PATIENCE_S`.
    """
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, otherwise()
        time.sleep(every_s)
