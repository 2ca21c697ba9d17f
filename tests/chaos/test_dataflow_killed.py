"""A dataflow of four queries in a diamond and a loop, whose drivers and coordinator are killed.

Each query has a separate driver, and another process creates cuts of the dataflow; only a directory
or a bucket connects them. Repeatedly, one of the five is killed by SIGKILL at a random moment and
restarted. Verified: the output is the answer of a batch, without lost or duplicated rows; each
dataflow cut is consistent by row: all rows that a query has received are in its state or in flight
to it, and had been sent; and clones of cuts, when continued, produce the same answer. `SEED`
replays a run, and `CLEANCUT_CHAOS_RUNS` is the number of kills divided by ten.
"""

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cleancut import Dataflow
from cleancut.dataflow import DataflowCut
from demo.processes import ProcessTree
from tests.input_coverage.log import INPUTS
from tests.support.flow_kills import SPACE, covered_by, order_of_kills
from tests.support.flow_member import (
    CHANNELS,
    COORDINATOR,
    MEMBERS,
    Place,
    Row,
    expected,
    running,
    write_input,
)
from tests.support.kills import environment
from tests.support.patience import PATIENCE_S
from tests.support.s3_servers import VERSITYGW, S3Server, s3proxy, versitygw
from tests.support.seeds import chaos_runs, hunting
from tests.support.sink_places import credentials
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos, long]

SEED = hunting(30)
FILES, ROWS = 40, 25
_LIMIT_S = PATIENCE_S
_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "access",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
}


class Processes:
    """The queries and the coordinator, each in a process that may be killed."""

    def __init__(self, place: Place, stack: ExitStack) -> None:
        self._place = place
        self._stack = stack
        self.kills: Counter[str] = Counter()
        self._lives: dict[str, ProcessTree] = {}
        for name in (*MEMBERS, COORDINATOR):
            self._start(name)

    def _start(self, name: str) -> None:
        log = self._place.work / f"{name}-{self.kills[name]}.log"
        command = ["-m", "tests.support.flow_member", str(self._place.work), self._place.at]
        command += [self._place.endpoint, name]
        life = ProcessTree([sys.executable, *command], env=environment(), log=log)
        self._lives[name] = self._stack.enter_context(life)

    def kill(self, name: str) -> None:
        self.check()
        assert self._lives[name].kill()
        self.kills[name] += 1
        self._start(name)

    def check(self) -> None:
        """Checks that no process ends by itself."""
        for name, life in self._lives.items():
            code = life.exit_code()
            assert code is None, f"{name} ended with {code}: {self._log(name)}"

    def end(self) -> None:
        (self._place.work / "stop").touch()
        deadline = time.monotonic() + _LIMIT_S
        for name, life in self._lives.items():
            while life.exit_code() is None:
                assert time.monotonic() < deadline, f"{name} does not end: {self._log(name)}"
                time.sleep(0.1)
            assert life.exit_code() == 0, f"{name}: {self._log(name)}"

    def _log(self, name: str) -> str:
        log = self._place.work / f"{name}-{self.kills[name]}.log"
        return log.read_text(errors="replace")[-3000:]


@pytest.fixture(params=["disk", s3proxy.__name__, *([versitygw.__name__] if VERSITYGW else [])])
def place(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Place]:
    """On a disk, or in a bucket of each available server."""
    if request.param == "disk":
        yield Place(tmp_path, str(tmp_path / "flow"))
        return
    for name, value in _ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    start = {server.__name__: server for server in (s3proxy, versitygw)}[request.param]
    (tmp_path / "server").mkdir()
    with start(tmp_path / "server") as server, credentials(spark):
        yield Place(tmp_path, f"s3://{S3Server.BUCKET}/{tmp_path.name}", server.endpoint)


