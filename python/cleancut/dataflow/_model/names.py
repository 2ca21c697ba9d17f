"""Builds and parses the names below the location of a dataflow; docs/FORMAT.md, "Dataflow".

No other module knows their format.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

NOTE = "dataflow.json"
MEMBERS = "members"
COORDINATORS = "coordinator"
VECTORS = "vectors"
REQUESTS = "requests"
ANSWERS = "answers"
ATTENDING = "attending"
SAVEPOINTS = "savepoints"
MOVED = "moved"

_NAME = r"[A-Za-z0-9_-]{1,64}"
_MEMBER = re.compile(rf"{MEMBERS}/({_NAME})\.json")
_ATTENDING = re.compile(rf"{ATTENDING}/({_NAME})\.json")
_SAVEPOINT = re.compile(rf"{SAVEPOINTS}/({_NAME})\.json")
_COORDINATOR = re.compile(rf"{COORDINATORS}/([0-9]{{20}})\.(json|ended)")
_VECTOR = re.compile(rf"{VECTORS}/([0-9]{{20}})\.json")
_REQUEST = re.compile(rf"{REQUESTS}/([0-9]{{20}})\.json")
_ANSWER = re.compile(rf"{ANSWERS}/([0-9]{{20}})-({_NAME})\.json")
_PIN = re.compile(r"flow-([0-9a-f]{8})-([0-9]{1,16})-([0-9]{1,16})-([0-9]{1,8})")
_PLACE_BYTES = 16


def is_name(text: str) -> bool:
    """Whether a member or a savepoint may have this name."""
    return re.fullmatch(_NAME, text) is not None


def member_name(member: str) -> str:
    """The object with the checkpoint location of a member."""
    return f"{MEMBERS}/{member}.json"


def members(names: Iterable[str]) -> list[str]:
    """The members among the names of objects, in order."""
    return sorted(match[1] for match in map(_MEMBER.fullmatch, names) if match)


def attending_name(member: str) -> str:
    """The object that registers that a member answers requests to close its epochs."""
    return f"{ATTENDING}/{member}.json"


def attending(names: Iterable[str]) -> set[str]:
    """The registered members among the names of objects."""
    return {match[1] for match in map(_ATTENDING.fullmatch, names) if match}


def savepoint_name(savepoint: str) -> str:
    """The object that names a vector."""
    return f"{SAVEPOINTS}/{savepoint}.json"


def savepoints(names: Iterable[str]) -> list[str]:
    """The savepoints among the names of objects, in order."""
    return sorted(match[1] for match in map(_SAVEPOINT.fullmatch, names) if match)


def coordinator_name(generation: int) -> str:
    """The object by which a coordinator takes over the dataflow."""
    return f"{COORDINATORS}/{generation:020d}.json"


def ended_name(generation: int) -> str:
    """The object that records the end of a coordinator."""
    return f"{COORDINATORS}/{generation:020d}.ended"


def generations(names: Iterable[str]) -> tuple[int, bool]:
    """The last generation among the names of objects, 0 for none, and whether it has ended."""
    taken, ended = [0], set()
    for match in map(_COORDINATOR.fullmatch, names):
        if match and match[2] == "json":
            taken.append(int(match[1]))
        elif match:
            ended.add(int(match[1]))
    return max(taken), max(taken) in ended


def early(names: Iterable[str], generation: int) -> list[str]:
    """The objects of coordinators before a generation, among the names of objects."""
    matches = (match for match in map(_COORDINATOR.fullmatch, names) if match)
    return [match[0] for match in matches if int(match[1]) < generation]


def vector_name(number: int) -> str:
    """The object that has a vector."""
    return f"{VECTORS}/{number:020d}.json"


def vectors(names: Iterable[str]) -> list[int]:
    """The numbers among the names of objects, ascending."""
    return sorted(int(match[1]) for match in map(_VECTOR.fullmatch, names) if match)


def request_name(number: int) -> str:
    """The object that requests members to close their epochs for a vector."""
    return f"{REQUESTS}/{number:020d}.json"


def requests(names: Iterable[str]) -> list[int]:
    """The numbers of requests among the names of objects, ascending."""
    return sorted(int(match[1]) for match in map(_REQUEST.fullmatch, names) if match)


def answer_name(number: int, member: str) -> str:
    """The object by which a member answers a request."""
    return f"{ANSWERS}/{number:020d}-{member}.json"


def answers(names: Iterable[str]) -> list[tuple[int, str]]:
    """Number and member of the answers among the names of objects."""
    return sorted((int(match[1]), match[2]) for match in map(_ANSWER.fullmatch, names) if match)


def moved_name(channel: str) -> str:
    """The object with the new location of a channel."""
    return f"{MOVED}/{blake2b(channel.encode(), digest_size=_PLACE_BYTES).hexdigest()}.json"


@dataclass(frozen=True, order=True)
class Pin:
    """The name of a vector's savepoint in the checkpoint of a member.

    Attributes:
        number: number of the vector.
        generation: generation of the coordinator.
        attempt: number of the coordinator's attempt, so that each name is used once.
        flow: the id of the dataflow, eight hexadecimal digits.
    """

    number: int
    generation: int
    attempt: int
    flow: str

    def __str__(self) -> str:
        return f"flow-{self.flow}-{self.number}-{self.generation}-{self.attempt}"

    @staticmethod
    def parse(savepoint: str) -> "Pin | None":
        """Parses the name of a savepoint; None if it is not of a vector."""
        match = _PIN.fullmatch(savepoint)
        if match is None:
            return None
        return Pin(int(match[2]), int(match[3]), int(match[4]), match[1])
