"""`check_compatibility` predicts whether a query starts on a checkpoint; each query is then
started.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import cleancut
from cleancut import RequestError
from cleancut._cli import main as _cli
from tests.support.documented import blocks, commands
from tests.support.file_epochs import PLACES, session_of, write_file
from tests.support.processors import OUTPUT, Grown
from tests.support.tiers import long, usually

pytestmark = pytest.mark.spark

GUIDE = "docs/use/changing.md"
REFUSED = "CLEANCUT_OPERATION_REFUSED"
KINDS = dict[str, str]


class Job:
    """A query over files of two inputs, which may be another one at each start."""

    def __init__(self, spark: SparkSession, home: Path, place: str) -> None:
        self.spark, self.home, self.files = spark, home, 0
        self.settings = PLACES[place] | {"spark.sql.shuffle.partitions": "2"}
        self.checkpoint = str(home / "checkpoint")
        for name in ("a", "b"):
            (home / name).mkdir()

    def add(self) -> None:
        for name in ("a", "b"):
            rows = ({"k": at % 5, "t": f"2026-01-01 00:0{self.files}:{at:02}"} for at in range(9))
            write_file(self.home / name / f"{self.files}.json", rows, self.files)
        self.files += 1

    def session(self) -> SparkSession:
        return session_of(self.spark, self.settings)

    def read(self, session: SparkSession, name: str = "a") -> DataFrame:
        stream = session.readStream.schema("k int, t timestamp")
        return stream.option("maxFilesPerTrigger", 1).json(str(self.home / name))

    def described(self) -> dict[Path, bytes]:
        """The files that Spark's planning writes in a run."""
        state = Path(self.checkpoint) / "state"
        kinds = ("*/_metadata/**/*", "*/_stateSchema/**/*", "*/[0-9]*/**/_metadata/*")
        paths = (path for kind in kinds for path in state.glob(kind))
        return {path: path.read_bytes() for path in paths if path.is_file()}

    def start(self, query: DataFrame, mode: str) -> str | None:
        """Starts the query; returns the error with which Spark refuses it, or None."""
        writer = query.writeStream.outputMode(mode).trigger(availableNow=True)
        writer = writer.format("noop")
        try:
            writer.option("checkpointLocation", self.checkpoint).start().awaitTermination()
        except Exception as error:
            return str(error)
        return None


def counted(job: Job, session: SparkSession) -> DataFrame:
    return job.read(session).groupBy("k").count()


def counted_by_text(job: Job, session: SparkSession) -> DataFrame:
    return job.read(session).groupBy(f.col("k").cast("string").alias("k")).count()


def counted_and_summed(job: Job, session: SparkSession) -> DataFrame:
    return job.read(session).groupBy("k").agg(f.count("*").alias("count"), f.sum("k").alias("s"))


def largest(job: Job, session: SparkSession) -> DataFrame:
    return job.read(session).groupBy("k").agg(f.max(f.col("k").cast("long")).alias("count"))


def renamed(job: Job, session: SparkSession) -> DataFrame:
    return job.read(session).groupBy(f.col("k").alias("key")).agg(f.count("*").alias("n"))


def distinct(job: Job, session: SparkSession) -> DataFrame:
    return job.read(session).dropDuplicates(["k"])


def distinct_and_counted(job: Job, session: SparkSession) -> DataFrame:
    late = job.read(session).withWatermark("t", "1 minute")
    return late.dropDuplicates(["k", "t"]).groupBy("k").count()


def of_both(job: Job, session: SparkSession) -> DataFrame:
    return job.read(session).union(job.read(session, "b")).groupBy("k").count()


def joined(job: Job, session: SparkSession) -> DataFrame:
    left = job.read(session).withWatermark("t", "1 minute")
    right = job.read(session, "b").withWatermark("t", "1 minute").withColumnRenamed("t", "u")
    near = f.expr("t between u - interval 1 minute and u + interval 1 minute")
    return left.join(right, "k").where(near)


def windows(job: Job, session: SparkSession) -> DataFrame:
    late = job.read(session).withWatermark("t", "1 minute")
    return late.groupBy(f.window("t", "1 minute"), "k").count()


def patient_windows(job: Job, session: SparkSession) -> DataFrame:
    late = job.read(session).withWatermark("t", "10 minutes")
    return late.groupBy(f.window("t", "1 minute"), "k").count()


def windows_without_watermark(job: Job, session: SparkSession) -> DataFrame:
    return job.read(session).groupBy(f.window("t", "1 minute"), "k").count()