def test_a_diamond_and_a_loop_survive_the_kills_of_their_drivers_and_coordinators(
    place: Place,
    request: pytest.FixtureRequest,
    spark: SparkSession,
    tmp_path: Path,
    show: Callable[[str], None],
) -> None:
    write_input(tmp_path, SEED, FILES, ROWS)
    flow = place.flow
    for member in MEMBERS:
        flow.add(member, place.checkpoint(member))
    answer = expected(tmp_path)
    draw = random.Random(SEED)
    kills = order_of_kills(SEED, 10 * chaos_runs())
    kind = request.node.callspec.params["place"]
    for number, inputs in enumerate(covered_by(kind, kills)):
        INPUTS.add(SPACE, f"{SEED} {kind} {number}", inputs)
    with ExitStack() as stack:
        processes = Processes(place, stack)
        for name in kills:
            time.sleep(2 + draw.random() * 12)
            processes.kill(name)
        deadline = time.monotonic() + _LIMIT_S
        while place.output(spark).total() < answer.total():
            processes.check()
            assert time.monotonic() < deadline, f"{place.output(spark).total()} of {answer.total()}"
            time.sleep(1)
        # Duplicates would be emitted now.
        time.sleep(3)
        processes.check()
        processes.end()
    actual = place.output(spark)
    show(
        f"seed {SEED}, {place.at}: killed {dict(processes.kills)}; of {answer.total()} rows "
        f"{(answer - actual).total()} lost, {(actual - answer).total()} duplicated"
    )
    assert actual == answer
    cuts = flow.cuts()
    in_flight = [check_cut(flow, cut, place, spark) for cut in cuts]
    show(f"{len(cuts)} dataflow cuts, with these in-flight rows: {in_flight}")
    assert cuts
    assert any(in_flight)
    # All of them in a campaign.
    chosen = cuts if chaos_runs() > 1 else [cuts[len(cuts) // 2]]
    for cut in chosen:
        check_clone(flow, cut, place, spark, answer)


def check_cut(flow: Dataflow, cut: DataflowCut, place: Place, spark: SparkSession) -> int:
    """Checks that a cut is consistent; returns the in-flight rows between its queries."""
    report = flow.verify(cut.number)
    assert report.ok, str(report)
    for member in cut.members:
        if member.name in ("left", "total") and member.epoch is not None:
            checkpoint = place.opened(member.checkpoint)
            channels = checkpoint.cut(at=member.savepoint).shuffle_inputs
            in_operator = sum(channel.in_flight_rows for channel in channels)
            met = checkpoint.state(0, at=member.savepoint).num_rows
            assert met + in_operator == _received(cut, member.name, place, spark), (cut, member)
    return sum(edge.rows for edge in flow.in_flight(cut.number))


def _received(cut: DataflowCut, member: str, place: Place, spark: SparkSession) -> int:
    """Returns the rows that a member has read of its channels, by the sent epochs."""
    count = 0
    session = place.session(spark)
    for edge in cut.edges:
        if edge.receiver == member and edge.consumed is not None:
            assert edge.sent is not None
            assert edge.consumed <= edge.sent
            name = edge.channel.rpartition("/")[2]
            held = [epoch.epoch for epoch in place.epochs(name) if epoch.epoch <= edge.consumed]
            rows = place.channel(name).read(session, held)
            count += (
                rows.where("hops > 0 AND way = 'left'").count() if name == "again" else rows.count()
            )
    return count


def check_clone(
    flow: Dataflow, cut: DataflowCut, place: Place, spark: SparkSession, answer: Counter[Row]
) -> None:
    """A clone of a cut produces the same answer."""
    there = Place(place.work, f"{place.at}-of-{cut.number}", place.endpoint)
    plan = flow.clone(
        f"{there.at}/flow",
        {member: there.checkpoint(member) for member in MEMBERS},
        {f"{place.at}/channels/{name}": f"{there.at}/channels/{name}" for name in CHANNELS},
        at=cut.number,
        session=place.session(spark),
    )
    plan.apply()
    epoch = _epoch_of(cut, "total")
    before = place.output(spark, until=-1 if epoch is None else epoch)
    rest: Counter[Row] = answer - before
    deadline = time.monotonic() + _LIMIT_S
    with running(there, spark) as queries:
        while there.output(spark).total() < rest.total():
            assert time.monotonic() < deadline, (cut, there.output(spark).total())
            assert all(query.exception() is None for query in queries)
            time.sleep(0.5)
        time.sleep(2)
    assert there.output(spark) == rest


def _epoch_of(cut: DataflowCut, member: str) -> int | None:
    return next(member_cut.epoch for member_cut in cut.members if member_cut.name == member)
