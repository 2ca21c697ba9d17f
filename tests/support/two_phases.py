"""A target of two phases."""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from cleancut.sinks import Committer

Row = tuple[Any, ...]


class Directories(Committer):
    """A two-phase target: a file is prepared under a temporary name."""

    def __init__(self, home: Path) -> None:
        self._home = home
        home.mkdir(exist_ok=True)

    def _prepared(self, handle: str) -> Path:
        return self._home / f".{handle}"

    def stage(self, rows: DataFrame, handle: str) -> None:
        staged = [tuple(row) for row in rows.collect()]
        self._prepared(handle).write_text(json.dumps(staged))

    def commit(self, handle: str) -> None:
        shown = self._home / f"{handle}.json"
        if not shown.exists():
            self._prepared(handle).rename(shown)

    def abort(self, handle: str) -> None:
        assert not (self._home / f"{handle}.json").exists(), "it was committed"
        self._prepared(handle).unlink(missing_ok=True)

    def is_staged(self, handle: str) -> bool:
        return self._prepared(handle).exists() or (self._home / f"{handle}.json").exists()

    def undo(self, handle: str) -> None:
        (self._home / f"{handle}.json").unlink(missing_ok=True)

    def read(self) -> list[Row]:
        return [
            tuple(row) for path in self._home.glob("*.json") for row in json.loads(path.read_text())
        ]
