"""Results in files, one per epoch, and the lost and duplicated rows between two runs."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame


class EpochFiles:
    """A function for `foreachBatch`: one file per epoch, replaced if the epoch runs again."""

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(parents=True, exist_ok=True)

    def __call__(self, rows: DataFrame, epoch: int) -> None:
        texts = sorted(str(row) for row in rows.collect())
        staged = self._root / f".{epoch}.staged"
        staged.write_text(json.dumps(texts))
        staged.rename(self._root / f"{epoch}.json")

    def read(self) -> dict[int, list[str]]:
        """Returns the sorted rows of each written epoch."""
        return {
            int(path.stem): json.loads(path.read_text()) for path in self._root.glob("[0-9]*.json")
        }


class FailureNoted:
    """A sink that keeps the failure of the wrapped one: Spark reports only its text."""

    def __init__(self, sink: EpochFiles) -> None:
        self._sink = sink
        self.failure: Exception | None = None

    def __call__(self, rows: DataFrame, epoch: int) -> None:
        try:
            self._sink(rows, epoch)
        except Exception as failure:
            self.failure = failure
            raise


@dataclass(frozen=True)
class Difference:
    """The comparison of two multisets of rows, over all epochs and per epoch."""

    expected: int
    lost: int
    duplicated: int
    moved: int

    @classmethod
    def between(cls, expected: dict[int, list[str]], actual: dict[int, list[str]]) -> "Difference":
        """Counts missing rows, surplus rows, and epochs with unexpected rows."""
        wanted = Counter(row for rows in expected.values() for row in rows)
        got = Counter(row for rows in actual.values() for row in rows)
        epochs = {epoch for epoch, rows in {**expected, **actual}.items() if rows}
        return cls(
            expected=wanted.total(),
            lost=(wanted - got).total(),
            duplicated=(got - wanted).total(),
            moved=sum(expected.get(e, []) != actual.get(e, []) for e in epochs),
        )

    @property
    def none(self) -> bool:
        """Whether the runs agree, and are not both empty."""
        return self.expected > 0 and self.lost == self.duplicated == self.moved == 0
