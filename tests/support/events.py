"""Seeded input files: events with a key, a time and a value, one file per epoch."""

import json
import os
import random
from pathlib import Path

SCHEMA = "k int, t double, v int, s string"
EPOCH_SECONDS = 20
LATENESS_SECONDS = 8


def write_events(directory: Path, *, seed: int, files: range, rows: int = 200) -> None:
    """Writes the files with these numbers; the same seed and number give the same file.

    Event times of file n begin at `n * EPOCH_SECONDS` and overlap those of the next file, so some
    rows are late. Files carry ascending modification times, which is the order Spark takes.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for number in files:
        draw = random.Random(seed * 1000 + number)
        start = number * EPOCH_SECONDS
        lines = [json.dumps(_event(draw, start)) for _ in range(rows)]
        path = directory / f"{number:05d}.json"
        path.write_text("\n".join(lines) + "\n")
        os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))


def write_closing(directory: Path, number: int) -> None:
    """Writes one event far in the future, which advances the watermark past all others."""
    event = {"k": -1, "t": (number + 1000.0) * EPOCH_SECONDS, "v": 0, "s": "end"}
    path = directory / f"{number:05d}.json"
    path.write_text(json.dumps(event) + "\n")
    os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))


def _event(draw: random.Random, start: int) -> dict[str, object]:
    key = draw.randrange(40)
    return {
        "k": key,
        "t": start + draw.random() * (EPOCH_SECONDS + LATENESS_SECONDS) - LATENESS_SECONDS / 2,
        "v": draw.randrange(1000),
        "s": None if key % 7 == 0 else "x" * draw.randrange(60),
    }
