"""Checkpoints with random states: their frames, and the rows that a reader must return."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from random import Random

from tests.unit.checkpoint_files import CheckpointFiles, name_of
from tests.unit.cut_files import CutFiles
from tests.vectors.cut_encoder import Placed
from tests.vectors.frame_cases import FAMILY, LISTS, identity_of, merge, put, remove, version_id
from tests.vectors.frame_encoder import NO_TOTALS, Change, Index, encode_frame, key_hash, row_size

OTHER = FAMILY | {"id": 2, "name": "other"}
NAMES = {"default": 0, "lists": 1, "other": 2}
KEYS = 12

# A row of a family: the key's id, and the value's count.
Rows = list[tuple[int, int]]


@dataclass
class RandomStore:
    """One partition: its live rows by family and key, and random changes to them."""

    draw: Random
    rows: dict[int, dict[int, list[int]]] = field(default_factory=lambda: {0: {}, 1: {}})
    counter: int = 0

    @property
    def families(self) -> list[dict[str, object]]:
        return [{0: FAMILY, 1: LISTS, 2: OTHER}[number] for number in sorted(self.rows)]

    @property
    def keys(self) -> int:
        return sum(map(len, self.rows.values()))

    def changed_families(self) -> bool:
        """Sometimes adds or removes the third family with all its rows."""
        if self.draw.random() > 0.3:
            return False
        if self.rows.pop(2, None) is None:
            self.rows[2] = {}
        return True

    def changes(self) -> Iterator[Change]:
        """Returns changes; several may have the same key."""
        for _ in range(self.draw.choice((0, 1, 5, 30))):
            family, key = self.draw.choice(sorted(self.rows)), self.draw.randrange(KEYS)
            rows, self.counter = self.rows[family], self.counter + 1
            if self.draw.random() < 0.3:
                rows.pop(key, None)
                yield replace(remove(key, "x"), family=family)
            elif family == 1 and self.draw.random() < 0.7:
                rows.setdefault(key, []).append(self.counter)
                yield merge(key, "x", self.counter, 0.5)
            else:
                rows[key] = [self.counter]
                yield replace(put(key, "x", self.counter, 0.5), family=family)

    def all_rows(self) -> Iterator[Change]:
        """Returns the records of a base."""
        for family, rows in self.rows.items():
            for key, values in rows.items():
                for at, value in enumerate(values):
                    change = merge if at else put
                    yield replace(change(key, "x", value, 0.5), family=family)

    def totals(self, rows: Sequence[Change]) -> dict[int, tuple[int, int]]:
        """Returns keys and bytes of each family if all rows are live."""
        return {
            family: (len(family_rows), sum(row_size(row) for row in rows if row.family == family))
            for family, family_rows in self.rows.items()
        }

    def blocks(self, changes: Sequence[Change]) -> list[Sequence[Change]]:
        size = self.draw.choice((1, 3, 100))
        return [changes[at : at + size] for at in range(0, len(changes), size)]


def in_blocks_of_hashes(draw: Random, changes: Sequence[Change]) -> list[Sequence[Change]]:
    """Returns the rows of a base as an index requires: blocks of one family, by hash, with complete
    keys.
    """
    ordered = sorted(changes, key=lambda change: (change.family, key_hash(change.key)))
    keys = [
        list(block)
        for _, block in groupby(ordered, lambda change: (change.family, key_hash(change.key)))
    ]
    blocks: list[list[Change]] = []
    for changes_of_hash in keys:
        fits = blocks and blocks[-1][0].family == changes_of_hash[0].family and draw.random() < 0.6
        if fits:
            blocks[-1] += changes_of_hash
        else:
            blocks.append(changes_of_hash)
    return list(blocks)


class RandomCheckpoint:
    """A checkpoint of some epochs, with cuts or at level 0.

    Attributes:
        expected: the rows of each version, by family and partition; of a list in their order.
    """

    def __init__(self, location: Path, draw: Random, *, has_cuts: bool) -> None:
        self.location, self._draw, self._has_cuts = location, draw, has_cuts
        self._files = CheckpointFiles(location)
        self._cuts = CutFiles(self._files)
        self._stores = [RandomStore(draw) for _ in range(draw.randint(1, 3))]
        self.expected: dict[int, dict[str, list[Rows]]] = {}
        for epoch in range(draw.randint(1, 7)):
            self._commit(epoch)

    def _commit(self, epoch: int) -> None:
        version = epoch + 1
        for partition, store in enumerate(self._stores):
            lists_families = store.changed_families() or version == 1
            self._add(
                version, partition, "delta", list(store.changes()), lists_families=lists_families
            )
            if self._draw.random() < 0.3:
                self._add(version, partition, "base", list(store.all_rows()), lists_families=True)
        if self._has_cuts:
            self._cuts.cut(epoch)
        self.expected[version] = {
            name: [rows_of(store, number) for store in self._stores if number in store.rows]
            for name, number in NAMES.items()
        }

    def _add(
        self,
        version: int,
        partition: int,
        kind: str,
        changes: list[Change],
        *,
        lists_families: bool,
    ) -> None:
        store = self._stores[partition]
        parent = (version - 1, version_id(version - 1) if version > 1 else None)
        identity = identity_of(
            version,
            parent=parent if kind == "delta" else None,
            families=store.families if lists_families else [],
        ) | {"partition": partition}
        blocks, index = store.blocks(changes), NO_TOTALS
        if kind == "base" and self._draw.random() < 0.7:
            blocks = in_blocks_of_hashes(self._draw, changes)
            index = Index(store.totals(changes), has_blocks=True)
        data = encode_frame(kind, identity, blocks, store.keys, "zstd", index).joined()
        if not self._has_cuts:
            directory = self._files.directory(0, partition)
            directory.mkdir(parents=True, exist_ok=True)
            (directory / name_of(version, kind)).write_bytes(data)
            return
        number = 1 + 2 * partition + (kind == "base")
        (stored,) = self._cuts.segment(
            version - 1, [Placed(identity, kind, data, attempt=1)], number=number
        )
        before = [] if kind == "base" else self._cuts.chains.get(partition, [])
        self._cuts.chains[partition] = [*before, stored]


def rows_of(store: RandomStore, family: int) -> Rows:
    return [(key, value) for key, values in store.rows[family].items() for value in values]
