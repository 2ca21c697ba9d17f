"""A sink and a query that record the steps of an epoch in order."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from cleancut.sinks import Batch, EpochSink
from cleancut.sinks._core.query_side import Operation, acted

BATCH = Batch(7, query_id="q-1", run_id="r-2", checkpoint="file:/ckpt", planned_ms=1_700)


class Rows:
    """A cached DataFrame."""

    sparkSession = "the session"  # noqa: N815  # Spark's name

    def __init__(self, steps: list[str], name: str = "all rows") -> None:
        self._steps = steps
        self.name = name

    def limit(self, count: int) -> "Rows":
        return Rows(self._steps, f"{count} rows")

    def unpersist(self) -> None:
        self._steps.append("unpersist")


@dataclass
class Side:
    """A query that records its calls; `output` is the output that an earlier run has sealed."""

    steps: list[str]
    output: str | None = None
    batch: Batch = BATCH
    closed: list[str] = field(default_factory=list)

    def generation(self) -> int | None:
        return None

    def operations(self, after: int) -> Sequence[Operation]:
        return ()

    def sealed_output(self) -> str | None:
        return self.output

    def finish(self) -> bool:
        self.steps.append("finish")
        return self.output is not None

    def compute(self) -> Any:
        self.steps.append("compute")
        return Rows(self.steps)

    def hold(self) -> Any:
        self.steps.append("hold")
        return Rows(self.steps)

    def close(self, output: str) -> None:
        self.steps.append("close")
        self.closed.append(output)

    def published(self, sinks: Sequence[str]) -> None:
        self.steps.append(f"record {', '.join(sinks)}")

    def seal(self) -> Any:
        self.steps.append("seal")
        return Rows(self.steps)


class Target(EpochSink):
    """A sink in memory that records its steps."""

    def __init__(self, name: str, steps: list[str], *, fails: bool = False) -> None:
        self._name = name
        self._steps = steps
        self.fails = fails
        self.shown: str | None = None
        self.staged: list[str] = []

    @property
    def name(self) -> str:
        return self._name

    def begin(self, side: Any, session: Any) -> None:
        self._steps.append(f"{self._name} begins in {session}")

    def published(self, batch: Batch) -> str | None:
        return self.shown

    def can_publish(self, handle: str, batch: Batch, published: str | None) -> bool:
        return handle == f"{self._name} staged" and published in (None, handle)

    def stage(self, rows: Any, batch: Batch) -> str:
        self._steps.append(f"{self._name} stages")
        self.staged.append(rows.name)
        return f"{self._name} staged"

    def publish(self, handle: str, batch: Batch) -> None:
        if self.fails:
            raise OSError("the target is gone")
        self._steps.append(f"{self._name} publishes {handle}")
        self.shown = handle

    def clean_up(self, batch: Batch) -> None:
        self._steps.append(f"{self._name} sweeps")


def give(sink: Any, side: Side) -> list[str]:
    """Runs the steps of one epoch."""
    side.steps.clear()
    rows: Any = Rows(side.steps)
    token = acted.set(side)
    try:
        sink(rows, 7)
    finally:
        acted.reset(token)
    return list(side.steps)


@contextmanager
def block(sink: Any, side: Side) -> Iterator[Any]:
    """Returns the block of one epoch, and drops the steps recorded before it."""
    side.steps.clear()
    token = acted.set(side)
    try:
        with sink.epoch(Rows(side.steps, "the batch"), side.batch.epoch) as opened:
            yield opened
    finally:
        acted.reset(token)
