"""Builds and parses the names below the path of `EpochFiles`; see docs/use/sinks/files.md.

No other module knows their format. All of them are hidden from Spark's own file readers, which
would otherwise read unpublished files.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

OWNER = "_query.json"
EPOCHS = "_epochs"
FILES = "_files"
HIDDEN = "_taken_back"
UNHIDDEN = "_given_back"
OPERATIONS = "_acts"
PREPARED = "_prepared"
EXPIRED = "_expired"
UNDONE = "_undone"
# A partition column for Spark, so that it can read files of many attempts together.
ATTEMPT_COLUMN = "cleancut_attempt"

_MANIFEST = re.compile(r"([0-9]{20})\.json")
_HIDDEN = re.compile(r"([0-9]{20})-([0-9a-f]{32})\.json")
_PREPARED = re.compile(r"([0-9]{20})-([0-9a-f]{16})")
_ATTEMPT = re.compile(rf"{ATTEMPT_COLUMN}=([0-9]{{20}})-([0-9a-f]{{32}})")


@dataclass(frozen=True, order=True)
class Attempt:
    """One attempt to write an epoch, with its own directory.

    Attributes:
        epoch: Spark's batch id.
        token: 32 lower-case hexadecimal digits, unique to the attempt.
    """

    epoch: int
    token: str

    @property
    def directory(self) -> str:
        """Its directory below the sink's path."""
        return f"{FILES}/{ATTEMPT_COLUMN}={self.epoch:020d}-{self.token}"


@dataclass(frozen=True, order=True)
class Prepared:
    """One attempt to prepare an epoch in a two-phase target.

    Attributes:
        epoch: Spark's batch id.
        token: 16 lower-case hexadecimal digits, unique to the attempt.
    """

    epoch: int
    token: str

    @property
    def handle(self) -> str:
        """Its name in the target."""
        return f"cleancut_{self.epoch}_{self.token}"

    @property
    def directory(self) -> str:
        """The name of the record that the target may have it, below the sink's path."""
        return f"{PREPARED}/{self.epoch:020d}-{self.token}"


def expiry_name(number: int) -> str:
    """The name of an expiry record, below the sink's path."""
    return f"{EXPIRED}/{number:020d}.json"


def expiry_numbers(names: Iterable[str]) -> list[int]:
    """The numbers of the expiry records among the names in `EXPIRED`; ascending."""
    return manifest_epochs(names)


def prepared_in(names: Iterable[str]) -> list[Prepared]:
    """The attempts whose records are among the names in `PREPARED`, ordered by epoch."""
    matched = filter(None, map(_PREPARED.fullmatch, names))
    return sorted(Prepared(int(match[1]), match[2]) for match in matched)


def manifest_name(epoch: int) -> str:
    """The name of an epoch's manifest, below the sink's path."""
    return f"{EPOCHS}/{epoch:020d}.json"


def operation_name(epoch: int) -> str:
    """The name of the record of an operation, below the sink's path."""
    return f"{OPERATIONS}/{epoch:020d}.json"


def undone_name(epoch: int) -> str:
    """The name of the record that an epoch is undone, below the sink's path."""
    return f"{UNDONE}/{epoch:020d}.json"


def undone_epochs(names: Iterable[str]) -> set[int]:
    """The epochs whose records are among the names in `UNDONE`."""
    return set(manifest_epochs(names))


def manifest_epochs(names: Iterable[str]) -> list[int]:
    """The epochs whose records are among the names in `EPOCHS`, or in `OPERATIONS`; ascending."""
    return sorted(int(match[1]) for match in map(_MANIFEST.fullmatch, names) if match)


def hidden_name(attempt: Attempt) -> str:
    """The name of a hidden epoch's manifest, below the sink's path."""
    return f"{HIDDEN}/{attempt.epoch:020d}-{attempt.token}.json"


def hidden_attempts(names: Iterable[str]) -> list[Attempt]:
    """The attempts among the names in `HIDDEN` or in `UNHIDDEN`, ordered by epoch."""
    matched = filter(None, map(_HIDDEN.fullmatch, names))
    return sorted(Attempt(int(match[1]), match[2]) for match in matched)


def unhidden_name(attempt: Attempt) -> str:
    """The name of the record that an attempt was unhidden by hand, below the sink's path."""
    return f"{UNHIDDEN}/{attempt.epoch:020d}-{attempt.token}.json"


def attempts(names: Iterable[str]) -> Iterator[Attempt]:
    """The attempts whose directories are among the names in `FILES`."""
    for match in map(_ATTEMPT.fullmatch, names):
        if match:
            yield Attempt(int(match[1]), match[2])
