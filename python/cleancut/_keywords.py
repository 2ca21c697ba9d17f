"""Refuses keyword arguments that a function does not have."""

import difflib
from collections.abc import Collection, Iterable


def check_keywords(given: Iterable[str], known: Collection[str]) -> None:
    """Checks the names of keyword arguments, as Python does for a signature that has them.

    Raises:
        TypeError: a name is unknown.
    """
    for name in given:
        if name not in known:
            nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
            raise TypeError(f"{name!r} is not an option; the nearest is {nearest!r}")
