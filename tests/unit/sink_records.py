"""An in-memory directory of `EpochFiles`."""

import dataclasses
from collections.abc import Iterator

from cleancut.sinks._core.batch import Batch
from cleancut.sinks._epoch_log.manifest import DataFile, Manifest
from cleancut.sinks._epoch_log.names import Attempt, manifest_name

TOKEN = "0123456789abcdef" * 2
BATCH = Batch(7, query_id="q-1", run_id="r-2", checkpoint="file:/ckpt", planned_ms=1_700)
MANIFEST = Manifest(
    attempt=Attempt(7, TOKEN),
    query_id="q-1",
    run_id="r-1",
    planned_ms=1_700,
    published_ms=1_800,
    rows=3,
    files=(DataFile("_files/x/k=ä/part-0.parquet", 512), DataFile("_files/x/part-1.parquet", 0)),
    format="parquet",
    partition_by=("k",),
    schema='{"type":"struct","fields":[]}',
)


class Directory:
    """A directory of `Publisher`, in memory; `files_read` lists each read of a file."""

    location = "mem:/sink"

    def __init__(self, *names: str, manifests: tuple[Manifest, ...] = ()) -> None:
        self.present = dict.fromkeys(names, b"")
        self.present |= {manifest_name(m.epoch): m.encode() for m in manifests}
        self.files_read: list[str] = []

    def at(self, name: str) -> str:
        return f"{self.location}/{name}"

    def read(self, name: str) -> bytes | None:
        self.files_read.append(name)
        return self.present.get(name)

    def create(self, name: str, body: bytes) -> bool:
        if name in self.present:
            return False
        self.present[name] = body
        return True

    def names(self, directory: str) -> list[str]:
        below = (n.removeprefix(f"{directory}/") for n in self.present if n.startswith(directory))
        return sorted({name.split("/")[0] for name in below})

    def files(self, directory: str) -> Iterator[tuple[str, int]]:
        names = [name for name in self.present if name.startswith(f"{directory}/")]
        if not names:
            raise FileNotFoundError(directory)
        # Each file of `manifest` has one byte.
        return ((name, 1) for name in names)

    def delete(self, name: str) -> None:
        self.remove(name)

    def remove(self, directory: str) -> None:
        self.present = {
            name: body
            for name, body in self.present.items()
            if name != directory and not name.startswith(f"{directory}/")
        }


def manifest(epoch: int, token: str, *, files: int = 1) -> Manifest:
    attempt = Attempt(epoch, token * 32)
    data_files = tuple(DataFile(f"{attempt.directory}/{n}", 1) for n in range(files))
    return dataclasses.replace(MANIFEST, attempt=attempt, files=data_files)


def data(epoch: int, token: str) -> str:
    return f"{Attempt(epoch, token * 32).directory}/0"
