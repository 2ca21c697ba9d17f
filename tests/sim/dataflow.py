"""Simulated dataflows: `python -m tests.sim.dataflow --runs 10000 --seed 1`; one seed replays one.

A seed draws queries, channels with loops, the order of all requests, and what befalls them:
crashes, zombies that stand still, lost requests, lost answers, sweeps, rollbacks, and several
coordinators. Those run their own code. After each change of the bucket all vectors that count are
checked.
"""

import argparse
import os
import random
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeVar
from unittest.mock import patch

from cleancut.dataflow._cuts.coordinator import Coordinator
from cleancut.dataflow._model.names import member_name
from cleancut.dataflow._model.records import MemberRecord
from cleancut.dataflow._store.machinery import Machinery
from cleancut.dataflow._store.store import DataflowStore
from cleancut.errors import CleancutError
from tests.input_coverage.log import INPUTS
from tests.input_coverage.space import Dimension, InputSpace
from tests.sim.invariants import Invariants, ViolationError
from tests.sim.queries import SimQuery, Truth
from tests.sim.schedule import CrashError, Schedule
from tests.support.flow_places import Bucket, nothing, open_records_in, open_root_in
from tests.support.flow_world import FLOW

Item = TypeVar("Item")
Result = TypeVar("Result")
Defect = Callable[[], AbstractContextManager[object]]

STEPS = 600
_WATCHED = ("/vectors/", "/savepoints/", "/segments/", "/_epochs/", "/_taken_back/")


