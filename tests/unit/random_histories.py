"""Random histories of many stores, and the cuts that reference them."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.vectors.chain_writer import Segment
from tests.vectors.cut_encoder import Placed, encode_cut
from tests.vectors.cut_writer import Stored, StoreKey, cut_body, cut_name, write_segment
from tests.vectors.page_encoder import write_page

CHANNEL = "cleancut-channel-0"
WRITERS = ("driver", "1", "2")

Chain = list[Stored]


@dataclass
class History:
    """The objects of a random query with losing attempts, late bases and in-flight rows.

    Attributes:
        chance: the source of all random choices.
        epochs: the number of epochs.
        objects: segments, by name.
        chains: by epoch, the chain of each store.
        counting: by epoch, the frames that its cut adopts, including unnecessary ones.
        in_flight: by epoch, the chains of channels.
    """

    chance: random.Random
    epochs: int
    objects: dict[str, bytes] = field(default_factory=dict)
    chains: list[Mapping[StoreKey, Chain]] = field(default_factory=list)
    counting: list[list[Stored]] = field(default_factory=list)
    in_flight: list[list[Chain]] = field(default_factory=list)
    _segments: dict[str, Segment] = field(default_factory=dict)
    _offered: list[Stored] = field(default_factory=list)

    def frame(self, key: StoreKey, version: int, kind: str) -> Placed:
        operator, partition, store = key
        named = {"operator": operator, "partition": partition, "store": store}
        own_id = f"{self.chance.getrandbits(128):032x}"
        identity = named | {"version": version, "id": own_id}
        return Placed(identity, kind, self.chance.randbytes(self.chance.randint(1, 9)))

    def run(self, births: Mapping[StoreKey, int]) -> None:
        for epoch in range(self.epochs):
            alive = [key for key, birth in sorted(births.items()) if birth <= epoch]
            self._epoch(epoch, alive, births)

    def _epoch(self, epoch: int, alive: Sequence[StoreKey], births: Mapping[StoreKey, int]) -> None:
        before: Mapping[StoreKey, Chain] = self.chains[-1] if self.chains else {}
        won, others = [], []
        for key in alive:
            is_newborn = births[key] == epoch > 0
            won.append(self.frame(key, epoch + 1, "base" if is_newborn else "delta"))
            if self.chance.random() < 0.2:
                others.append(self.frame(key, epoch + 1, "delta"))
            if self.chance.random() < 0.25:
                version = self.chance.randint(births[key] + 1, epoch + 1)
                others.append(self.frame(key, version, "base"))
        if self.chance.random() < 0.4:
            channel = (0, self.chance.randint(0, 3), CHANNEL)
            others.append(self.frame(channel, epoch + 1, "base"))
        stored = self._written(epoch, [*won, *others])
        placed_by_id = {id(frame): placed for frame, placed in stored}
        adopted = [placed_by_id[id(frame)] for frame in won]
        spare = [placed_by_id[id(frame)] for frame in others]
        flying = [
            [frame] for frame in spare if frame.store[2] == CHANNEL and self.chance.random() < 0.7
        ]
        self._offered += [
            frame for frame in spare if frame.entry["kind"] == "base" and frame.store[2] != CHANNEL
        ]
        late = [frame for frame in self._offered if self.chance.random() < 0.3]
        self._offered = [frame for frame in self._offered if frame not in late]
        chains = {
            key: [*before.get(key, []), frame] for key, frame in zip(alive, adopted, strict=True)
        }
        taken: dict[tuple[StoreKey, int], Stored] = {}
        for frame in late:
            # If a version has several bases, a cut adopts one of them, and no other base after it.
            chain, version = chains[frame.store], frame.entry["version"]
            base = chain[0].entry["version"] if chain[0].entry["kind"] == "base" else 0
            if (frame.store, version) in taken or version <= base:
                continue
            taken[frame.store, version] = frame
            chains[frame.store] = [frame, *(f for f in chain if f.entry["version"] > version)]
        self.chains.append(chains)
        self.counting.append([*adopted, *taken.values()])
        self.in_flight.append(flying)

    def _written(self, epoch: int, frames: list[Placed]) -> list[tuple[Placed, Stored]]:
        written: list[tuple[Placed, Stored]] = []
        by_writer: dict[str, list[Placed]] = {}
        for frame in self.chance.sample(frames, len(frames)):
            by_writer.setdefault(self.chance.choice(WRITERS), []).append(frame)
        for writer, of_writer in by_writer.items():
            name, parts, stored = write_segment(epoch, of_writer, writer=writer)
            self.objects[name] = parts.joined()
            self._segments[name] = Segment(name, parts, stored)
            written += zip(of_writer, stored, strict=True)
        return written

    def all_chains(self, epoch: int) -> list[list[Stored]]:
        """Sorts the chains of stores and channels by store."""
        chains = [*self.chains[epoch].values(), *self.in_flight[epoch]]
        return sorted(chains, key=lambda chain: chain[0].store)

    def cut(self, epoch: int) -> dict[str, bytes]:
        """Encodes a cut with pages of random epochs, and all objects that it references except
        segments.
        """
        objects: dict[str, bytes] = {}
        pages, oldest = self._pages(epoch, objects)
        first = self.chance.randint(0, oldest + 1)
        window = [part for at_epoch in range(first, epoch + 1) for part in self._window(at_epoch)]
        chains = self.chains[epoch]
        body = cut_body(
            epoch, pages, window, store_count=len(chains), in_flight=self.in_flight[epoch]
        )
        return objects | {cut_name(epoch): encode_cut(body)}

    def _pages(self, epoch: int, objects: dict[str, bytes]) -> tuple[list[dict[str, Any]], int]:
        """Encodes pages with random first stores; also returns their oldest epoch, or -1 without
        pages.
        """
        stores = sorted(self.chains[epoch])
        count = self.chance.randint(0, min(4, len(stores)))
        firsts = sorted(self.chance.sample(stores, count))
        pages, epochs = [], []
        for number, first in enumerate(firsts):
            births = [at for at in range(epoch + 1) if first in self.chains[at]]
            birth = self.chance.choice(births)
            low = first if number else (-1, 0, "")
            high = firsts[number + 1] if number + 1 < count else (99, 0, "")
            chains = [self.chains[birth][k] for k in sorted(self.chains[birth]) if low <= k < high]
            name, data, element = write_page(birth, chains, number=number + 1)
            objects[name] = data
            pages.append(element)
            epochs.append(birth)
        return pages, min(epochs, default=-1)

    def _window(self, epoch: int) -> list[dict[str, Any]]:
        counting = self.counting[epoch]
        names = {frame.segment for frame in counting}
        # The window may name a segment of which no frame counts.
        of_epoch = [name for name in self._segments if f"/{epoch:020d}/" in name]
        names |= {name for name in of_epoch if self.chance.random() < 0.5}
        parts = []
        for name in self.chance.sample(sorted(names), len(names)):
            segment = self._segments[name]
            counted = [frame for frame in segment.frames if frame in counting]
            left = [frame for frame in segment.frames if frame not in counting]
            # Frames of channels never count, whatever the window says.
            said = [
                frame for frame in left if frame.store[2] != CHANNEL or self.chance.random() < 0.5
            ]
            if self.chance.random() < 0.5:
                parts.append(segment.part(epoch, counted=counted))
            elif said or self.chance.random() < 0.5:
                parts.append(segment.part(epoch, uncounted=said))
            else:
                parts.append(segment.part(epoch))
        return parts


def random_history(seed: int) -> History:
    """Builds the history of a seed."""
    chance = random.Random(seed)
    epochs = chance.randint(1, 9)
    keys = [
        (operator, partition, name)
        for operator in range(2)
        for partition in range(4)
        for name in ("a", "b")
    ]
    births = {
        key: 0 if chance.random() < 0.7 else chance.randint(0, epochs - 1)
        for key in chance.sample(keys, chance.randint(1, 12))
    }
    history = History(chance, epochs)
    history.run(births)
    return history
