"""Objects in memory, for tests that read many small ones."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cleancut._storage.objects import Stored


@dataclass
class MemoryObjects:
    """Implements `Place`, and notes what was read.

    Attributes:
        data: the bytes of each object, by name.
        read_names: what was read, whole or in part, in order.
        modified_ms: when an object was written, if that matters.
    """

    data: dict[str, bytes]
    read_names: list[str] = field(default_factory=list)
    modified_ms: dict[str, int] = field(default_factory=dict)

    def path(self, name: str) -> str:
        return f"memory/{name}"

    def list(self, below: str) -> Mapping[str, int]:
        return {name: stored.size for name, stored in self.details(below).items()}

    def details(self, below: str) -> Mapping[str, Stored]:
        matches = [item for item in self.data.items() if item[0].startswith(f"{below}/")]
        return {name: Stored(len(data), self.modified_ms.get(name, 0)) for name, data in matches}

    def read(self, name: str) -> bytes:
        self.read_names.append(name)
        if name not in self.data:
            raise FileNotFoundError(name)
        return self.data[name]

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        return self.read(name)[offset : offset + length]

    def above(self) -> "MemoryObjects":
        return MemoryObjects({})

    def create(self, name: str, data: bytes) -> bool:
        if name in self.data:
            return False
        self.data[name] = data
        return True

    def create_in_parts(self, name: str, parts: Iterator[bytes]) -> bool:
        return self.create(name, b"".join(parts))

    def delete(self, name: str) -> None:
        self.data.pop(name, None)
