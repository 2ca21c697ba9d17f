"""Writes checkpoints with cuts for tests with the encoders of the test vectors."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.unit.checkpoint_files import CheckpointFiles
from tests.vectors.chain_writer import Segment
from tests.vectors.cut_encoder import Placed, encode_cut
from tests.vectors.cut_writer import Stored, cut_body, cut_name, write_segment
from tests.vectors.frame_cases import FAMILY, identity_of
from tests.vectors.frame_encoder import Change, encode_frame
from tests.vectors.page_encoder import write_page
from tests.vectors.row_encoder import encode_row, struct_type
from tests.vectors.segment_cases import base_of, delta_of

Changes = Sequence[Change]

CHANNEL = "cleancut-channel-0"
CHANNEL_KEY = struct_type(number="long", hash="integer")
CHANNEL_FAMILY = FAMILY | {"keySchema": CHANNEL_KEY}

Chains = Mapping[int, Sequence[Stored]]


def new_frames(before: Chains, after: Chains) -> list[Stored]:
    """Returns the frames that the previous cut does not reference."""
    return [
        frame for key, chain in after.items() for frame in chain if frame not in before.get(key, ())
    ]


def spark_files(epoch: int, cut: Mapping[str, Any]) -> dict[str, str]:
    """Returns the files that Spark writes for an epoch of a query with one file source and one
    operator.
    """
    entries = [{"path": f"file:///{n}.json", "batchId": n} for n in range(epoch + 1)]
    info = {"operatorId": 0, "operatorName": "stateStoreSave"}
    operator = {"operatorInfo": info, "stateStoreInfo": [{"storeName": "default"}]}
    sources = {f"sources/0/{e['batchId']}": f"v1\n{json.dumps(e)}" for e in entries}
    return sources | {
        "metadata": json.dumps({"id": cut["queryId"]}),
        f"offsets/{epoch}": cut["offsets"],
        f"commits/{epoch}": cut["commit"],
        "state/0/_metadata/metadata": f"v1\n{json.dumps(operator)}",
        "state/0/0/_metadata/schema": "\0\2v2 and the schemas",
    }


class CutFiles:
    """A checkpoint with cuts that grows by epochs; operator 0 has the partitions that commit.

    From epoch 2 on partition 0 has a new page for each cut, all others one of epoch 0.
    """

    def __init__(self, files: CheckpointFiles) -> None:
        self.files = files
        self.location = files.location
        self.root = files.root
        self.chains: dict[int, list[Stored]] = {}
        self.segments: dict[str, Segment] = {}
        self.at: dict[int, Chains] = {}
        self.epoch = 0

    def commit(self, *changes: tuple[Changes, int], **cut: Any) -> int:
        """Writes the deltas of all partitions, each with its live keys, and the cut.

        Returns:
            The epoch.
        """
        epoch, self.epoch = self.epoch, self.epoch + 1
        frames = [
            delta_of(epoch + 1, rows, keys, partition=number, codec="zstd")
            for number, (rows, keys) in enumerate(changes)
        ]
        for number, stored in enumerate(self.segment(epoch, frames)):
            self.chains[number] = [*self.chains.get(number, []), stored]
        self.cut(epoch, **cut)
        return epoch

    def base(self, partition: int, rows: Changes, *, number: int = 2) -> Stored:
        """Writes a snapshot of the last version by an executor; the next cut references it."""
        frame = base_of(self.epoch, rows, partition=partition, codec="zstd")
        (stored,) = self.segment(self.epoch - 1, [frame], writer="7", number=number)
        self.chains[partition] = [stored]
        return stored

    def segment(
        self, epoch: int, frames: Sequence[Placed], *, writer: str = "driver", number: int = 1
    ) -> list[Stored]:
        name, parts, stored = write_segment(epoch, frames, writer=writer, number=number)
        self.segments[name] = Segment(name, parts, stored)
        self.write(name, parts.joined())
        return stored

    def page_epochs(self, epoch: int) -> dict[int, int]:
        """Returns the epoch of each page of a cut, by the first partition of the page."""
        first = min(self.at)
        if epoch - 1 <= first:
            return {}
        return {0: epoch - 1} | ({1: first} if 1 in self.at[first] else {})

    def cut(self, epoch: int, **fields: Any) -> None:
        self.at[epoch] = {number: list(chain) for number, chain in self.chains.items()}
        pages = []
        for number, written in self.page_epochs(epoch).items():
            chains = [
                chain for key, chain in sorted(self.at[written].items()) if (key > 0) == number
            ]
            name, data, element = write_page(written, chains, number=number + 1)
            self.write(name, data)
            pages.append(element)
        window = fields.pop("window", self.window(epoch))
        body = cut_body(epoch, pages, window, store_count=len(self.chains), **fields)
        self.write(cut_name(epoch), encode_cut(body))
        for name, text in spark_files(epoch, body).items():
            path = self.location / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def window(self, epoch: int) -> list[dict[str, Any]]:
        """Returns the parts of all epochs; the pages of a cut make some of them unnecessary."""
        parts = []
        epochs = [at_epoch for at_epoch in sorted(self.at) if at_epoch <= epoch]
        for before, at_epoch in zip([-1, *epochs], epochs, strict=False):
            frames = new_frames(self.at.get(before, {}), self.at[at_epoch])
            for name in sorted({frame.segment for frame in frames}):
                segment = self.segments[name]
                counted = [frame for frame in segment.frames if frame in frames]
                offsets = {} if counted == segment.frames else {"counted": counted}
                parts.append(segment.part(at_epoch, **offsets))
        return parts

    def in_flight(
        self,
        partition: int,
        rows: Mapping[int, Change],
        *,
        keys: Sequence[int] = (3, 1),
        **cut: Any,
    ) -> None:
        """Commits an epoch without changes of the live keys, with channel rows given by number."""
        epoch, self.epoch = self.epoch, self.epoch + 1
        identity = identity_of(epoch + 1, families=[CHANNEL_FAMILY], store=CHANNEL)
        identity |= {"partition": partition}
        numbered = [
            replace(row, key=encode_row(CHANNEL_KEY, {"number": number, "hash": 0}))
            for number, row in rows.items()
        ]
        data = encode_frame("base", identity, [numbered], len(rows), "zstd").joined()
        deltas = [delta_of(epoch + 1, [], changes, partition=at) for at, changes in enumerate(keys)]
        *stored, channel = self.segment(epoch, [*deltas, Placed(identity, "base", data)])
        for at, frame in enumerate(stored):
            self.chains[at] = [*self.chains[at], frame]
        self.cut(epoch, in_flight=[[channel]], **cut)

    def page_path(self, epoch: int, number: int) -> Any:
        """The page of an epoch that begins with a partition."""
        return next((self.root / f"pages/{epoch:020d}").glob(f"*8{number + 1}??.page"))

    def savepoint(self, name: str, epoch: int) -> Path:
        """Creates a savepoint of the cut of an epoch."""
        self.write(f"savepoints/{name}.cut", self.cut_path(epoch).read_bytes())
        return self.root / f"savepoints/{name}.cut"

    def write(self, name: str, data: bytes) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_bytes(data)

    def cut_path(self, epoch: int) -> Path:
        return self.root / cut_name(epoch)

    def segment_path(self, stored: Stored) -> Path:
        return self.root / stored.segment

    def change(self, path: Path, change: Callable[[bytes], bytes]) -> None:
        path.write_bytes(change(path.read_bytes()))

    def objects(self) -> Mapping[str, bytes]:
        """Returns all objects of the checkpoint, by name below its location."""
        return {
            path.relative_to(self.location).as_posix(): path.read_bytes()
            for path in sorted(self.location.rglob("*"))
            if path.is_file()
        }
