"""The definitions and references of class files.

Source of the format: The Java Virtual Machine Specification, Java SE 17, chapter 4.
"""

import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_UTF8, _CLASS, _FIELD, _METHOD, _INTERFACE_METHOD, _NAME_AND_TYPE = 1, 7, 9, 10, 11, 12
# Bytes of a constant after its tag, by tag; text has a length field.
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4}
_SIZES |= {18: 4, 19: 2, 20: 2}
_WIDE = {5, 6}
_STATIC, _INTERFACE, _ABSTRACT = 0x0008, 0x0200, 0x0400
_WITHOUT_MEMBERS = {"java/lang/Object", "java/io/Serializable", "java/lang/Cloneable"}
_OF_EVERY_OBJECT = {
    "clone", "equals", "getClass", "hashCode", "notify", "notifyAll", "toString", "wait",
}  # fmt: skip


Member = tuple[str, str]
"""Name and type of a field or a method."""


class Reference(NamedTuple):
    """A class, or a field or method of a class, that a class file references."""

    owner: str
    member: Member | None = None


@dataclass(frozen=True)
class ClassFile:
    """One class: its name, its parents, its own members and all references.

    Attributes:
        members: with their access flags.
    """

    name: str
    flags: int
    parents: tuple[str, ...]
    members: Mapping[Member, int]
    references: frozenset[Reference]

    @property
    def is_abstract(self) -> bool:
        """Whether it cannot be constructed, so that it may leave methods unimplemented."""
        return bool(self.flags & (_ABSTRACT | _INTERFACE))


def read_class(data: bytes) -> ClassFile:
    """Parses a class file."""
    pool, at = _constants(data)

    def text(index: int) -> str:
        value = pool[index][1]
        assert isinstance(value, bytes)
        return value.decode("utf-8", "replace")

    def numbers(index: int) -> tuple[int, ...]:
        value = pool[index][1]
        assert not isinstance(value, bytes)
        return value

    def class_name(index: int) -> str:
        return text(numbers(index)[0])

    flags, this, parent, count = struct.unpack_from(">HHHH", data, at)
    interfaces = struct.unpack_from(f">{count}H", data, at + 8)
    parents = [class_name(i) for i in (parent, *interfaces) if i]
    members = _members(data, at + 8 + 2 * count)
    references = set()
    for tag, value in pool.values():
        if tag == _CLASS:
            references.add(Reference(text(value[0])))
        elif tag in (_FIELD, _METHOD, _INTERFACE_METHOD):
            owner, described = value
            name, kind = numbers(described)
            owner_name = class_name(owner)
            references.add(Reference(owner_name, (text(name), text(kind))))
    return ClassFile(
        class_name(this),
        flags,
        tuple(parents),
        {(text(name), text(kind)): access for access, name, kind in members},
        frozenset(references),
    )


def read_classes(jar: Path, *, without: str) -> Iterator[ClassFile]:
    """Reads all classes of a jar except those whose names begin with `without`."""
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.endswith(".class") and not name.startswith(without):
                yield read_class(archive.read(name))


def _constants(data: bytes) -> tuple[dict[int, tuple[int, bytes | tuple[int, ...]]], int]:
    (count,) = struct.unpack_from(">H", data, 8)
    pool: dict[int, tuple[int, bytes | tuple[int, ...]]] = {}
    at, index = 10, 1
    while index < count:
        tag = data[at]
        if tag == _UTF8:
            (length,) = struct.unpack_from(">H", data, at + 1)
            pool[index] = (tag, data[at + 3 : at + 3 + length])
            at += 3 + length
        else:
            size = _SIZES[tag]
            if tag in (_CLASS, _FIELD, _METHOD, _INTERFACE_METHOD, _NAME_AND_TYPE):
                pool[index] = (tag, struct.unpack_from(f">{size // 2}H", data, at + 1))
            at += 1 + size
        index += 2 if tag in _WIDE else 1
    return pool, at


def _members(data: bytes, at: int) -> list[tuple[int, int, int]]:
    members = []
    for _ in ("fields", "methods"):
        (count,) = struct.unpack_from(">H", data, at)
        at += 2
        for _ in range(count):
            access, name, kind, attributes = struct.unpack_from(">HHHH", data, at)
            members.append((access, name, kind))
            at += 8
            for _ in range(attributes):
                (length,) = struct.unpack_from(">I", data, at + 2)
                at += 6 + length
    return members


class Library:
    """The classes of some jars, in which references are resolved like in a JVM."""

    def __init__(self, jars: Iterable[Path]) -> None:
        self._archives = {
            name.removesuffix(".class"): archive
            for archive in map(zipfile.ZipFile, jars)
            for name in archive.namelist()
            if name.endswith(".class")
        }
        self._classes: dict[str, ClassFile] = {}

    def is_missing(self, reference: Reference) -> bool:
        """Whether the class or the member certainly does not exist."""
        if reference.owner not in self._archives:
            return True
        return reference.member is not None and not self._has(reference.owner, reference.member)

    def unimplemented(self, class_file: ClassFile) -> set[Reference]:
        """Returns the methods that callers of its parents may call, and that the class lacks."""
        if class_file.is_abstract:
            return set()
        family = [class_file, *self._ancestors(class_file)]
        has = {
            member
            for one in family
            for member, access in one.members.items()
            if not access & (_ABSTRACT | _STATIC)
        }
        return {
            Reference(one.name, member)
            for one in family
            for member, access in one.members.items()
            if access & _ABSTRACT and member not in has and member[0] not in _OF_EVERY_OBJECT
        }

    def _ancestors(self, class_file: ClassFile) -> Iterator[ClassFile]:
        for parent in class_file.parents:
            if parent in self._archives:
                yield self._class(parent)
                yield from self._ancestors(self._class(parent))

    def _has(self, owner: str, member: Member) -> bool:
        if owner not in self._archives:
            # Members inherited from outside of the jars are unknown here.
            return owner not in _WITHOUT_MEMBERS or member[0] in _OF_EVERY_OBJECT
        owner_file = self._class(owner)
        return member in owner_file.members or any(self._has(p, member) for p in owner_file.parents)

    def _class(self, name: str) -> ClassFile:
        if name not in self._classes:
            self._classes[name] = read_class(self._archives[name].read(f"{name}.class"))
        return self._classes[name]
