"""Conversions of a stopped query's checkpoint to another provider, and to other partitions."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import DataFrame, SparkSession

import cleancut
from cleancut import Checkpoint, RequestError
from cleancut._cli import main as _cli
from cleancut._provider import PROVIDER_CLASS, PROVIDER_KEY
from cleancut._session.options import PREFIX
from tests.support.documented import blocks, commands
from tests.support.lines import STATE_FOR_SPARK
from tests.support.sessions import HDFS, ROCKSDB, START_REFUSED
from tests.support.tiers import long, usually

pytestmark = pytest.mark.spark

GUIDE = "docs/operate/moving.md"
REFUSED = "CLEANCUT_OPERATION_REFUSED"
CUTS = {f"{PREFIX}cuts": "true"}
ROWS = 40


class Counts:
    """Counts of rows by key, in epochs of one file each, by runs with their own settings."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.spark = spark
        self.home = home
        self.files = 0
        self.last: dict[int, int] = {}

    @property
    def checkpoint(self) -> str:
        return str(self.home / "checkpoint")

    def run(self, **settings: str) -> None:
        (self.home / "in").mkdir(exist_ok=True)
        rows = [{"k": (7 * at + self.files) % 13} for at in range(ROWS)]
        path = self.home / "in" / f"{self.files}.json"
        path.write_text("\n".join(map(json.dumps, rows)))
        self.files += 1
        session = self.spark.newSession()
        for key, value in settings.items():
            session.conf.set(key, value)

        def take(batch: DataFrame, _: int) -> None:
            self.last.update({row.k: row["count"] for row in batch.collect()})

        counted = session.readStream.schema("k int").json(str(self.home / "in")).groupBy("k")
        query = counted.count().writeStream.outputMode("update").foreachBatch(take)
        query = query.option("checkpointLocation", self.checkpoint)
        query.trigger(availableNow=True).start().awaitTermination()
        keys = ((7 * at + file) % 13 for file in range(self.files) for at in range(ROWS))
        assert self.last == Counter(keys)

    def begin(self, provider: str, partitions: int = 3) -> None:
        self.run(**{PROVIDER_KEY: provider, "spark.sql.shuffle.partitions": str(partitions)})

    def bytes(self) -> dict[str, bytes]:
        files = (path for path in Path(self.checkpoint).rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in files}


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Counts:
    return Counts(spark, tmp_path)


@pytest.mark.parametrize("provider", [ROCKSDB, pytest.param(HDFS, marks=long)])
def test_a_query_is_converted_and_continues_with_cuts(query: Counts, provider: str) -> None:
    query.begin(provider)
    before = query.bytes()
    plan = cleancut.convert(query.checkpoint)
    assert query.bytes() == before
    assert (plan.operation, plan.epoch, plan.provider_before) == ("convert", 1, provider)
    assert "Nothing has changed yet." in str(plan)
    done = plan.apply()
    assert done.operators[0].rows == len(query.last)
    # The old state is unchanged; new files are next to it.
    assert before.items() <= query.bytes().items()
    rows = Checkpoint(query.checkpoint).state(0).to_pylist()
    assert {row["key"]["k"]: row["value"]["count"] for row in rows} == query.last
    query.run(**CUTS)
    query.run(**CUTS)
    assert len(Checkpoint(query.checkpoint).cuts()) == 2
    assert Checkpoint(query.checkpoint).verify().ok
    with pytest.raises(RequestError, match="committed by cuts") as raised:
        cleancut.convert(query.checkpoint, provider="rocksdb")
    assert raised.value.error_id == REFUSED
    # A separate cut, in which no former store is left.
    cleancut.rescale(query.checkpoint, 2).apply()
    there = Checkpoint(query.checkpoint)
    assert there.cuts()[-1].epoch == 4
    assert {store.partition for store in there.cut().stores} == {0, 1}
    query.run(**CUTS)
    assert Checkpoint(query.checkpoint).verify().ok


