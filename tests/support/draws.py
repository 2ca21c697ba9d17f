"""The number of random cases: an eighth of a campaign in `make test`, all of it in `make chaos`."""

import os


def draws(most: int) -> int:
    """Returns the number of random cases of `most` to run, at least one.

    The environment variable CLEANCUT_ALL_DRAWS selects all of them.
    """
    return most if "CLEANCUT_ALL_DRAWS" in os.environ else (most + 7) // 8
