"""The inputs of randomized runs as lines of JSON, which `python -m tests.input_coverage` reads."""

import json
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.input_coverage.space import InputSpace

DIRECTORY = "CLEANCUT_INPUTS"


@dataclass
class InputLog:
    """A directory with a file for each process; None to write nothing."""

    directory: Path | None
    _written: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, space: InputSpace, seed: int | str, inputs: Mapping[str, Iterable[Any]]) -> None:
        """Writes the inputs of a run: names of values by dimension."""
        if self.directory is None:
            return
        names = {name: sorted({str(value) for value in values}) for name, values in inputs.items()}
        lines = [{"generator": space.generator, "seed": seed, "inputs": names}]
        with self._lock:
            if space.generator not in self._written:
                lines.insert(0, _described(space))
                self._written.add(space.generator)
            text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
            self.directory.mkdir(parents=True, exist_ok=True)
            path = self.directory / f"python-{os.getpid()}.jsonl"
            with path.open("a", encoding="utf-8") as file:
                file.write(text)


def _described(space: InputSpace) -> dict[str, Any]:
    return {
        "generator": space.generator,
        "dimensions": [{"name": one.name, "values": one.names} for one in space.dimensions],
        "impossible": [
            {
                "pairs": [
                    {"name": name, "values": list(values)}
                    for name, values in (rule.first, rule.second)
                ],
                "reason": rule.reason,
            }
            for rule in space.impossible
        ],
    }


def default_log() -> InputLog:
    """Returns the log in the directory of the environment variable `CLEANCUT_INPUTS`, if set."""
    directory = os.environ.get(DIRECTORY)
    return InputLog(Path(directory) if directory else None)


INPUTS = default_log()