def test_settings_of_a_session_for_cuts_apply_to_its_queries(query: Counts) -> None:
    query.begin(ROCKSDB)
    session = query.spark.newSession()
    session.conf.set(f"{PREFIX}cuts", "true")
    cleancut.convert(query.checkpoint, session=session).apply(session)
    assert Checkpoint(query.checkpoint).cuts() == []
    cleancut.rescale(query.checkpoint, 2, session=session).apply(session)
    query.run(**CUTS)
    assert len(Checkpoint(query.checkpoint).cuts()) == 1


@pytest.mark.parametrize("place", usually({"cuts", "rocksdb"}, ["cuts", "level-0", "rocksdb"]))
def test_state_partitions_applies_at_the_start(query: Counts, place: str) -> None:
    provider = ROCKSDB if place == "rocksdb" else PROVIDER_CLASS
    cuts = CUTS if place == "cuts" else {}
    key = f"{PREFIX}statePartitions"
    query.run(**{PROVIDER_KEY: provider, "spark.sql.shuffle.partitions": "3", key: "8"} | cuts)
    # A new query has Spark's default.
    assert partitions(query) == 3
    for wanted in ("5", "2", "2", "auto"):
        query.run(**{key: wanted} | cuts)
        assert partitions(query) == (2 if wanted == "auto" else int(wanted))
    # A rescale without cuts leaves the epoch before its own unused.
    assert epochs(query) == ([0, 1, 2, 3, 4, 5, 6] if cuts else [0, 2, 3, 5, 6, 7, 8])


@long
def test_state_partitions_is_applied_by_a_later_start_if_impossible(query: Counts) -> None:
    query.begin(PROVIDER_CLASS)
    query.run()
    for name in ("1", ".1.crc"):
        (Path(query.checkpoint) / "commits" / name).unlink(missing_ok=True)
    key = f"{PREFIX}statePartitions"
    # The planned epoch runs first, unchanged.
    query.run(**{key: "4"})
    assert partitions(query) == 3
    query.run(**{key: "4"})
    assert partitions(query) == 4


def epochs(query: Counts) -> list[int]:
    return sorted(int(path.name) for path in (Path(query.checkpoint) / "commits").glob("[0-9]*"))


def partitions(query: Counts) -> int:
    """Returns the number of partitions after the last epoch, by Spark's own log."""
    entry = (Path(query.checkpoint) / "offsets" / str(epochs(query)[-1])).read_text()
    return int(json.loads(entry.split("\n")[1])["conf"]["spark.sql.shuffle.partitions"])


@STATE_FOR_SPARK.needed
def test_a_query_is_converted_there_and_back_and_rescaled(query: Counts) -> None:
    query.begin(ROCKSDB)
    cleancut.convert(query.checkpoint).apply()
    query.run()
    plan = cleancut.rescale(query.checkpoint, 8)
    assert (plan.partitions_before, plan.partitions) == (3, 8)
    assert "3 -> 8" in str(plan.apply())
    query.run()
    cleancut.convert(query.checkpoint, provider="rocksdb").apply()
    query.run()
    cleancut.rescale(query.checkpoint, 2).apply()
    query.run()
    cleancut.convert(query.checkpoint).apply()
    query.run()
    state = Checkpoint(query.checkpoint).state(0)
    assert set(state.column("partition").to_pylist()) == {0, 1}


@pytest.mark.skipif(STATE_FOR_SPARK.is_here, reason="this Spark can")
def test_a_provider_that_this_spark_cannot_write_is_refused(query: Counts) -> None:
    query.begin(PROVIDER_CLASS)
    query.run()
    before = query.bytes()
    with pytest.raises(RequestError, match=r"use Spark 4\.2 or later") as raised:
        cleancut.convert(query.checkpoint, provider="rocksdb").apply()
    assert raised.value.error_id == "CLEANCUT_OPERATION_REFUSED"
    # The previous run may still write snapshots.
    after = query.bytes()
    assert before.items() <= after.items()
    assert all(".base" in name for name in after.keys() - before.keys())
    query.run()


def test_impossible_operations_are_refused(query: Counts) -> None:
    query.begin(PROVIDER_CLASS)
    before = query.bytes()
    refusals: list[tuple[str, Callable[[], object], str]] = [
        ("convert", lambda: cleancut.convert(query.checkpoint), "already"),
        ("rescale", lambda: cleancut.rescale(query.checkpoint, 3), "3 partitions already"),
        ("rescale", lambda: cleancut.rescale(query.checkpoint, 0), "not a number of partitions"),
    ]
    for operation, operate, reason in refusals:
        with pytest.raises(RequestError, match=reason) as raised:
            operate()
        assert raised.value.error_id == REFUSED
        assert raised.value.params["operation"] == operation
    assert query.bytes() == before


