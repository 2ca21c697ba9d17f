"""Objects in memory, for tests that read many small ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class MemoryObjects:
    """Implements `Place`, and notes what was read.

    Attributes:
        data: the bytes of each object, by name.
        read_names: what was read, whole or in part, in order.
    """

    data: dict[str, bytes]
    read_names: list[str] = field(default_factory=list)

    def path(self, name: str) -> str:
        return f"memory/{name}"

    def list(self, below: str) -> Mapping[str, int]:
        found = self.data.items()
        return {name: len(data) for name, data in found if name.startswith(f"{below}/")}

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

    def delete(self, name: str) -> None:
        self.data.pop(name, None)
