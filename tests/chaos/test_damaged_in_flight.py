"""Random corruption of the objects of a bucket: each is reported, or changes nothing.

Topology: a query with in-flight rows has ended, with its checkpoint in a bucket. One object after
the other is damaged: a flipped bit, truncated, longer by a byte, deleted, or replaced by another
object. `verify` must name the object; or the restore must succeed, with the rows of state of the
undamaged checkpoint. In some trials, and if the last cut was deleted, the query also restarts,
which must fail with an error of Cleancut or of Spark, or write the rows of the batch answer. `SEED`
replays; `CLEANCUT_CHAOS_RUNS` multiplies the trials.
"""

import json
import random
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, StreamingQueryException
from pyspark.sql import SparkSession

from cleancut import Checkpoint, CleancutError, errors
from cleancut.testing import SkewedInput
from tests.input_coverage.log import INPUTS
from tests.support.copies import copied
from tests.support.in_flight_queries import (
    CHECKPOINTS,
    QUERIES,
    ROWS,
    SETTINGS,
    OrderedEpochs,
    checkpoint_of,
    cut_at_random,
    start,
)
from tests.support.random_damages import OBJECTS, RandomDamage
from tests.support.s3_servers import S3Server, s3proxy, set_environment, settings_at
from tests.support.seeds import chaos_runs, hunting
from tests.support.sink_places import credentials
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos, long]

SEED = hunting(812)
TRIALS = 40 * chaos_runs()
RESTART_EVERY = 20
QUERY = "totals"
FILES = 10
NOT_NEEDED = "not needed"


class Stored:
    """A query in a bucket that has ended, and copies of it.

    Attributes:
        rows: the rows of its state.
    """

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self._spark, self._home = spark, home
        self._bucket = home / "server" / "data" / S3Server.BUCKET
        self._source = SkewedInput(home / "input", seed=SEED, rows=ROWS)
        self._source.write(*range(FILES))
        self.select("intact")
        query = start(spark, QUERY, self._source, home / "intact")
        draw = random.Random(SEED)
        threading.Thread(target=cut_at_random, args=([query], draw), daemon=True).start()
        query.awaitTermination()
        self.rows = self.state()
        # A restart has one more file.
        self._source.write(FILES)

    def select(self, name: str) -> None:
        """Uses one of the copies from now on."""
        self._name = name

    def copy(self, name: str) -> None:
        copied(self._bucket / self._name, self._bucket / name)
        copied(self._home / self._name, self._home / name)
        self.select(name)

    def state(self) -> list[str]:
        """Restores the last cut, and returns the rows of its state."""
        self.checkpoint.test_restore(read_only=True)
        return sorted(map(repr, self.checkpoint.state(0).to_pylist()))

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(checkpoint_of(self._home / self._name))

    def objects(self) -> dict[str, list[Path]]:
        """Returns the objects by kind."""
        root = self._bucket / self._name / "checkpoint"
        objects: dict[str, list[Path]] = {}
        for path in sorted(path for path in root.rglob("*") if path.is_file()):
            parts = path.relative_to(root).parts
            kind = "/".join(parts[: 2 if parts[0] == "cleancut" else 1])
            objects.setdefault(kind, []).append(path)
        return objects

    def last_cut(self) -> Path:
        return max((self._bucket / self._name).rglob("*.cut"))

    def keep(self, path: Path) -> Path:
        """Copies an object with its metadata, which the server has in attributes of the file."""
        return Path(shutil.copy2(path, self._home / "kept"))

    def restart(self) -> CleancutError | Exception | None:
        """Restarts the query; returns its error."""
        try:
            query = start(self._spark, QUERY, self._source, self._home / self._name)
            query.awaitTermination()
        except (AnalysisException, IllegalArgumentException, StreamingQueryException) as failure:
            return errors.from_java(failure) or failure
        return None

    def is_right(self) -> bool:
        """Whether the query has written the rows of the batch answer."""
        sink = OrderedEpochs(self._home / self._name / "results")
        batch = self._source.batch(self._spark)
        return QUERIES[QUERY].compare(sink.read(), batch).is_same and sink.changed() == []


@pytest.fixture
def stored(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stored]:
    (tmp_path / "server").mkdir()
    with s3proxy(tmp_path / "server") as server, credentials(spark):
        settings = settings_at(server.endpoint)
        # So that there are snapshots.
        settings["spark.sql.streaming.stateStore.minDeltasForSnapshot"] = "2"
        monkeypatch.setenv(CHECKPOINTS, f"s3://{S3Server.BUCKET}")
        monkeypatch.setenv(SETTINGS, json.dumps(settings))
        set_environment(monkeypatch, server)
        yield Stored(spark, tmp_path)


def test_a_damaged_object_is_reported_or_not_needed(
    stored: Stored, show: Callable[[str], None]
) -> None:
    outcomes = Counter[str]()
    for trial in range(TRIALS):
        damage = RandomDamage(OBJECTS, SEED, trial)
        INPUTS.add(OBJECTS.space, f"{SEED} {trial}", damage.covered())
        stored.select("intact")
        objects = stored.objects()
        victim = damage.victim(objects)
        how = damage.selected["corruption"]
        is_last_cut_gone = how == "remove" and victim == stored.last_cut()
        restarts = is_last_cut_gone or trial % RESTART_EVERY == 0
        if restarts:
            stored.copy(f"copy-{trial}")
            objects = stored.objects()
            victim = damage.victim(objects)
        kept = stored.keep(victim)
        damage.apply(victim, objects)
        what = f"trial {trial} of seed {SEED}: {how} {victim}"
        report = reported(stored, victim, what)
        if report == NOT_NEEDED and is_last_cut_gone:
            # As if the driver had died before it: the restart repeats the epoch.
            report = "last cut gone"
        elif report == NOT_NEEDED:
            assert stored.state() == stored.rows, what
        outcomes[report] += 1
        if restarts:
            error = stored.restart()
            outcomes[f"restart: {'right' if error is None else type(error).__name__}"] += 1
            assert error is not None or stored.is_right(), what
            assert error is None or report in {"named", "refused"}, (what, error)
        else:
            shutil.copy2(kept, victim)
    show(f"seed {SEED}, {TRIALS} damages: {dict(outcomes)}")
    assert outcomes["named"] > 0


def reported(stored: Stored, victim: Path, what: str) -> str:
    """Returns what `verify` reports of a damaged object."""
    try:
        problems = stored.checkpoint.verify().problems
        report, texts = "named", [f"{problem.object} {problem.message}" for problem in problems]
    except CleancutError as refusal:
        report, texts = "refused", [str(refusal)]
    if not texts:
        return NOT_NEEDED
    assert any(victim.name in text for text in texts), (what, texts)
    return report
