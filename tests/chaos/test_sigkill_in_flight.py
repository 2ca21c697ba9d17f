"""Queries on a cluster of two executors, cut at random and killed while rows are in flight.

Topology: five random queries in mode unaligned on `local-cluster`, each with a hot key; one has a
slow function in Python. In every second run their cuts are pipelined. Drivers and executors are
killed by SIGKILL at random moments with in-flight rows of the query in Python. Another test has
all queries in a bucket, with pipelined cuts, and kills the driver at each request of the writer of
cuts. Verified against the answer of a batch over the same files: lost, duplicated and unordered
rows; epochs that ran again with other rows after their seal; and that kills and in-flight rows have
happened. `SEED` replays a run; `CLEANCUT_CHAOS_RUNS` makes it a campaign, whose sums are a line for
`docs/project/campaign-records.md`.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cleancut.testing import SkewedInput
from demo.in_flight import has_rows_in_flight, in_flight_rows
from tests.input_coverage.log import INPUTS
from tests.support.counting_proxy import CountingProxy, counting_proxy
from tests.support.in_flight_queries import (
    CHECKPOINTS,
    KILL_SPACE,
    PIPELINED,
    QUERIES,
    ROWS,
    SETTINGS,
    Ended,
    OrderedEpochs,
    covered_by,
    draw_queries,
    draw_size,
    start,
)
from tests.support.kills import Campaign
from tests.support.s3_servers import s3proxy, set_environment, settings_at
from tests.support.seeds import chaos_runs, hunting
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos, long]

SEED = hunting(4711)
CLUSTER = "local-cluster[2,1,1024]"
_KEYS = "spark.sql.streaming.stateStore.cleancut."
# Columns of the table in docs/project/campaign-records.md, after the seeds. A run is one query.
COUNTED = ["runs", "epochs", "held", "drivers", "executors", "met"]
COUNTED_PIPELINED = ["runs", "epochs", "held", "drivers", "killed", "repeated"]
FAULTS = ["lost", "duplicated", "disordered", "wrong"]
# The requests between two epochs, in order.
STEPS = {
    "cut": r"/cuts/\d{20}\.cut",
    "ownership check": r"/owners/",
    "source log": r"/sources/0/",
    "offset log": r"/offsets/\d",
}
REQUEST_S = 0.05
# The first cut of a life is not pipelined.
CUTS_BEFORE_KILL = 3


@pytest.fixture(scope="module")
def tally(figures: list[str]) -> Iterator[Counter[str]]:
    """Sums over all seeds."""
    yield from _sums(figures, COUNTED)


@pytest.fixture(scope="module")
def pipelined_tally(figures: list[str]) -> Iterator[Counter[str]]:
    """Sums over all seeds and modes of pipelined queries in a bucket."""
    yield from _sums(figures, COUNTED_PIPELINED)


def _sums(figures: list[str], counted: list[str]) -> Iterator[Counter[str]]:
    """Yields a counter, and then prints it as a line for the records."""
    counter: Counter[str] = Counter()
    yield counter
    counts = " | ".join(str(counter[name]) for name in counted + FAULTS)
    figures.append(
        f"for docs/project/campaign-records.md: | {SEED} to {SEED + chaos_runs() - 1} | {counts} |"
    )


@pytest.mark.parametrize("seed", range(SEED, SEED + chaos_runs()))
def test_in_flight_rows_survive_kills_of_drivers_and_executors(
    seed: int,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    show: Callable[[str], None],
    tally: Counter[str],
) -> None:
    files, driver_kills, executor_kills = draw_size(seed)
    monkeypatch.setenv(SETTINGS, json.dumps({PIPELINED: str(seed % 2 == 0).lower()}))
    source, root = SkewedInput(tmp_path / "input", seed=seed, rows=ROWS), tmp_path / "queries"
    source.write(*range(files))
    names = draw_queries(seed)
    INPUTS.add(KILL_SPACE, seed, covered_by(seed))
    checkpoints = {name: str(root / name / "checkpoint") for name in names}
    # It waits for the most rows, so that others end before it.
    awaited = checkpoints[names[-1]]
    met: list[dict[str, int]] = []
    campaign = Campaign(
        [
            *("-m", "tests.support.in_flight_queries", CLUSTER, str(seed)),
            *(str(source.directory), str(root), *names),
        ],
        work=tmp_path,
        seed=seed,
        driver_kills=driver_kills,
        executor_kills=executor_kills,
        is_worth_it=lambda: has_rows_in_flight(awaited),
        struck=lambda _: met.append({name: in_flight_rows(at) for name, at in checkpoints.items()}),
    )
    campaign.run(progress=lambda: len(list(root.glob("*/results/*.json"))))
    show(
        f"seed {seed}: {campaign.drivers_killed} drivers and {campaign.executors_killed} executors "
        f"killed in {campaign.lives} lives, with these in-flight rows: {met}"
    )
    tally["drivers"] += campaign.drivers_killed
    tally["executors"] += campaign.executors_killed
    tally["met"] += sum(sum(rows.values()) for rows in met)
    open_epochs = 0
    for name in names:
        start(spark, name, source, root / name, mode="aligned").awaitTermination()
        query = Ended.of(name, spark, source, root / name)
        open_epochs += query.held
        show(f"{name}: {query}")
        tally.update(runs=1, **query.counts)
        assert query.compared.expected > 0
        assert query.is_right, (query.compared, query.changed)
        assert query.modes[-1] == "aligned"
    assert open_epochs > 0
    assert any(sum(rows.values()) for rows in met)
    assert (campaign.drivers_killed, campaign.executors_killed) == (driver_kills, executor_kills)


@dataclass
class StepOfWriter:
    """Waits for a request between two epochs of any query, each kill for that of the next step.

    Attributes:
        proxy: the proxy of the bucket.
        names: the queries.
        struck: the step of each kill.
    """

    proxy: CountingProxy
    names: list[str]
    struck: list[str] = field(default_factory=list)
    _begin: int = 0

    def is_due(self) -> bool:
        """Whether it is the last request of a query that has pipelined some cuts in its life."""
        sent = [path for _, path in self.proxy.requests[self._begin :]]
        return any(self._is_due([path for path in sent if f"/{n}/" in path]) for n in self.names)

    def strike(self, _: str) -> None:
        """Continues with the next step, in the next life."""
        self.struck.append(self._step)
        self._begin = len(self.proxy.requests)

    def _is_due(self, sent: list[str]) -> bool:
        cuts = sum(bool(re.search(STEPS["cut"], path)) for path in sent)
        return cuts >= CUTS_BEFORE_KILL and bool(re.search(STEPS[self._step], sent[-1]))

    @property
    def _step(self) -> str:
        return list(STEPS)[len(self.struck) % len(STEPS)]


@pytest.mark.parametrize("mode", ["aligned", "unaligned"])
@pytest.mark.parametrize("seed", range(SEED, SEED + chaos_runs()))
def test_pipelined_cuts_survive_kills_of_drivers_at_each_step_of_their_writer(
    seed: int,
    mode: str,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    show: Callable[[str], None],
    pipelined_tally: Counter[str],
) -> None:
    names, kills = sorted(QUERIES), 2 * len(STEPS)
    files = 5 * kills
    source, root = SkewedInput(tmp_path / "input", seed=seed, rows=ROWS), tmp_path / "queries"
    source.write(*range(files))
    (tmp_path / "server").mkdir()
    killed = 0
    with s3proxy(tmp_path / "server") as server, counting_proxy(server.endpoint) as proxy:
        set_environment(monkeypatch, server)
        settings = {PIPELINED: "true", f"{_KEYS}mode": mode}
        settings |= settings_at(proxy.endpoint)
        monkeypatch.setenv(SETTINGS, json.dumps(settings))
        monkeypatch.setenv(CHECKPOINTS, f"s3://{server.BUCKET}/killed")
        proxy.delay_s = REQUEST_S
        step = StepOfWriter(proxy, names)

        def strike(victim: str) -> None:
            nonlocal killed
            step.strike(victim)
            # An epoch has a file, so that a query with fewer results still ran.
            killed += sum(len(list(root.glob(f"{n}/results/*.json"))) < files for n in names)

        campaign = Campaign(
            [
                *("-m", "tests.support.in_flight_queries", CLUSTER, str(seed)),
                *(str(source.directory), str(root), *names),
            ],
            work=tmp_path,
            seed=seed,
            driver_kills=kills,
            executor_kills=0,
            is_worth_it=step.is_due,
            struck=strike,
        )
        campaign.run(progress=lambda: len(list(root.glob("*/results/*.json"))))
        ended = {name: Ended.of(name, spark, source, root / name) for name in names}
    repeated = sum(len(OrderedEpochs(root / name / "results").repeated()) for name in names)
    show(
        f"seed {seed}: {campaign.drivers_killed} kills at {dict(Counter(step.struck))}, "
        f"{killed} of running queries, {repeated} epochs repeated"
    )
    for name, query in ended.items():
        show(f"{name}: {query}")
        pipelined_tally.update(runs=1, **query.counts)
    pipelined_tally.update(drivers=campaign.drivers_killed, killed=killed, repeated=repeated)
    for query in ended.values():
        assert query.compared.expected > 0
        assert query.is_right, (query.compared, query.changed)
    assert campaign.drivers_killed == kills
    # A kill costs each query at most one published epoch.
    assert repeated <= killed
