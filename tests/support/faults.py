"""A sink that kills or pauses its process at a planned step of an epoch."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from cleancut.sinks import Batch, EpochSink
from cleancut.sinks._core.query_side import QuerySide
from tests.support.patience import PATIENCE_S

KILLED = "driver killed"
PAUSED = "driver paused"
SERVER_KILLED = "server killed"
# The steps of a sink, in order, by the completed call. The first is taken only at the begin of a
# run.
ENTERED = "before the run begins"
BEGUN = "run begun"
LOOKED = "epoch looked up"
STAGED = "staged"
SEALED = "sealed"
PUBLISHED = "published"
SWEPT = "swept"
STEPS = (LOOKED, STAGED, SEALED, PUBLISHED, SWEPT)
_SIGNALS = {KILLED: signal.SIGKILL, PAUSED: signal.SIGSTOP}
_POLL_S = 0.005
_SERVER_WITHIN_S = PATIENCE_S


@dataclass(frozen=True)
class Fault:
    """A fault of a driver or its server, and its moment.

    Attributes:
        number: the number of the fault in its campaign.
        kind: the kind of the fault.
        sink: the name of the sink at whose step it happens; others are at any step.
        step: the step of the sink after which it happens.
        skips: the number of times that the sink takes the step before.
        delay_s: the delay after the step, while the sink continues; 0 is none.
    """

    number: int
    kind: str
    sink: str
    step: str
    skips: int
    delay_s: float

    def write(self, home: Path) -> None:
        """Writes the fault for the driver with these files."""
        staged = home / ".fault"
        staged.write_text(json.dumps(asdict(self)))
        staged.rename(home / "fault.json")

    @staticmethod
    def read(home: Path) -> "Fault | None":
        """Reads the latest fault for a driver."""
        try:
            return Fault(**json.loads((home / "fault.json").read_text()))
        except FileNotFoundError:
            return None

    def mark(self, home: Path) -> Path:
        """Returns the file that a driver creates when its fault happens."""
        return home / f"fault_counts-{self.number}"

    def answer(self, home: Path) -> Path:
        """Returns the file that confirms the kill of the server."""
        return home / f"away-{self.number}"


class Faults:
    """Executes each fault of this process at its step.

    Except before a run begins, a fault waits until the runs of all sinks have begun, so that it
    affects all of them.
    """

    def __init__(self, home: Path, sinks: Sequence[str]) -> None:
        self._home = home
        self._waiting = set(sinks)
        self._lock = threading.Lock()
        self._taken = -1
        self._skips: dict[int, int] = {}

    def steps_of(self, sink: str) -> Callable[[str, int], None]:
        """Returns the function that a sink calls at each of its steps."""
        return lambda step, epoch: self._on_step(sink, step, epoch)

    def _on_step(self, sink: str, step: str, epoch: int) -> None:
        fault = self._due_at(sink, step)
        if fault is None:
            return
        if fault.delay_s == 0:
            self._execute(fault, epoch)
        else:
            threading.Timer(fault.delay_s, self._execute, args=(fault, epoch)).start()

    def _due_at(self, sink: str, step: str) -> Fault | None:
        """Returns the fault that is due now."""
        with self._lock:
            if step == BEGUN:
                self._waiting.discard(sink)
                (self._home / f"begun-{sink}").touch()
            fault = Fault.read(self._home)
            if (
                fault is None
                or fault.number <= self._taken
                or (fault.sink, fault.step) != (sink, step)
            ):
                return None
            if step != ENTERED and self._waiting:
                return None
            skipped = self._skips.setdefault(fault.number, 0)
            self._skips[fault.number] += 1
            if skipped < fault.skips:
                return None
            self._taken = fault.number
            return fault

    def _execute(self, fault: Fault, epoch: int) -> None:
        fault.mark(self._home).write_text(f"epoch {epoch}, {fault.step}")
        if fault.kind in _SIGNALS:
            os.killpg(os.getpgrp(), _SIGNALS[fault.kind])
            return
        deadline = time.monotonic() + _SERVER_WITHIN_S
        while not fault.answer(self._home).exists() and time.monotonic() < deadline:
            time.sleep(_POLL_S)


class FaultySink(EpochSink):
    """Runs another sink, and executes faults between its steps."""

    def __init__(self, sink: EpochSink, meets: Callable[[str, int], None]) -> None:
        self._sink = sink
        self._on_step = meets
        self.reads_rows_once = sink.reads_rows_once

    @property
    def name(self) -> str:
        return self._sink.name

    @property
    def ledger_key(self) -> str:
        return self._sink.ledger_key

    def begin(self, side: QuerySide, session: Any) -> None:
        self._on_step(ENTERED, side.batch.epoch)
        self._sink.begin(side, session)
        self._on_step(BEGUN, side.batch.epoch)

    def published(self, batch: Batch) -> str | None:
        published = self._sink.published(batch)
        self._on_step(LOOKED, batch.epoch)
        return published

    def can_publish(self, handle: str, batch: Batch, published: str | None) -> bool:
        return self._sink.can_publish(handle, batch, published)

    def stage(self, rows: DataFrame, batch: Batch) -> str:
        handle = self._sink.stage(rows, batch)
        self._on_step(STAGED, batch.epoch)
        return handle

    def publish(self, handle: str, batch: Batch) -> None:
        self._on_step(SEALED, batch.epoch)
        self._sink.publish(handle, batch)
        self._on_step(PUBLISHED, batch.epoch)

    def leaves_record(self, handle: str) -> bool:
        return self._sink.leaves_record(handle)

    def clean_up(self, batch: Batch) -> None:
        self._sink.clean_up(batch)
        self._on_step(SWEPT, batch.epoch)