def assert_missing_schema_is_refused(location: str) -> None:
    """Each operation names the file, and changes nothing."""
    operations: list[Callable[[], object]] = [
        lambda: cleancut.edit(location, 0, lambda rows: rows),
        lambda: cleancut.rescale(location, 2),
        lambda: cleancut.rollback(location, 0),
        lambda: cleancut.clone(location, f"{location}-copy"),
    ]
    for operation in operations:
        with pytest.raises(RequestError, match=r"a file with a schema .* is missing") as raised:
            operation()
        assert raised.value.error_id == REFUSED
        assert "schema" in str(raised.value).partition("is missing (")[2].partition(")")[0]
    assert not Path(f"{location}-copy").exists()


@pytest.mark.parametrize("cuts", [{}, CUTS], ids=["without cuts", "cuts"])
def test_state_whose_schema_file_was_deleted_is_refused_and_can_be_read(
    query: Counts, cuts: dict[str, str]
) -> None:
    settings = {PROVIDER_KEY: PROVIDER_CLASS, "spark.sql.shuffle.partitions": "3"}
    for _ in range(2):
        query.run(**settings, **cuts)
    schemas = [path for path in Path(query.checkpoint, "state").rglob("schema") if path.is_file()]
    assert schemas
    for schema in schemas:
        schema.unlink()

    def logs() -> dict[str, bytes]:
        # Maintenance may still write snapshots of the query that has ended.
        return {
            path: data for path, data in query.bytes().items() if "/cleancut/stores/" not in path
        }

    before = logs()
    assert_missing_schema_is_refused(query.checkpoint)
    assert logs() == before
    # Frames contain the schema of their rows.
    rows = Checkpoint(query.checkpoint).lookup(0, 3).to_pylist()
    assert [row["value"]["count"] for row in rows] == [query.last[3]]


def test_joins_of_state_format_1_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.join.stateFormatVersion", "1")
    # Spark cannot write schemas of this format, and fails if it has to check them.
    session.conf.set("spark.sql.streaming.stateStore.stateSchemaCheck", "false")
    for key, value in {PROVIDER_KEY: PROVIDER_CLASS, **CUTS}.items():
        session.conf.set(key, value)
    checkpoint = str(tmp_path / "checkpoint")
    for number in range(2):
        for side in ("left", "right"):
            (tmp_path / side).mkdir(exist_ok=True)
            (tmp_path / side / f"{number}.json").write_text('{"k": 1}')
        left, right = (
            session.readStream.schema("k int").json(str(tmp_path / side))
            for side in ("left", "right")
        )
        writer = left.join(right, "k").writeStream.format("noop")
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        writer.start().awaitTermination()
    assert_missing_schema_is_refused(checkpoint)
    rows = Checkpoint(checkpoint).lookup(0, 1, store="left-keyToNumValues")
    assert rows.num_rows == 1


def test_invalid_and_foreign_checkpoints_are_refused(query: Counts, tmp_path: Path) -> None:
    with pytest.raises(RequestError) as raised:
        cleancut.convert(str(tmp_path / "none"))
    assert raised.value.error_id == "CLEANCUT_CHECKPOINT_NOT_FOUND"
    assert not (tmp_path / "none").exists()
    query.begin(HDFS)
    with pytest.raises(RequestError, match="instead of Cleancut"):
        cleancut.convert(query.checkpoint, provider="rocksdb")


def test_an_uncommitted_epoch_is_run_first(query: Counts) -> None:
    query.begin(ROCKSDB)
    query.run()
    commit = Path(query.checkpoint) / "commits" / "1"
    entry = commit.read_bytes()
    commit.unlink()
    with pytest.raises(RequestError, match="epoch 1 has begun and is not committed"):
        cleancut.convert(query.checkpoint)
    commit.write_bytes(entry)
    cleancut.convert(query.checkpoint).apply()
    query.run()


