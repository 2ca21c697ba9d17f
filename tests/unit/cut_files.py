"""Writes checkpoints with cuts for tests, by the encoders of the test vectors."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.unit.checkpoint_files import CheckpointFiles
from tests.vectors.cut_cases import base_of, delta_of
from tests.vectors.cut_encoder import Placed, encode_cut
from tests.vectors.cut_writer import Stored, cut_body, cut_name, write_segment
from tests.vectors.frame_encoder import Change

Changes = Sequence[Change]


def spark_files(epoch: int, cut: Mapping[str, Any]) -> dict[str, str]:
    """What Spark writes of an epoch of a query with one file source and one operator."""
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
    """A checkpoint at level 1 that grows by epochs; operator 0 has the partitions that commit."""

    def __init__(self, files: CheckpointFiles) -> None:
        self.files = files
        self.location = files.location
        self.root = files.root
        self.chains: dict[int, list[Stored]] = {}
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
        """Writes a base of the last version, which the next cut takes up, by an executor."""
        frame = base_of(self.epoch, rows, partition=partition, codec="zstd")
        (stored,) = self.segment(self.epoch - 1, [frame], writer="7", number=number)
        self.chains[partition] = [stored]
        return stored

    def segment(
        self, epoch: int, frames: Sequence[Placed], *, writer: str = "driver", number: int = 1
    ) -> list[Stored]:
        name, parts, stored = write_segment(epoch, frames, writer=writer, number=number)
        self.write(name, parts.joined())
        return stored

    def cut(self, epoch: int, **fields: Any) -> None:
        chains = [self.chains[partition] for partition in sorted(self.chains)]
        body = cut_body(epoch, chains, **fields)
        self.write(cut_name(epoch), encode_cut(body))
        for name, text in spark_files(epoch, body).items():
            path = self.location / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def savepoint(self, name: str, epoch: int) -> Path:
        """Keeps the cut of an epoch by a name."""
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
        """All objects of the checkpoint, by name below its location."""
        return {
            path.relative_to(self.location).as_posix(): path.read_bytes()
            for path in sorted(self.location.rglob("*"))
            if path.is_file()
        }
