"""The files that each epoch of a query read, and the same epochs as input of another query.

A killed query may read two files in one epoch where an undisturbed query reads one: Spark's file
source records a file in its own log before the epoch is in the offset log, and a driver that starts
between the two reads the recorded file together with the next one. In update mode and with timeouts
the results then rightly differ, so a comparison by row has to start from equal epochs.
"""

import json
import os
from pathlib import Path

_FIRST_TIME = 1_000_000_000


def files_by_epoch(checkpoint: Path) -> list[list[list[Path]]]:
    """Returns the files of each non-empty epoch: by epoch, then by source, in order."""
    offsets = [_offsets(entry) for entry in _entries(checkpoint / "offsets")]
    files = [
        _recorded_files(checkpoint / "sources" / str(source)) for source in range(len(offsets[0]))
    ]
    epochs = []
    for before, after in zip([[-1] * len(files), *offsets], offsets, strict=False):
        epoch = [
            [path for number, path in recorded if start < number <= end]
            for recorded, start, end in zip(files, before, after, strict=True)
        ]
        if any(epoch):
            epochs.append(epoch)
    return epochs


def write_epochs(epochs: list[list[list[Path]]], directory: Path) -> None:
    """Writes one file per epoch and source; existing files are unchanged."""
    for epoch, sources in enumerate(epochs):
        for source, files in enumerate(sources):
            path = directory / f"source-{source}" / f"{epoch:05d}.json"
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                # A source without files still has its epoch: a blank line is no row.
                path.write_text("".join(file.read_text() for file in files) or "\n")
                os.utime(path, (_FIRST_TIME + epoch, _FIRST_TIME + epoch))


def _entries(log: Path) -> list[Path]:
    entries = [path for path in log.iterdir() if path.name.isdigit()]
    return sorted(entries, key=lambda path: int(path.name))


def _offsets(entry: Path) -> list[int]:
    """Returns the last file number of each source; -1 for one that has read none."""
    lines = entry.read_text().splitlines()[2:]
    return [json.loads(line)["logOffset"] if line != "-" else -1 for line in lines]


def _recorded_files(log: Path) -> list[tuple[int, Path]]:
    """Returns the entries of a source's log, compacted or not: file number and file."""
    notes = {
        (note["batchId"], note["path"].removeprefix("file://"))
        for entry in log.iterdir()
        if not entry.name.startswith(".")
        for note in map(json.loads, entry.read_text().splitlines()[1:])
    }
    return [(number, Path(path)) for number, path in sorted(notes)]
