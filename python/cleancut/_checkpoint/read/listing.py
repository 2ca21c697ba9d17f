"""What one listing of a store's directory tells about its versions."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from cleancut._format.layout import FrameName, StoreId


@dataclass(frozen=True)
class Listing:
    """The frames of one store.

    Attributes:
        store: whose frames they are.
        sizes: the size in bytes of each frame.
    """

    store: StoreId
    sizes: Mapping[FrameName, int]

    @cached_property
    def ids(self) -> Mapping[int, list[str]]:
        """The ids of each version, ascending: several where more than one attempt committed."""
        ids: dict[int, list[str]] = {}
        for name in sorted(self.sizes):
            found = ids.setdefault(name.version, [])
            if name.version_id not in found:
                found.append(name.version_id)
        return ids

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions that have a frame, ascending."""
        return tuple(self.ids)

    def frame_of(self, version: int, version_id: str) -> FrameName | None:
        """What to read for a version: its base where there is one, else its delta."""
        base = FrameName(version, version_id, "base")
        delta = FrameName(version, version_id, "delta")
        return next((name for name in (base, delta) if name in self.sizes), None)

    def object_name(self, name: FrameName) -> str:
        """The name of a frame's object below the root."""
        return f"{self.store.directory}/{name}"

    def before(self, version: int) -> "Listing":
        """The same without a version and those after it."""
        sizes = {name: size for name, size in self.sizes.items() if name.version < version}
        return Listing(self.store, sizes)
