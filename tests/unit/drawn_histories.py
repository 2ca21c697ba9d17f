"""Random histories of many stores, and the cuts that stand for them."""

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
    """What a query with losing attempts, late bases and rows in flight has left.

    Attributes:
        chance: draws all.
        epochs: how many there are.
        objects: segments, by name.
        chains: by epoch, the chain of each store.
        counting: by epoch, the frames that its cut adopts, needless ones among them.
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
        own = {id(frame): placed for frame, placed in stored}
        adopted = [own[id(frame)] for frame in won]
        spare = [own[id(frame)] for frame in others]
        flying = [[of] for of in spare if of.store[2] == CHANNEL and self.chance.random() < 0.7]
        self._offered += [
            of for of in spare if of.entry["kind"] == "base" and of.store[2] != CHANNEL
        ]
        late = [of for of in self._offered if self.chance.random() < 0.3]
        self._offered = [of for of in self._offered if of not in late]
        chains = {key: [*before.get(key, []), of] for key, of in zip(alive, adopted, strict=True)}
        taken: dict[tuple[StoreKey, int], Stored] = {}
        for of in late:
            # Of several bases of one version a cut adopts one, and never another after it.
            chain, version = chains[of.store], of.entry["version"]
            base = chain[0].entry["version"] if chain[0].entry["kind"] == "base" else 0
            if (of.store, version) in taken or version <= base:
                continue
            taken[of.store, version] = of
            chains[of.store] = [of, *(f for f in chain if f.entry["version"] > version)]
        self.chains.append(chains)
        self.counting.append([*adopted, *taken.values()])
        self.in_flight.append(flying)

    def _written(self, epoch: int, frames: list[Placed]) -> list[tuple[Placed, Stored]]:
        found: list[tuple[Placed, Stored]] = []
        by_writer: dict[str, list[Placed]] = {}
        for frame in self.chance.sample(frames, len(frames)):
            by_writer.setdefault(self.chance.choice(WRITERS), []).append(frame)
        for writer, own in by_writer.items():
            name, parts, stored = write_segment(epoch, own, writer=writer)
            self.objects[name] = parts.joined()
            self._segments[name] = Segment(name, parts, stored)
            found += zip(own, stored, strict=True)
        return found

    def all_chains(self, epoch: int) -> list[list[Stored]]:
        """Those of stores and channels, in the order of their stores."""
        chains = [*self.chains[epoch].values(), *self.in_flight[epoch]]
        return sorted(chains, key=lambda of: of[0].store)

    def cut(self, epoch: int) -> dict[str, bytes]:
        """A cut with pages of any epochs, and all that it names but segments."""
        objects: dict[str, bytes] = {}
        pages, oldest = self._pages(epoch, objects)
        first = self.chance.randint(0, oldest + 1)
        window = [part for of in range(first, epoch + 1) for part in self._window(of)]
        chains = self.chains[epoch]
        body = cut_body(
            epoch, pages, window, store_count=len(chains), in_flight=self.in_flight[epoch]
        )
        return objects | {cut_name(epoch): encode_cut(body)}

    def _pages(self, epoch: int, objects: dict[str, bytes]) -> tuple[list[dict[str, Any]], int]:
        """Pages that begin with any stores, and the oldest of their epochs; -1 without any."""
        stores = sorted(self.chains[epoch])
        count = self.chance.randint(0, min(4, len(stores)))
        firsts = sorted(self.chance.sample(stores, count))
        pages, epochs = [], []
        for number, first in enumerate(firsts):
            births = [at for at in range(epoch + 1) if first in self.chains[at]]
            of = self.chance.choice(births)
            low = first if number else (-1, 0, "")
            high = firsts[number + 1] if number + 1 < count else (99, 0, "")
            chains = [self.chains[of][k] for k in sorted(self.chains[of]) if low <= k < high]
            name, data, element = write_page(of, chains, number=number + 1)
            objects[name] = data
            pages.append(element)
            epochs.append(of)
        return pages, min(epochs, default=-1)

    def _window(self, epoch: int) -> list[dict[str, Any]]:
        counting = self.counting[epoch]
        names = {frame.segment for frame in counting}
        # A segment may be there of which nothing counts.
        of_epoch = [name for name in self._segments if f"/{epoch:020d}/" in name]
        names |= {name for name in of_epoch if self.chance.random() < 0.5}
        parts = []
        for name in self.chance.sample(sorted(names), len(names)):
            segment = self._segments[name]
            counted = [frame for frame in segment.frames if frame in counting]
            left = [frame for frame in segment.frames if frame not in counting]
            # Frames of channels count never, whatever is said of them.
            said = [of for of in left if of.store[2] != CHANNEL or self.chance.random() < 0.5]
            if self.chance.random() < 0.5:
                parts.append(segment.part(epoch, counted=counted))
            elif said or self.chance.random() < 0.5:
                parts.append(segment.part(epoch, uncounted=said))
            else:
                parts.append(segment.part(epoch))
        return parts


def drawn(seed: int) -> History:
    """A history by its seed."""
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
