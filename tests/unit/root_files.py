"""Writes checkpoints with roots for tests: the cuts of `CutFiles` in version 2."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.unit.checkpoint_files import CheckpointFiles
from tests.unit.cut_files import CutFiles, spark_files
from tests.vectors.chain_writer import Segment
from tests.vectors.cut_cases import delta_of
from tests.vectors.cut_encoder import Placed, encode_cut
from tests.vectors.cut_writer import Stored, cut_name, write_segment
from tests.vectors.frame_cases import FAMILY, identity_of
from tests.vectors.frame_encoder import Change, encode_frame
from tests.vectors.root_encoder import root_body, write_page
from tests.vectors.row_encoder import encode_row, struct_type

CHANNEL = "cleancut-channel-0"
CHANNEL_KEY = struct_type(number="long", hash="integer")
CHANNEL_FAMILY = FAMILY | {"keySchema": CHANNEL_KEY}

Chains = Mapping[int, Sequence[Stored]]


def adopted(before: Chains, after: Chains) -> list[Stored]:
    """The frames that chains have and those of the cut before have not."""
    return [of for key, chain in after.items() for of in chain if of not in before.get(key, ())]


class RootFiles(CutFiles):
    """The same checkpoint; partition 0 has a new page for each root, all others an old one."""

    def __init__(self, files: CheckpointFiles, first: CutFiles | None = None) -> None:
        """Begins anew, or behind what a writer of version 1 has left."""
        super().__init__(files)
        self.segments: dict[str, Segment] = {}
        self.at: dict[int, Chains] = {}
        self.before = -1
        if first is not None:
            self.before = first.epoch - 1
            self.epoch, self.chains = first.epoch, dict(first.chains)
            self.at[self.before] = dict(first.chains)
        self.write("format.json", json.dumps(self.note()).encode())

    def note(self) -> dict[str, Any]:
        note: dict[str, Any] = json.loads((self.root / "format.json").read_text(encoding="utf-8"))
        return note | {"formatVersion": 2}

    def segment(
        self, epoch: int, frames: Sequence[Placed], *, writer: str = "driver", number: int = 1
    ) -> list[Stored]:
        name, parts, stored = write_segment(epoch, frames, writer=writer, number=number)
        self.segments[name] = Segment(name, parts, stored)
        self.write(name, parts.joined())
        return stored

    def page_epochs(self, epoch: int) -> dict[int, int]:
        """For the partition with which each page of the root of an epoch begins, its epoch."""
        first = min(self.at)
        # What goes over from version 1 has pages before its first root.
        if epoch < 2 and self.before < 0:
            return {}
        return {0: epoch - 1} | ({1: first} if 1 in self.at[first] else {})

    def cut(self, epoch: int, **fields: Any) -> None:
        self.at[epoch] = {number: list(chain) for number, chain in self.chains.items()}
        pages = []
        for number, of in self.page_epochs(epoch).items():
            chains = [chain for key, chain in sorted(self.at[of].items()) if (key > 0) == number]
            name, data, element = write_page(of, chains, number=number + 1)
            self.write(name, data)
            pages.append(element)
        window = fields.pop("window", self.window(epoch))
        body = root_body(epoch, pages, window, store_count=len(self.chains), **fields)
        self.write(cut_name(epoch), encode_cut(body, version=2))
        for name, text in spark_files(epoch, body).items():
            path = self.location / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def window(self, epoch: int) -> list[dict[str, Any]]:
        """The parts of all epochs; the pages of a root make some needless."""
        parts = []
        epochs = [of for of in sorted(self.at) if self.before < of <= epoch]
        for before, of in zip([self.before, *epochs], epochs, strict=False):
            frames = adopted(self.at.get(before, {}), self.at[of])
            for name in sorted({frame.segment for frame in frames}):
                segment = self.segments[name]
                counted = [frame for frame in segment.frames if frame in frames]
                offsets = {} if counted == segment.frames else {"counted": counted}
                parts.append(segment.part(of, **offsets))
        return parts

    def in_flight(
        self,
        partition: int,
        rows: Mapping[int, Change],
        *,
        keys: Sequence[int] = (3, 1),
        **cut: Any,
    ) -> None:
        """An epoch that changes none of the live keys; then rows of a channel, by their numbers."""
        epoch, self.epoch = self.epoch, self.epoch + 1
        identity = identity_of(epoch + 1, families=[CHANNEL_FAMILY], store=CHANNEL)
        identity |= {"partition": partition}
        numbered = [
            replace(row, key=encode_row(CHANNEL_KEY, {"number": number, "hash": 0}))
            for number, row in rows.items()
        ]
        data = encode_frame("base", identity, [numbered], len(rows), "zstd").joined()
        deltas = [delta_of(epoch + 1, [], of, partition=at) for at, of in enumerate(keys)]
        *stored, channel = self.segment(epoch, [*deltas, Placed(identity, "base", data)])
        for at, frame in enumerate(stored):
            self.chains[at] = [*self.chains[at], frame]
        self.cut(epoch, in_flight=[[channel]], **cut)

    def page_path(self, epoch: int, number: int) -> Any:
        """The page of an epoch that begins with a partition."""
        return next((self.root / f"pages/{epoch:020d}").glob(f"*8{number + 1}??.page"))
