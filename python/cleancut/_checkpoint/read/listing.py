"""The versions of a store, by one listing of its directory."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from cleancut._format.layout import FrameName, StoreId


@dataclass(frozen=True)
class Listing:
    """The frames of one store.

    Attributes:
        store: the store.
        sizes: size of each frame in bytes.
    """

    store: StoreId
    sizes: Mapping[FrameName, int]

    @cached_property
    def ids(self) -> Mapping[int, list[str]]:
        """The ids of each version, ascending: several if more than one attempt committed."""
        ids: dict[int, list[str]] = {}
        for name in sorted(self.sizes):
            ids_of_version = ids.setdefault(name.version, [])
            if name.version_id not in ids_of_version:
                ids_of_version.append(name.version_id)
        return ids

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions that have a frame, ascending."""
        return tuple(self.ids)

    def frame_of(self, version: int, version_id: str) -> FrameName | None:
        """The frame to read for a version: its snapshot if there is one, else its changelog."""
        base = FrameName(version, version_id, "base")
        delta = FrameName(version, version_id, "delta")
        return next((name for name in (base, delta) if name in self.sizes), None)

    def object_name(self, name: FrameName) -> str:
        """The name of a frame's object below the root."""
        return f"{self.store.directory}/{name}"

    def before(self, version: int) -> "Listing":
        """The listing without a version and later ones."""
        sizes = {name: size for name, size in self.sizes.items() if name.version < version}
        return Listing(self.store, sizes)
