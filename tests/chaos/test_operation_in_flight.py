"""Operations on checkpoints with in-flight rows, killed: each has the old or the new state.

Topology: a query in mode unaligned is stopped while rows are in flight, with its checkpoint on a
disk or in a bucket. An operation runs on the two executors of a `local-cluster`, and a driver or an
executor is killed by SIGKILL at a random moment. If the driver was killed, the operation runs
again, or the query continues as it was. It then ends with its input. Verified against the answer of
a batch: rows that are lost, duplicated or out of order, and `verify`. `SEED` replays;
`CLEANCUT_CHAOS_RUNS` multiplies the operations.
"""

import json
import random
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import cleancut
from cleancut import Checkpoint, RequestError
from cleancut.testing import SkewedInput
from demo.processes import ProcessTree
from tests.input_coverage.log import INPUTS
from tests.support.copies import copied
from tests.support.in_flight_queries import (
    CHECKPOINTS,
    ROWS,
    SETTINGS,
    Ended,
    checkpoint_of,
    configured,
    cut_at_random,
    start,
)
from tests.support.kills import environment
from tests.support.operation_kills import (
    AGAIN,
    BUCKET,
    CLONE,
    DISK,
    DRIVER,
    KILLED,
    LONGEST_S,
    MOMENT,
    MOMENTS,
    OPERATION,
    PLACE,
    QUERY,
    REPEATED,
    ROLLBACK,
    SPACE,
    USUAL_S,
    clone_of,
    covered_by,
    planned,
    selected,
)
from tests.support.s3_servers import S3Server, s3proxy, set_environment, settings_at
from tests.support.seeds import chaos_runs, hunting
from tests.support.sessions import START_REFUSED
from tests.support.sink_places import credentials
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos, long]

SEED = hunting(4711)
OPERATIONS = 14 * chaos_runs()
FILES = 10
# Runs of a query until it has been cut twice with in-flight rows.
PREPARATIONS = 5
# Columns of the table in docs/project/campaign-records.md, after the seed.
COUNTED = ["operations", "drivers", "executors", "late", "done", "again", "refused", "rows"]
FAULTS = ["lost", "duplicated", "disordered", "wrong"]


@dataclass(frozen=True)
class Stopped:
    """A query that was stopped while rows were in flight.

    Attributes:
        root: the directory of its files.
        epoch: an epoch whose cut has in-flight rows, to which a rollback goes.
    """

    root: Path
    epoch: int

    @property
    def location(self) -> str:
        """Its checkpoint."""
        return checkpoint_of(self.root)


class Stage:
    """The places of checkpoints, and the queries of which each operation has a copy."""

    def __init__(self, spark: SparkSession, home: Path, patch: pytest.MonkeyPatch) -> None:
        self.spark = spark
        self.source = SkewedInput(home / "input", seed=SEED, rows=ROWS)
        self.source.write(*range(FILES))
        self._home, self._patch = home, patch
        self.stopped = cache(self._stopped)
        self._in_flight = cache(self._of_one_cut)

    def use(self, place: str) -> None:
        """Has checkpoints on a disk or in a bucket from now on."""
        at = f"s3://{S3Server.BUCKET}" if place == BUCKET else str(self._home / "disk")
        self._patch.setenv(CHECKPOINTS, at)

    def session(self) -> SparkSession:
        """Returns a session for operations."""
        return configured(self.spark, "unaligned")

    def copy(self, operation: str, query: str, place: str, name: str) -> Stopped:
        """Returns a copy for an operation: a rollback has epochs to roll back."""
        self.use(place)
        stopped = (self.stopped if operation == ROLLBACK else self._in_flight)(query, place)
        root = self._home / name
        copied(stopped.root, root)
        copied(self._files(place, stopped.root), self._files(place, root))
        return replace(stopped, root=root)

    def copy_results(self, root: Path, to: Path) -> None:
        """Copies what the sink has received."""
        copied(root / "results", to / "results")

    def _files(self, place: str, root: Path) -> Path:
        """The directory of a checkpoint; the server of the bucket has its objects in files."""
        bucket = self._home / "server" / "data" / S3Server.BUCKET
        return {DISK: self._home / "disk", BUCKET: bucket}[place] / root.name

    def _stopped(self, query: str, place: str) -> Stopped:
        draw = random.Random(SEED)
        for attempt in range(PREPARATIONS):
            root = self._home / f"{query}-{place}-{attempt}"
            running = start(self.spark, query, self.source, root)
            threading.Thread(target=cut_at_random, args=([running], draw), daemon=True).start()
            # On an idle machine the query may end with its input before it is cut.
            while len(in_flight(root)) < 2 and running.isActive:
                time.sleep(0.1)
            running.stop()
            if len(in_flight(root)) >= 2:
                return Stopped(root, in_flight(root)[-2])
        raise AssertionError(f"{query} has no cuts with in-flight rows")

    def _of_one_cut(self, query: str, place: str) -> Stopped:
        """A query whose last cut has in-flight rows."""
        stopped = self.stopped(query, place)
        root = self._home / f"{query}-{place}-one"
        location = checkpoint_of(root)
        cleancut.clone(
            stopped.location, location, stopped.epoch, same_query=True, session=self.session()
        ).apply()
        self.copy_results(stopped.root, root)
        remove_results(root, after=stopped.epoch)
        epoch = Checkpoint(location).cuts()[-1].epoch
        assert in_flight(root) == [epoch]
        return Stopped(root, epoch)


def in_flight(root: Path) -> list[int]:
    """Returns the epochs whose cuts have in-flight rows."""
    if not any((root / "results").glob("*.json")):
        return []
    return [cut.epoch for cut in Checkpoint(checkpoint_of(root)).cuts() if cut.mode == "unaligned"]


