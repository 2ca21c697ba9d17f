"""Reads and writes the objects of a dataflow; each is created if absent, and none is changed."""

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
class DataflowStore:
    """The objects at the location of a dataflow.

    Attributes:
        location: the location as it was given.
        objects: the objects there.
        machinery: clock and thread pool.
    """

    location: str
    objects: Place
    machinery: Machinery

    # The dataflow itself

    def flow_id(self, *, create: bool = False) -> str:
        """Eight hexadecimal digits that identify the dataflow.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND, it does not exist, and `create` is false.
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
        """An object; None if it does not exist."""
        try:
            return self.objects.read(name)
        except FileNotFoundError:
            return None

    def create(self, name: str, body: bytes) -> bool:
        """Creates an object; returns whether it exists with this content.

        A request with a lost response is repeated below, and then finds its own object.
        """
        return self.objects.create(name, body) or self.read(name) == body

    # Members

    def members(self) -> dict[str, MemberRecord]:
        """All queries, by name."""
        member_names = names.members(self.objects.list(names.MEMBERS))
        records = self.machinery.each(self._member, member_names)
        return {record.name: record for record in records if record is not None}

    def _member(self, name: str) -> MemberRecord | None:
        where = names.member_name(name)
        body = self.read(where)
        return None if body is None else MemberRecord.decode(body, self.objects.path(where))

    def signs(self) -> tuple[object, object]:
        """Details that change with the members and with moved channels; two listings."""
        details = self.machinery.each(self.objects.details, (names.MEMBERS, names.MOVED))
        return dict(details[0]), dict(details[1])

    def moved(self) -> Mapping[str, str]:
        """The channels that have moved since offsets named them: old and new location."""

        def parsed(fields: dict[str, Any]) -> tuple[str, str]:
            return typed(fields, "from", str), typed(fields, "to", str)

        def pair(name: str) -> tuple[str, str] | None:
            body = self.read(name)
            return None if body is None else decoded(body, self.objects.path(name), parsed)

        pairs = self.machinery.each(pair, sorted(self.objects.list(names.MOVED)))
        return dict(pair_found for pair_found in pairs if pair_found is not None)

    def move(self, channel: str, to: str) -> None:
        """Records the new location of a channel."""
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
        """An entry of the log; None if it does not exist."""
        name = names.vector_name(number)
        body = self.read(name)
        return None if body is None else VectorRecord.decode(body, self.objects.path(name), number)

    def entries(self) -> list[VectorRecord]:
        """All entries of the log, ascending.

        Raises:
            CorruptedError: CLEANCUT_DATAFLOW_CORRUPTED.
        """
        return [entry for entry in self.machinery.each(self.entry, self.log()) if entry is not None]

    def savepoints(self) -> dict[str, int]:
        """The vector number of each savepoint."""

        def number(name: str) -> int | None:
            where = names.savepoint_name(name)
            body = self.read(where)
            if body is None:
                return None
            path = self.objects.path(where)
            return int(decoded(body, path, lambda fields: typed(fields, "number", int)))

        savepoint_names = names.savepoints(self.objects.list(names.SAVEPOINTS))
        numbers = self.machinery.each(number, savepoint_names)
        return {
            name: vector_number
            for name, vector_number in zip(savepoint_names, numbers, strict=True)
            if vector_number is not None
        }

    def name_vector(self, savepoint: str, number: int) -> bool:
        """Names a vector; False if another one has the name."""
        return self.create(names.savepoint_name(savepoint), encoded({"number": number}))

    def is_once(self, generation: int) -> bool:
        """Whether a coordinator was started for a single operation."""
        name = names.coordinator_name(generation)
        body = self.read(name)
        if body is None:
            return False
        return decoded(body, self.objects.path(name), lambda fields: fields.get("once") is True)

    # Requests and answers

    def answer(self, number: int, member: str) -> AnswerRecord | None:
        """The answer of a member to a request; None if there is none."""
        name = names.answer_name(number, member)
        body = self.read(name)
        return None if body is None else AnswerRecord.decode(body, self.objects.path(name))

    def fenced(self, generation: int, detail: str) -> CleancutError:
        """The error of a coordinator that another one has fenced."""
        return error_of(
            "CLEANCUT_DATAFLOW_FENCED",
            location=self.location,
            generation=generation,
            detail=detail,
        )

    def refused(self, operation: str, reason: str) -> CleancutError:
        """The error for a refused operation on this dataflow."""
        return refused(self.location, operation, reason)


def refused(location: str, operation: str, reason: str) -> CleancutError:
    """The error for a refused operation on the dataflow at a location."""
    return error_of(
        "CLEANCUT_DATAFLOW_REFUSED", location=location, operation=operation, reason=reason
    )
