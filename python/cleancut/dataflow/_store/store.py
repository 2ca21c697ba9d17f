"""The objects of a dataflow, read and written; each is created if absent, and none is changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cleancut._format.fields import typed
from cleancut._storage.objects import Place
from cleancut.dataflow._model import names
from cleancut.dataflow._model.facts import place_of
from cleancut.dataflow._model.records import (
    FORMAT,
    AnswerRecord,
    MemberRecord,
    VectorRecord,
    decoded,
    encoded,
)
from cleancut.dataflow._store.machinery import Machinery
from cleancut.errors import CleancutError, error_of

_ID_BYTES = 4


@dataclass(frozen=True)
class FlowStore:
    """What lies at the location of a dataflow.

    Attributes:
        location: as it was given.
        objects: what lies there.
        machinery: clock, and how requests go beside each other.
    """

    location: str
    objects: Place
    machinery: Machinery

    # The dataflow itself

    def flow_id(self, *, create: bool = False) -> str:
        """Eight hexadecimal digits that tell the dataflow from others.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND, there is none, and none is to be made.
            CorruptedError: CLEANCUT_DATAFLOW_CORRUPTED.
        """
        body = self.read(names.NOTE)
        if body is None and create:
            made = encoded({"format": FORMAT, "id": self.machinery.token()[: 2 * _ID_BYTES]})
            self.objects.create(names.NOTE, made)
            body = self.read(names.NOTE)
        if body is None:
            raise error_of(
                "CLEANCUT_DATAFLOW_NOT_FOUND",
                location=self.location,
                detail=f"{self.objects.path(names.NOTE)} does not exist",
            )

        def parsed(fields: dict[str, Any]) -> str:
            if typed(fields, "format", str) != FORMAT:
                raise ValueError(f"its format is {fields['format']}")
            return str(typed(fields, "id", str))

        return decoded(body, self.objects.path(names.NOTE), parsed)

    def read(self, name: str) -> bytes | None:
        """An object; None if there is none."""
        try:
            return self.objects.read(name)
        except FileNotFoundError:
            return None

    def create(self, name: str, body: bytes) -> bool:
        """Creates an object; whether it is there as it was to be.

        A request whose answer was lost is repeated below, and then meets what it has written.
        """
        return self.objects.create(name, body) or self.read(name) == body

    # Members

    def members(self) -> dict[str, MemberRecord]:
        """All queries, by their names."""
        found = names.members(self.objects.list(names.MEMBERS))
        records = self.machinery.each(self._member, found)
        return {of.name: of for of in records if of is not None}

    def _member(self, name: str) -> MemberRecord | None:
        where = names.member_name(name)
        body = self.read(where)
        return None if body is None else MemberRecord.decode(body, self.objects.path(where))

    def signs(self) -> tuple[object, object]:
        """What changes when a member or a channel comes, goes or moves; two listings."""
        of = self.machinery.each(self.objects.details, (names.MEMBERS, names.MOVED))
        return dict(of[0]), dict(of[1])

    def moved(self) -> Mapping[str, str]:
        """The channels that lie elsewhere than readers' offsets say: from where, and where to."""

        def parsed(fields: dict[str, Any]) -> tuple[str, str]:
            return typed(fields, "from", str), typed(fields, "to", str)

        def pair(name: str) -> tuple[str, str] | None:
            body = self.read(name)
            return None if body is None else decoded(body, self.objects.path(name), parsed)

        found = self.machinery.each(pair, sorted(self.objects.list(names.MOVED)))
        return dict(of for of in found if of is not None)

    def move(self, channel: str, to: str) -> None:
        """Notes that a channel lies elsewhere."""
        before, after = place_of(channel), place_of(to)
        name = names.moved_name(before)
        body = encoded({"from": before, "to": after})
        if not self.create(name, body):
            self.objects.delete(name)
            self.create(name, body)

    # The log of vectors

    def log(self) -> list[int]:
        """The numbers of all entries, ascending; one listing."""
        return names.vectors(self.objects.list(names.VECTORS))

    def entry(self, number: int) -> VectorRecord | None:
        """An entry of the log; None if there is none."""
        name = names.vector_name(number)
        body = self.read(name)
        return None if body is None else VectorRecord.decode(body, self.objects.path(name), number)

    def entries(self) -> list[VectorRecord]:
        """All entries of the log, ascending.

        Raises:
            CorruptedError: CLEANCUT_DATAFLOW_CORRUPTED.
        """
        return [of for of in self.machinery.each(self.entry, self.log()) if of is not None]

    def savepoints(self) -> dict[str, int]:
        """The number of the vector that each savepoint has."""

        def number(name: str) -> int | None:
            where = names.savepoint_name(name)
            body = self.read(where)
            if body is None:
                return None
            path = self.objects.path(where)
            return int(decoded(body, path, lambda of: typed(of, "number", int)))

        found = names.savepoints(self.objects.list(names.SAVEPOINTS))
        numbers = self.machinery.each(number, found)
        return {name: of for name, of in zip(found, numbers, strict=True) if of is not None}

    def name_vector(self, savepoint: str, number: int) -> bool:
        """Gives a vector a name; False if another one has it."""
        return self.create(names.savepoint_name(savepoint), encoded({"number": number}))

    def is_once(self, generation: int) -> bool:
        """Whether a coordinator was to do one thing, and to end."""
        name = names.coordinator_name(generation)
        body = self.read(name)
        if body is None:
            return False
        return decoded(body, self.objects.path(name), lambda of: of.get("once") is True)

    # Requests and answers

    def answer(self, number: int, member: str) -> AnswerRecord | None:
        """What a member has answered; None if it has not."""
        name = names.answer_name(number, member)
        body = self.read(name)
        return None if body is None else AnswerRecord.decode(body, self.objects.path(name))

    def fenced(self, generation: int, detail: str) -> CleancutError:
        """The error of a coordinator that another one has followed."""
        return error_of(
            "CLEANCUT_DATAFLOW_FENCED",
            location=self.location,
            generation=generation,
            detail=detail,
        )

    def refused(self, act: str, reason: str) -> CleancutError:
        """The error for what cannot be done with this dataflow."""
        return refused(self.location, act, reason)


def refused(location: str, act: str, reason: str) -> CleancutError:
    """The error for what cannot be done with the dataflow at a location."""
    return error_of("CLEANCUT_DATAFLOW_REFUSED", location=location, operation=act, reason=reason)