@dataclass
class SimMachinery(Machinery):
    """The schedule's clock and random source; concurrent requests run in random order."""

    schedule: Schedule = field(kw_only=True)

    def now_ms(self) -> int:
        self.schedule.seconds += 0.001
        return round(self.schedule.seconds * 1000)

    def monotonic(self) -> float:
        return self.schedule.seconds

    def wait(self, seconds: float) -> None:
        self.schedule.seconds += seconds
        self.schedule.pause()

    def token(self) -> str:
        return f"{self.schedule.draw.getrandbits(128):032x}"

    def each(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        waiting = list(enumerate(items))
        self.schedule.draw.shuffle(waiting)
        done: dict[int, Result] = {}
        failed: dict[int, Exception] = {}
        for number, item in waiting:
            try:
                done[number] = function(item)
            except Exception as error:
                failed[number] = error
        if failed:
            raise failed[min(failed)]
        return [done[number] for number in sorted(done)]


class Simulation:
    """One run.

    Attributes:
        vectors: how many vectors coordinators have made.
    """

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.schedule = Schedule(self.draw)
        self.bucket = Bucket()
        self.truth = Truth()
        self.queries = self._drawn()
        reads = {query.name: query.reads for query in self.queries}
        self.invariants = Invariants(self.bucket.data, self.truth, reads)
        self.vectors = 0
        self.store = self._flow()

    def _drawn(self) -> list[SimQuery]:
        named = "abcd"[: self.draw.choice((2, 2, 3, 4))]
        queries = []
        for name in named:
            reads = self.draw.sample(named, self.draw.choice((0, 1, 1, 2)))
            keep = self.draw.choice((1, 2, 4))
            query = SimQuery(name, tuple(reads), keep, self.bucket, self.truth, self.schedule)
            queries.append(query)
        return queries

    def _flow(self) -> DataflowStore:
        machinery = SimMachinery(schedule=self.schedule)
        store = DataflowStore(FLOW, self.bucket.place(FLOW), machinery)
        store.flow_id(create=True)
        for query in self.queries:
            record = MemberRecord(query.name, query.checkpoint, 0)
            store.create(member_name(query.name), record.encode())
        return store

    def run(self) -> None:
        """Runs it to its end, and then once without faults."""
        self.bucket.before = self.schedule.before
        self.bucket.after = self._after
        for query in self.queries:
            self.schedule.add(query.name, query.live)
        self.coordinators = self.draw.choice((1, 2, 2))
        for number in range(self.coordinators):
            self.schedule.add(f"coordinator {number}", self._coordinate, weight=3)
        self.schedule.run(STEPS)
        self.schedule.faults = None
        self.bucket.before = nothing
        self._last()

    def _after(self, operation: str, key: str) -> None:
        if operation in ("create", "delete") and any(watched in key for watched in _WATCHED):
            self.invariants.check(key)
        self.schedule.after(operation, key)

    def _made(self) -> Coordinator:
        return Coordinator(self.store, open_root_in(self.bucket), open_records_in(self.bucket))

    def _coordinate(self) -> None:
        """Runs one coordinator after the other, each until it crashes or ends."""
        while True:
            coordinator = self._made()
            try:
                coordinator.begin()
                for _ in range(self.draw.randrange(1, 6)):
                    self._cut(coordinator)
                coordinator.end()
            except CrashError:
                if self.schedule.is_ending:
                    raise
            except (CleancutError, OSError) as error:
                self.schedule.log.append(f"coordinator failed: {error}")
                self.schedule.met.add("coordinator failed")
            self.schedule.pause()

    def _cut(self, coordinator: Coordinator) -> None:
        coordinator.poll()
        made = coordinator.cut(0.1, wait=self.draw.random() < 0.2)
        self.vectors += 1
        self.schedule.log.append(f"vector {made.number}: {dict(made.epochs)}")
        self.invariants.promised.add(made.number)
        self.invariants.check()
        if self.draw.random() < 0.5:
            keep = self.draw.randrange(1, 4)
            kept = {entry.number for entry in coordinator.entries[-keep:]}
            # The coordinator may be fenced or crash during an expiry, and another one may repeat
            # it.
            self.invariants.promised &= kept | {
                number
                for number in self.invariants.promised
                if number > coordinator.entries[-1].number
            }
            self.schedule.met.add("vectors expired")
            coordinator.expire(keep)

    def _last(self) -> None:
        """Checks that the next coordinator leaves no object that no vector names."""
        coordinator = self._made()
        coordinator.begin()
        self.invariants.check()
        named = {
            (member.checkpoint, member.pin)
            for one in self.store.entries()
            for member in one.members
        }
        for query in self.queries:
            prefix = f"ckpt/{query.name}/cleancut/savepoints/"
            for key in [stored for stored in self.bucket.data if stored.startswith(prefix)]:
                pin = key.removeprefix(prefix).removesuffix(".cut")
                if (query.checkpoint, pin) not in named:
                    raise ViolationError(f"{pin} of {query.name} is left, and no vector names it")


SPACE = InputSpace(
    "dataflows, simulated",
    [
        Dimension("queries", (2, 3, 4)),
        Dimension("inputs of a query", (0, 1, 2)),
        Dimension("retained cuts", (1, 2, 4)),
        Dimension("channels", ("no loop", "query that reads its output", "loop of queries")),
        Dimension("concurrent coordinators", (1, 2)),
        Dimension(
            "fault or event",
            (
                *("crashed before a request", "crashed after a request", "lost", "unheard"),
                *("paused", "consumed epoch hidden", "query rolled back"),
                *("coordinator failed", "vectors expired"),
            ),
        ),
    ],
)


def covered_by(run: Simulation) -> dict[str, list[Any]]:
    """Returns the values of the dimensions of `SPACE`."""
    reads = {query.name: query.reads for query in run.queries}
    loops = []
    if any(name in senders for name, senders in reads.items()):
        loops.append("query that reads its output")
    others = {name: set(senders) - {name} for name, senders in reads.items()}
    try:
        TopologicalSorter(others).prepare()
    except CycleError:
        loops.append("loop of queries")
    return {
        "queries": [len(reads)],
        "inputs of a query": [len(senders) for senders in reads.values()],
        "retained cuts": [query.keep for query in run.queries],
        "channels": loops or ["no loop"],
        "concurrent coordinators": [run.coordinators],
        "fault or event": sorted(run.schedule.met),
    }


def simulate(seed: int) -> Simulation:
    """Runs one seed.

    Raises:
        ViolationError: what does not hold.
    """
    made = Simulation(seed)
    try:
        # Separate threads would run in an order that the seed does not determine.
        with patch("cleancut.sinks._epoch_log.view.mapped", map):
            made.run()
    except ViolationError as error:
        # Remaining actors would wait for ever.
        log = "\n".join(made.schedule.log[-60:])
        made.bucket.before = made.bucket.after = nothing
        raise ViolationError(f"seed {seed}: {error}\n{log}") from error
    return made


def found_after(defect: Defect, first_seed: int, runs: int) -> int | None:
    """Returns the number of runs until a planted defect is found; None if it is not."""
    for run in range(runs):
        with defect():
            try:
                simulate(first_seed + run)
            except ViolationError:
                return run + 1
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=None, help="the first one; default: random")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    given = parser.parse_args()
    first = random.SystemRandom().randrange(2**32) if given.seed is None else given.seed
    print(f"seeds from {first}", flush=True)
    began = time.monotonic()
    seeds = range(first, first + given.runs)
    vectors = checked = 0
    with ProcessPoolExecutor(given.processes) as pool:
        for run, counts in enumerate(pool.map(counted, seeds, chunksize=50), start=1):
            vectors, checked = vectors + counts[0], checked + counts[1]
            if run % 1000 == 0:
                print(f"{run} runs, {vectors} vectors given to callers", flush=True)
    took = time.monotonic() - began
    print(f"{given.runs} runs in {took:.0f} s: {vectors} vectors given, {checked} checked, 0 wrong")
    return 0


def counted(seed: int) -> tuple[int, int]:
    """Returns the number of vectors that were created in a run, and of those that were checked."""
    made = simulate(seed)
    INPUTS.add(SPACE, seed, covered_by(made))
    return made.vectors, made.invariants.checked


if __name__ == "__main__":
    sys.exit(main())