def remembering(job: Job, session: SparkSession, release: int) -> DataFrame:
    keyed = job.read(session).withColumns({"v": f.col("k"), "s": f.lit("x")}).groupBy("k")
    return keyed.transformWithState(Grown(release), OUTPUT, "update", "none")


Query = Callable[[Job, SparkSession], DataFrame]
CASES: dict[str, tuple[Query, Query, str, KINDS]] = {
    "as it was": (counted, counted, "update", {}),
    "columns renamed": (counted, renamed, "update", {}),
    "another function of the same type": (counted, largest, "update", {}),
    "another key": (counted, counted_by_text, "update", {"operator 0": "refused"}),
    "another value": (counted, counted_and_summed, "update", {"operator 0": "refused"}),
    "another operator": (counted, distinct, "append", {"operator 0": "refused"}),
    "an operator more": (
        counted,
        distinct_and_counted,
        "update",
        {"operator 1": "refused"},
    ),
    "an operator fewer": (
        distinct_and_counted,
        distinct,
        "append",
        {"operator 0": "refused", "operator 1": "refused", "watermark": "changed"},
    ),
    "another source": (counted, of_both, "update", {"sources": "refused"}),
    "a join": (joined, joined, "append", {}),
    "a join no more": (joined, windows, "append", {"operator 0": "refused", "sources": "refused"}),
    "a mode that it cannot have": (counted, counted, "append", {"the query": "refused"}),
    "another mode": (counted, counted, "complete", {}),
    "another delay": (windows, patient_windows, "update", {}),
    "no watermark": (windows, windows_without_watermark, "update", {"watermark": "changed"}),
}


USUALLY = {
    "columns renamed",
    "another value",
    "an operator more",
    "a join no more",
    "a mode that it cannot have",
    "no watermark",
}


@pytest.mark.parametrize("place", usually({"cuts"}, PLACES))
@pytest.mark.parametrize("case", usually(USUALLY, CASES))
def test_the_answer_matches_the_start(
    spark: SparkSession, tmp_path: Path, case: str, place: str
) -> None:
    before, after, mode, kinds = CASES[case]
    job = Job(spark, tmp_path, place)
    job.add()
    job.add()
    first = "append" if before is joined else "update"
    assert job.start(before(job, job.session()), first) is None
    files = job.described()
    query = after(job, job.session())
    answer = cleancut.check_compatibility(job.checkpoint, query, mode)  # type: ignore[arg-type]
    assert {difference.subject: difference.kind for difference in answer.differences} == kinds, str(
        answer
    )
    assert files == job.described()
    job.add()
    refusal = job.start(query, mode)
    assert bool(answer) == (refusal is None), refusal


@long
@pytest.mark.parametrize(("encoding", "kind"), [("avro", "changed"), ("unsaferow", "refused")])
def test_a_new_column_of_a_state_variable_is_reported_as_spark_decides(
    spark: SparkSession, tmp_path: Path, encoding: str, kind: str
) -> None:
    job = Job(spark, tmp_path, "cuts")
    job.settings |= {"spark.sql.streaming.stateStore.encodingFormat": encoding}
    job.add()
    assert job.start(remembering(job, job.session(), 1), "update") is None
    same = cleancut.check_compatibility(
        job.checkpoint, remembering(job, job.session(), 1), "update"
    )
    assert same.differences == (), str(same.to_dict())
    query = remembering(job, job.session(), 2)
    answer = cleancut.check_compatibility(job.checkpoint, query, "update")
    assert {(difference.subject, difference.kind) for difference in answer.differences} == {
        ("operator 0", kind)
    }
    assert {"count", "all"} == {
        difference.description.split("'")[1] for difference in answer.differences
    }
    job.add()
    assert bool(answer) == (job.start(query, "update") is None)


def test_settings_that_the_checkpoint_keeps_are_named(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path, "rocksdb")
    job.add()
    assert job.start(counted(job, job.session()), "update") is None
    job.settings |= PLACES["level-0"] | {"spark.sql.shuffle.partitions": "7"}
    answer = cleancut.check_compatibility(job.checkpoint, counted(job, job.session()), "update")
    assert answer.ok
    kept: dict[str, Any] = {difference.subject: difference for difference in answer.differences}
    assert {difference.kind for difference in answer.differences} == {"kept"}
    assert "rescale" in kept["spark.sql.shuffle.partitions"].advice
    assert "2 for this query, and 7" in kept["spark.sql.shuffle.partitions"].description
    assert "convert" in kept["spark.sql.streaming.stateStore.providerClass"].advice
    assert "can start" in str(answer)
    assert "rescale" in str(answer)


def entries(job: Job) -> list[Path]:
    """Returns the entries that a run writes before anything else."""
    there = Path(job.checkpoint)
    return sorted([*there.glob("offsets/*"), *there.glob("cleancut/owners/*.json")])


