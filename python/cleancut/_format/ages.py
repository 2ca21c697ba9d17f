"""Ages and times in text form."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

_AGE = re.compile(r"([0-9]{1,9})\s*([dhms])")
_UNITS: Mapping[str, str] = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}


def age_of(given: timedelta | str) -> timedelta:
    """An age, given as such or as a text such as "7d", "36h", "30m" or "90s".

    Raises:
        ValueError: the text is no age.
    """
    if isinstance(given, timedelta):
        return given
    match = _AGE.fullmatch(given.strip())
    if match is None:
        raise ValueError(f"an age is a number of d, h, m or s, such as 7d, and not {given!r}")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def age_ms(given: timedelta | str) -> int:
    """An age in whole milliseconds. Raises ValueError as `age_of` does."""
    return age_of(given) // timedelta(milliseconds=1)


def epoch_or_time(given: str) -> int | datetime:
    """An epoch, or a time in ISO 8601.

    Raises:
        ValueError: the text is neither.
    """
    return int(given) if given.isdecimal() else datetime.fromisoformat(given)


def moment(ms: int) -> datetime:
    """A time in milliseconds since 1970, as a datetime in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC)