@pytest.mark.parametrize(
    "operation",
    [
        "convert",
        *(
            pytest.param(operation, marks=STATE_FOR_SPARK.needed)
            for operation in ("grow", "shrink")
        ),
    ],
)
def test_an_operation_killed_between_its_log_entries_is_repeated(
    query: Counts, operation: str
) -> None:
    def plan() -> cleancut.types.Plan:
        if operation == "convert":
            return cleancut.convert(query.checkpoint)
        return cleancut.rescale(query.checkpoint, {"grow": 5, "shrink": 2}[operation])

    query.begin(ROCKSDB)
    done = plan().apply()
    # The files after a kill between the first entry and the second.
    for name in (f"{done.epoch}", f".{done.epoch}.crc"):
        (Path(query.checkpoint) / "commits" / name).unlink(missing_ok=True)
    counted = dict(query.last)
    with pytest.raises(START_REFUSED, match="CLEANCUT_OPERATION_INCOMPLETE"):
        query.run()
    assert query.last == counted
    again = plan()
    assert again.epoch == done.epoch
    again.apply()
    query.run()


def test_a_query_that_runs_is_refused(query: Counts, spark: SparkSession) -> None:
    query.begin(ROCKSDB)
    # In a separate session.
    rows = spark.newSession().readStream.schema("k int").json(str(query.home / "in"))
    writer = rows.groupBy("k").count().writeStream.outputMode("update").format("noop")
    running = writer.option("checkpointLocation", query.checkpoint).start()
    try:
        running.processAllAvailable()
        with pytest.raises(RequestError, match="runs in this application") as raised:
            cleancut.convert(query.checkpoint)
        assert raised.value.error_id == REFUSED
    finally:
        running.stop()
    cleancut.convert(query.checkpoint).apply()
    query.run()


def test_a_concurrent_writer_of_the_epoch_wins(query: Counts) -> None:
    query.begin(ROCKSDB)
    plan = cleancut.convert(query.checkpoint)
    query.run()
    with pytest.raises(RequestError, match="was 0 when it was made, and is 1 now"):
        plan.apply()
    plan = cleancut.convert(query.checkpoint)
    assert plan.apply().epoch == 2
    query.run()
    with pytest.raises(RequestError, match="already"):
        cleancut.convert(query.checkpoint)


@STATE_FOR_SPARK.needed
def test_the_documented_operations_run(
    query: Counts, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    query.begin(ROCKSDB)
    # The JVM has another working directory.
    there = "checkpoints/orders"
    code = blocks(GUIDE, "python")[0]
    assert there in code
    exec(code.replace(there, query.checkpoint), {})
    assert "Nothing has changed yet." in capsys.readouterr().out
    query.run()
    cleancut.convert(query.checkpoint, provider="rocksdb").apply()
    # In this process, whose session outlives the command.
    unstopped = SimpleNamespace(
        _jvm=query.spark._jvm,
        _jsparkSession=query.spark._jsparkSession,
        stop=lambda: None,
    )
    monkeypatch.setattr(_cli, "_session", lambda _: unstopped)
    (typed,) = blocks(GUIDE, "sh")
    for command in commands(typed):
        assert command[0] == "cleancut"
        assert there in command
        arguments = [query.checkpoint if part == there else part for part in command[1:]]
        assert _cli.main(arguments) == _cli.OK
        assert ("--apply to execute it" in capsys.readouterr().out) == ("--apply" not in command)
    query.run()
    assert _cli.main(["convert", query.checkpoint, "--provider", "rocksdb"]) == _cli.REFUSED


@long
def test_the_command_runs_on_a_cluster(query: Counts) -> None:
    query.begin(ROCKSDB)
    arguments = ["convert", query.checkpoint, "--provider", "cleancut", "--apply", "--json"]
    arguments += ["--master", "local-cluster[2,1,1024]"]
    conf = ["--conf", "spark.sql.shuffle.partitions=7"]
    ended = subprocess.run(
        [sys.executable, "-m", "cleancut", *arguments, *conf],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert " WARN " not in ended.stderr
    done = json.loads(ended.stdout)
    assert done["is_applied"]
    assert done["operators"][0]["rows"] == len(query.last)
    query.run()
