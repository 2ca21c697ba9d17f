"""Builds and parses the names below the path of `EpochFiles`; see docs/guides/sinks.md.

No other module knows what they look like. All of them are hidden from Spark's own readers of files,
which would take what was never published for results.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

OWNER = "_query.json"
EPOCHS = "_epochs"
FILES = "_files"
TAKEN_BACK = "_taken_back"
GIVEN_BACK = "_given_back"
ACTS = "_acts"
PREPARED = "_prepared"
EXPIRED = "_expired"
UNDONE = "_undone"
# A partition column to Spark, so that files of many attempts can be read at once.
ATTEMPT_COLUMN = "cleancut_attempt"

_MANIFEST = re.compile(r"([0-9]{20})\.json")
_TAKEN_BACK = re.compile(r"([0-9]{20})-([0-9a-f]{32})\.json")
_PREPARED = re.compile(r"([0-9]{20})-([0-9a-f]{16})")
_ATTEMPT = re.compile(rf"{ATTEMPT_COLUMN}=([0-9]{{20}})-([0-9a-f]{{32}})")


@dataclass(frozen=True, order=True)
class Attempt:
    """One try to write an epoch, and the directory that is its own.

    Attributes:
        epoch: Spark's batch id.
        token: 32 lower-case hexadecimal digits that no other attempt has.
    """

    epoch: int
    token: str

    @property
    def directory(self) -> str:
        """Its place below the sink's path."""
        return f"{FILES}/{ATTEMPT_COLUMN}={self.epoch:020d}-{self.token}"


@dataclass(frozen=True, order=True)
class Prepared:
    """One try to prepare an epoch in a target of two phases.

    Attributes:
        epoch: Spark's batch id.
        token: 16 lower-case hexadecimal digits that no other try has.
    """

    epoch: int
    token: str

    @property
    def handle(self) -> str:
        """Its name in the target."""
        return f"cleancut_{self.epoch}_{self.token}"

    @property
    def directory(self) -> str:
        """The place of the record that it may be there, below the sink's path."""
        return f"{PREPARED}/{self.epoch:020d}-{self.token}"


def expiry_name(number: int) -> str:
    """The place of an expiry record, below the sink's path."""
    return f"{EXPIRED}/{number:020d}.json"


def expiry_numbers(names: Iterable[str]) -> list[int]:
    """The expiry records that are among the names in `EXPIRED`; ascending."""
    return manifest_epochs(names)


def prepared_in(names: Iterable[str]) -> list[Prepared]:
    """The tries whose records are among the names in `PREPARED`, by their epochs."""
    matched = filter(None, map(_PREPARED.fullmatch, names))
    return sorted(Prepared(int(found[1]), found[2]) for found in matched)


def manifest_name(epoch: int) -> str:
    """The place of an epoch's manifest below the sink's path."""
    return f"{EPOCHS}/{epoch:020d}.json"


def act_name(epoch: int) -> str:
    """The place of what the sink notes of an act, below its path."""
    return f"{ACTS}/{epoch:020d}.json"


def undone_name(epoch: int) -> str:
    """The place of the record that an epoch is undone, below the sink's path."""
    return f"{UNDONE}/{epoch:020d}.json"


def undone_epochs(names: Iterable[str]) -> set[int]:
    """The epochs whose records are among the names in `UNDONE`."""
    return set(manifest_epochs(names))


def manifest_epochs(names: Iterable[str]) -> list[int]:
    """The epochs whose records are among the names in `EPOCHS`, or in `ACTS`; ascending."""
    return sorted(int(found[1]) for found in map(_MANIFEST.fullmatch, names) if found)


def taken_back_name(attempt: Attempt) -> str:
    """The place of a manifest that was taken back, below the sink's path."""
    return f"{TAKEN_BACK}/{attempt.epoch:020d}-{attempt.token}.json"


def taken_back(names: Iterable[str]) -> list[Attempt]:
    """The attempts whose manifests are among the names in `TAKEN_BACK`, by their epochs."""
    matched = filter(None, map(_TAKEN_BACK.fullmatch, names))
    return sorted(Attempt(int(found[1]), found[2]) for found in matched)


def given_back_name(attempt: Attempt) -> str:
    """The place of the record that an attempt was given back by hand, below the sink's path."""
    return f"{GIVEN_BACK}/{attempt.epoch:020d}-{attempt.token}.json"


def given_back(names: Iterable[str]) -> list[Attempt]:
    """The attempts whose records are among the names in `GIVEN_BACK`, by their epochs."""
    return taken_back(names)


def attempts(names: Iterable[str]) -> Iterator[Attempt]:
    """The attempts whose directories are among the names in `FILES`."""
    for found in map(_ATTEMPT.fullmatch, names):
        if found:
            yield Attempt(int(found[1]), found[2])
