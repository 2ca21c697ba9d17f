"""What class files define and what they refer to.

Source of the format: The Java Virtual Machine Specification, Java SE 17, chapter 4.
"""

import struct
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_UTF8, _CLASS, _FIELD, _METHOD, _INTERFACE_METHOD, _NAME_AND_TYPE = 1, 7, 9, 10, 11, 12
# Bytes of a constant behind its tag, by tag; text has a length of its own.
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4}
_SIZES |= {18: 4, 19: 2, 20: 2}
_WIDE = {5, 6}
_WITHOUT_MEMBERS = {"java/lang/Object", "java/io/Serializable", "java/lang/Cloneable"}
_OF_EVERY_OBJECT = {
    "clone", "equals", "getClass", "hashCode", "notify", "notifyAll", "toString", "wait",
}  # fmt: skip


class Reference(NamedTuple):
    """A class, or a field or method of a class, that a class file names."""

    owner: str
    member: tuple[str, str] | None = None


@dataclass(frozen=True)
class ClassFile:
    """One class: its name, the classes it extends, its own members and all that it refers to."""

    name: str
    parents: tuple[str, ...]
    members: frozenset[tuple[str, str]]
    references: frozenset[Reference]


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

    _, this, parent, count = struct.unpack_from(">HHHH", data, at)
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
        tuple(parents),
        frozenset((text(name), text(kind)) for name, kind in members),
        frozenset(references),
    )


def read_classes(jar: Path, prefix: str) -> Iterator[ClassFile]:
    """All classes of a jar whose names begin with `prefix`."""
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.endswith(".class") and name.startswith(prefix):
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


def _members(data: bytes, at: int) -> list[tuple[int, int]]:
    found = []
    for _ in ("fields", "methods"):
        (count,) = struct.unpack_from(">H", data, at)
        at += 2
        for _ in range(count):
            _, name, kind, attributes = struct.unpack_from(">HHHH", data, at)
            found.append((name, kind))
            at += 8
            for _ in range(attributes):
                (length,) = struct.unpack_from(">I", data, at + 2)
                at += 6 + length
    return found


class Library:
    """The classes of some jars, in which references are looked up as a JVM does."""

    def __init__(self, jars: Iterable[Path]) -> None:
        self._archives = {
            name.removesuffix(".class"): archive
            for archive in map(zipfile.ZipFile, jars)
            for name in archive.namelist()
            if name.endswith(".class")
        }
        self._classes: dict[str, ClassFile] = {}

    def lacks(self, reference: Reference) -> bool:
        """Whether it is certain that the class or the member is not there."""
        if reference.owner not in self._archives:
            return True
        return reference.member is not None and not self._has(reference.owner, reference.member)

    def _has(self, owner: str, member: tuple[str, str]) -> bool:
        if owner not in self._archives:
            # What a class inherits from outside of the jars is not known here.
            return owner not in _WITHOUT_MEMBERS or member[0] in _OF_EVERY_OBJECT
        found = self._class(owner)
        return member in found.members or any(self._has(p, member) for p in found.parents)

    def _class(self, name: str) -> ClassFile:
        if name not in self._classes:
            self._classes[name] = read_class(self._archives[name].read(f"{name}.class"))
        return self._classes[name]