def remove_results(root: Path, *, after: int) -> None:
    """Removes from the sink what a rollback repeats."""
    for path in (root / "results").glob("*.json"):
        if int(path.stem) > after:
            path.unlink()


@pytest.fixture
def stage(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    (tmp_path / "server").mkdir()
    with s3proxy(tmp_path / "server") as server, credentials(spark):
        monkeypatch.setenv(SETTINGS, json.dumps(settings_at(server.endpoint)))
        set_environment(monkeypatch, server)
        yield Stage(spark, tmp_path, monkeypatch)


class Trial:
    """An operation of a seed, and what happened."""

    def __init__(self, stage: Stage, number: int, log: Path) -> None:
        self._draw = random.Random(f"{SEED} {number}")
        self.selected = selected(SEED, number)
        self._stage, self._log = stage, log
        self.operation, self.query = self.selected[OPERATION], self.selected[QUERY]
        self.of = stage.copy(
            self.operation, self.query, self.selected[PLACE], f"operation-{number}"
        )
        self.tally: Counter[str] = Counter(operations=1)
        self._discarded = range(0)

    def run(self) -> None:
        """Runs the operation, and the query to the end of its input."""
        first = self._planned().epoch
        self._kill()
        is_done = self._is_done(first)
        self.tally["done"] += is_done
        if not is_done and (self.operation == CLONE or self.selected[REPEATED] == AGAIN):
            self.tally["again"] += 1
            self._apply()
            is_done = True
        roots = [self.of.root]
        if self.operation == CLONE:
            roots.append(self._root_of_clone())
        if is_done:
            self._roll_back_sink()
        for root in roots:
            self._continue(root)
            self._check(root)

    def _planned(self) -> cleancut.types.Plan:
        return planned(
            self.operation, self.query, self.of.location, self.of.epoch, self._stage.session()
        )

    def _apply(self) -> None:
        self._planned().apply(self._stage.session())

    def _kill(self) -> None:
        module = "tests.support.operation_kills"
        arguments = [self.operation, self.query, self.of.location, str(self.of.epoch)]
        with ProcessTree(
            [sys.executable, "-m", module, *arguments], env=environment(), log=self._log
        ) as life:
            while "BEGIN" not in self._log.read_text():
                assert life.exit_code() is None, self._log.read_text()
                time.sleep(0.02)
            quarter = MOMENTS.index(self.selected[MOMENT])
            share = (quarter + self._draw.random()) / len(MOMENTS)
            time.sleep(share * LONGEST_S.get(self.operation, USUAL_S))
            if self.selected[KILLED] == DRIVER:
                life.kill()
                is_late = "END" in self._log.read_text()
                self.tally["late" if is_late else "drivers"] += 1
                return
            is_killed = life.kill_executor(self._draw)
            self.tally["executors" if is_killed else "late"] += 1
            while life.exit_code() is None:
                time.sleep(0.02)
        assert "END" in self._log.read_text(), self._log.read_text()

    def _is_done(self, first: int) -> bool:
        """Whether the operation is refused because it is done, or has another epoch now."""
        try:
            return self._planned().epoch != first
        except RequestError as refusal:
            if "already" in str(refusal):
                return True
            raise

    def _root_of_clone(self) -> Path:
        root = self.of.root.with_name(f"{self.of.root.name}-clone")
        assert checkpoint_of(root) == clone_of(self.of.location)
        self._stage.copy_results(self.of.root, root)
        return root

    def _roll_back_sink(self) -> None:
        if self.operation == ROLLBACK:
            remove_results(self.of.root, after=self.of.epoch)
            last = Checkpoint(self.of.location).cuts()[-1].epoch
            self._discarded = range(self.of.epoch + 1, last)

    def _continue(self, root: Path) -> None:
        try:
            self._end(root)
        except START_REFUSED:
            # Killed between the cut and the logs, so that it has to be repeated.
            self.tally["refused"] += 1
            self._apply()
            self._roll_back_sink()
            self._end(root)

    def _end(self, root: Path) -> None:
        start(self._stage.spark, self.query, self._stage.source, root).awaitTermination()

    def _check(self, root: Path) -> None:
        stage = self._stage
        ended = Ended.of(self.query, stage.spark, stage.source, root, self._discarded)
        counts = ended.counts
        # Its rows are ordered by partition.
        if self.query == "unique" and self.operation.startswith("rescale"):
            is_right = ended.compared.lost == ended.compared.duplicated == 0 and not ended.changed
            counts |= {"disordered": 0, "wrong": not is_right}
        self.tally.update({name: counts[name] for name in FAULTS})
        self.tally["rows"] += ended.compared.expected
        problems = Checkpoint(checkpoint_of(root)).verify().problems
        assert not problems, (self.selected, problems)
        assert not counts["wrong"], (self.selected, ended, ended.changed)


def test_a_killed_operation_leaves_the_old_or_the_new_state(
    stage: Stage, tmp_path: Path, show: Callable[[str], None], figures: list[str]
) -> None:
    sums: Counter[str] = Counter()
    for number in range(OPERATIONS):
        trial = Trial(stage, number, tmp_path / f"{number}.log")
        INPUTS.add(SPACE, f"{SEED} {number}", covered_by(SEED, number))
        trial.run()
        show(f"operation {number} of seed {SEED}: {trial.selected}: {dict(trial.tally)}")
        sums += trial.tally
        shutil.rmtree(trial.of.root)
    counts = " | ".join(str(sums[name]) for name in COUNTED + FAULTS)
    figures.append(f"for docs/project/campaign-records.md: | {SEED} | {counts} |")
    assert sums["drivers"] > 0