def test_an_incompatible_query_is_refused_at_its_start(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path, "cuts")
    job.settings |= {"spark.sql.streaming.stateStore.cleancut.checkCompatibility": "true"}
    job.add()
    # A new checkpoint.
    assert job.start(counted(job, job.session()), "update") is None
    before, files = entries(job), job.described()
    job.add()
    writer = counted_and_summed(job, job.session()).writeStream.outputMode("update").format("noop")
    with pytest.raises(IllegalArgumentException, match="CLEANCUT_QUERY_INCOMPATIBLE") as refused:
        writer.option("checkpointLocation", job.checkpoint).start()
    said = str(refused.value)
    assert "from epoch 0" in said
    assert "operator 0: its store 'default' has the value" in said
    assert "migrate(location, target, query, state)" in said
    # No run has begun, and the original query continues.
    assert not job.session().streams.active
    assert (entries(job), job.described()) == (before, files)
    assert job.start(counted(job, job.session()), "update") is None
    assert len(entries(job)) > len(before)
    assert job.start(renamed(job, job.session()), "update") is None
    # A query without state is not checked, neither at its first start nor at later ones.
    job.checkpoint = str(tmp_path / "plain")
    for _ in range(2):
        assert job.start(job.read(job.session()), "append") is None


QUERIES = """
from pyspark.sql import functions as f

def counted(spark):
    return spark.readStream.schema("k int, t timestamp").json({source!r}).groupBy("k").count()

def summed(spark):
    return counted(spark).groupBy().agg(f.sum("count"))

def by_text(spark):
    read = spark.readStream.schema("k int, t timestamp").json({source!r})
    return read.groupBy(f.col("k").cast("string").alias("k")).count()

def broken(spark):
    return 1 / 0

nothing = None
def none(spark):
    return nothing
"""


def test_the_documented_command_answers(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = Job(spark, tmp_path, "cuts")
    job.add()
    assert job.start(counted(job, job.session()), "update") is None
    source = QUERIES.format(source=str(tmp_path / "a"))
    (tmp_path / "orders.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    unstopped = job.session()
    monkeypatch.setattr(_cli, "_session", lambda _: unstopped)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)

    def answer_of(name: str, *more: str) -> tuple[int, str, str]:
        command = ["check-compatibility", job.checkpoint, "--query", f"orders:{name}", *more]
        status = _cli.main([*command, "--output-mode", "update"])
        return status, *capsys.readouterr()

    (typed,) = commands(blocks(GUIDE, "sh")[0])
    command = [job.checkpoint if "/" in part else part for part in typed[1:]]
    assert _cli.main(command) == _cli.OK
    assert capsys.readouterr().out.startswith("The query can start")
    status, out, _ = answer_of("by_text", "--json")
    report = json.loads(out)
    assert (status, report["ok"]) == (_cli.REFUSED, False)
    assert [difference["subject"] for difference in report["differences"]] == ["operator 0"]
    assert "migrate" in report["differences"][0]["advice"]
    for name, reason in [
        ("broken", "the function has failed: ZeroDivisionError"),
        ("nothing", "orders has no function nothing"),
        ("none", "returns None and no DataFrame"),
    ]:
        status, out, err = answer_of(name)
        assert (status, out) == (_cli.REFUSED, "")
        assert reason in err
        assert REFUSED in err
        # If the user's own code has failed, its stack trace helps.
        assert ("return 1 / 0" in err) == (name == "broken")


def test_invalid_queries_and_checkpoints_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path, "cuts")
    job.add()
    assert job.start(counted(job, job.session()), "update") is None
    with pytest.raises(RequestError, match="not streaming") as refused:
        cleancut.check_compatibility(job.checkpoint, spark.range(3))
    assert refused.value.error_id == REFUSED
    with pytest.raises(RequestError) as absent:
        cleancut.check_compatibility(str(tmp_path / "none"), counted(job, job.session()))
    assert absent.value.error_id == "CLEANCUT_CHECKPOINT_NOT_FOUND"


def test_the_documented_check_runs(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job(spark, tmp_path, "cuts")
    job.add()
    assert job.start(counted(job, job.session()), "update") is None
    code, _ = blocks(GUIDE, "python")
    code = code.replace("checkpoints/orders", job.checkpoint)
    exec(code, {"counted": counted(job, job.session())})
    assert "The query can start on" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="migrate"):
        exec(code, {"counted": counted_by_text(job, job.session())})
    said = capsys.readouterr().out
    assert "cannot start" in said
    assert "refused" in said
    assert "k int" in said.lower()
