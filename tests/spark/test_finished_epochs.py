"""Epochs sealed with in-flight rows by drivers that crashed, of a query with random numbers.

Such an epoch cannot be repeated as it was. It is finished instead: with the sealed state, the
in-flight rows and, with `EpochFiles`, the staged rows. The numbers in the rows identify the run
that computed them.
"""

import dataclasses
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of PySpark uses

from cleancut import Checkpoint
from cleancut._format.cut.channels import ShuffleInputInfo
from cleancut._format.cut.cut import Cut, read_cut
from cleancut._storage.directory import Directory
from cleancut.sinks import sealed
from cleancut.sinks._core.query_side import RunningSide
from cleancut.testing import SkewedInput
from demo.processes import ProcessTree
from tests.support.kills import environment
from tests.support.patience import PATIENCE_S
from tests.support.queries import CHECKPOINT_IDS
from tests.support.s3_servers import s3proxy
from tests.support.sealed import sealed_frames
from tests.support.slow_keys import FORMS, Pace
from tests.support.tiers import long, usually
from tests.support.unsteady import (
    FINISHED,
    KEYS,
    MODE,
    PUBLISHED,
    ROWS,
    SEALED,
    Unsteady,
    read,
)

pytestmark = pytest.mark.spark

FILES = 6
CLUSTER = "local-cluster[2,1,1024]"
LOCAL = "local[2]"
ENDPOINT = "AWS_ENDPOINT_URL_S3"
LIFE_LIMIT_S = PATIENCE_S


class DeathError(OSError):
    """The crash of a driver as Spark sees it, within one process."""


def query_at(
    home: Path, *, steady: bool = False, settings: Mapping[str, str] | None = None
) -> Unsteady:
    source = SkewedInput(home / "input", seed=1, rows=ROWS, keys=KEYS)
    source.write(*range(FILES))
    return Unsteady(source, home / "query", steady, settings)


def crash_after_seal(query: Unsteady, monkeypatch: pytest.MonkeyPatch) -> None:
    """`EpochFiles` that fails once, after the first seal of an epoch with in-flight rows."""
    close = RunningSide.close

    def dies(side: RunningSide, output: str) -> None:
        close(side, output)
        epoch = side.batch.epoch
        if query.seal(epoch) is not None:
            monkeypatch.undo()
            raise DeathError(f"after the seal of epoch {epoch}")

    monkeypatch.setattr(RunningSide, "close", dies)


def staged_rows(query: Unsteady, spark: SparkSession) -> list[Row]:
    """Returns the rows that the crashed driver staged for its sealed epoch, by key."""
    epoch, _ = query.sealed()
    (directory,) = (query.root / "sink/_files").glob(f"cleancut_attempt={epoch:020d}-*")
    rows = spark.read.option("basePath", str(directory)).parquet(
        *map(str, directory.glob("part-*"))
    )
    return rows.orderBy("key").collect()


def in_flight(channels: Iterable[ShuffleInputInfo]) -> int:
    return sum(channel.in_flight_rows for channel in channels)


def crash_after_the_seal(
    query: Unsteady, spark: SparkSession, sink: Callable[[DataFrame, int], None]
) -> tuple[int, Cut]:
    """Runs the query until it fails; returns the sealed epoch and the seal."""
    with pytest.raises(StreamingQueryException, match="after the seal"):
        query.start(spark, sink).awaitTermination()
    return query.sealed()


def run_to_the_end(query: Unsteady, spark: SparkSession) -> None:
    query.start(spark, query.sink).awaitTermination()


def live(query: Unsteady, home: Path, step: str, master: str = CLUSTER) -> int:
    """Runs the query in a separate process; returns its exit code."""
    command = [sys.executable, "-m", "tests.support.unsteady", master]
    command += [str(query.source.directory), str(query.root), step, query.checkpoint]
    log = home / "life.log"
    deadline = time.monotonic() + LIFE_LIMIT_S
    with ProcessTree(command, env=environment(), log=log) as victim:
        while (code := victim.exit_code()) is None:
            assert time.monotonic() < deadline, log.read_text(errors="replace")[-4000:]
            time.sleep(0.05)
    assert code in (0, -9), log.read_text(errors="replace")[-4000:]
    return code


def content(seal: Cut) -> Cut:
    """Returns the content of a seal, without its run."""
    anybody = {"path": "", "run_id": "", "generation": 0, "token": "", "written_ms": 0}
    return dataclasses.replace(seal, **anybody)  # type: ignore[arg-type]


@long
def test_an_epoch_is_finished_as_sealed_after_kills_of_drivers(
    spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    query = query_at(tmp_path)
    query.root.mkdir()
    assert live(query, tmp_path, SEALED) == -9
    epoch, sealed = query.sealed()
    staged = staged_rows(query, spark)
    assert staged
    assert in_flight(sealed.channels) > 0
    for step in (FINISHED, PUBLISHED):
        assert live(query, tmp_path, step) == -9
        assert (query.root / "died").read_text() == f"{epoch} {step}"
        # A run that follows a seal copies it under its own name.
        assert query.sealed()[0] == epoch
        assert content(query.sealed()[1]) == content(sealed)
    assert live(query, tmp_path, "none") == 0
    rows = read(query, spark)
    assert [row[:2] for row in rows if row["epoch"] == epoch] == [row[:2] for row in staged]
    cut = Checkpoint(query.checkpoint).cut(epoch)
    runs = {info.epoch: info.run_id for info in query.sink.epochs(session=spark)}
    assert runs[epoch] == sealed.run_id
    assert in_flight(cut.shuffle_inputs) == in_flight(sealed.channels)
    held = in_flight(cut.shuffle_inputs)
    numbers = query.check(rows)
    show(f"epoch {epoch}: {len(staged)} rows staged, {held} in flight, {numbers} met")


@long
def test_an_epoch_sealed_in_a_bucket_is_finished(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3proxy(tmp_path) as server:
        for name, value in {**server.environment, ENDPOINT: server.endpoint}.items():
            monkeypatch.setenv(name, value)
        query = dataclasses.replace(query_at(tmp_path), location=f"s3://{server.BUCKET}/query")
        query.root.mkdir()
        assert live(query, tmp_path, SEALED, LOCAL) == -9
        epoch, sealed = query.sealed()
        staged = staged_rows(query, spark)
        assert live(query, tmp_path, "none", LOCAL) == 0
        checkpoint = Checkpoint(query.checkpoint)
        assert checkpoint.verify().problems == ()
        assert in_flight(checkpoint.cut(epoch).shuffle_inputs) == in_flight(sealed.channels) > 0
    rows = read(query, spark)
    assert [row[:2] for row in rows if row["epoch"] == epoch] == [row[:2] for row in staged]
    assert query.check(rows) == FILES * ROWS


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="format 1"),
        pytest.param(dict(CHECKPOINT_IDS), id="format 2", marks=long),
    ],
)
def test_an_unrepeatable_epoch_is_finished(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
) -> None:
    query = query_at(tmp_path, settings=settings)
    crash_after_seal(query, monkeypatch)
    epoch, sealed = crash_after_the_seal(query, spark, query.sink)
    staged = staged_rows(query, spark)
    run_to_the_end(query, spark)
    rows = read(query, spark)
    assert [row[:2] for row in rows if row["epoch"] == epoch] == [row[:2] for row in staged]
    checkpoint = Checkpoint(query.checkpoint)
    assert checkpoint.verify().problems == ()
    assert in_flight(checkpoint.cut(epoch).shuffle_inputs) == in_flight(sealed.channels)
    assert query.check(rows) == FILES * ROWS


@long
def test_the_first_epoch_of_a_run_is_finished_without_in_flight_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its operators have no decision, so no task would detect that its rows differ."""
    query = query_at(tmp_path, settings={MODE: "aligned"})
    close = RunningSide.close
    deaths: list[bool] = []

    def dies(side: RunningSide, output: str) -> None:
        close(side, output)
        epoch = side.batch.epoch
        if epoch == 2 and len(deaths) < 2:
            deaths.append(query.seal_file(epoch).exists())
            raise DeathError("after the seal")

    monkeypatch.setattr(RunningSide, "close", dies)
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="after the seal"):
            run_to_the_end(query, spark)
    # Only a run with a predecessor has to ensure that the two do not both publish the epoch.
    assert deaths == [False, True]
    path = query.seal_file(2)
    sealed = read_cut(path.read_bytes(), str(path), 2)
    run_to_the_end(query, spark)
    runs = {info.epoch: info.run_id for info in query.sink.epochs(session=spark)}
    assert runs[2] == sealed.run_id != runs[1]
    assert query.check(read(query, spark)) == FILES * ROWS


def pairs(rows: DataFrame) -> DataFrame:
    left = rows.where("value % 2 = 0").select("key", F.col("number").alias("left"), "x")
    right = rows.where("value % 3 = 0").select(F.col("key").alias("k"), "number")
    near = F.expr("key = k and `left` between number - 40 and number")
    return left.join(right, near).select("key", "left", "number", "x")


def check_pairs(query: Unsteady, rows: list[Row]) -> None:
    """Checks that each pair is emitted once, and that a row has one number in all of its pairs."""
    given = [row for file in range(FILES) for row in query.source.rows_of(file)]
    wanted = Counter(
        (a["number"], b["number"])
        for a in given
        for b in given
        if a["key"] == b["key"]
        and a["value"] % 2 == 0
        and b["value"] % 3 == 0
        and b["number"] - 40 <= a["number"] <= b["number"]
    )
    assert Counter((row["left"], row["number"]) for row in rows) == wanted
    assert len({(row["left"], row["x"]) for row in rows}) == len({row["left"] for row in rows})


def numbered(form: str) -> Callable[[DataFrame], DataFrame]:
    def build(rows: DataFrame) -> DataFrame:
        drawn = F.floor(F.col("x") * 1e12).alias("n")
        keyed = rows.select(F.col("key").alias("k"), drawn)
        return FORMS[form](keyed, Pace(0.002), output="append")

    return build


def check_numbered(query: Unsteady, rows: list[Row]) -> None:
    """Checks that the rows of each key are counted from 1 without gaps."""
    given = [row["key"] for file in range(FILES) for row in query.source.rows_of(file)]
    wanted = sorted((key, n + 1) for key, count in Counter(given).items() for n in range(count))
    assert sorted((row["k"], row["c"]) for row in rows) == wanted


OTHERS: dict[str, tuple[Callable[..., DataFrame], Callable[..., None]]] = {
    "join": (pairs, check_pairs),
    **{form: (numbered(form), check_numbered) for form in FORMS},
}


@pytest.mark.parametrize("name", usually((), OTHERS))
def test_epochs_of_other_operators_are_finished_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    build, check = OTHERS[name]
    given = query_at(tmp_path)
    query = dataclasses.replace(given, build=build, mode="append")
    crash_after_seal(query, monkeypatch)
    epoch, sealed = crash_after_the_seal(query, spark, query.sink)
    run_to_the_end(query, spark)
    runs = {info.epoch: info.run_id for info in query.sink.epochs(session=spark)}
    assert runs[epoch] == sealed.run_id != runs[epoch + 1]
    check(query, query.sink.read(spark).collect())


DELAY_S = 30


def windows(rows: DataFrame) -> DataFrame:
    timed = rows.withWatermark("at", f"{DELAY_S} seconds")
    met = F.sort_array(F.collect_list(F.struct("number", "x"))).alias("rows")
    grouped = timed.groupBy(F.window("at", "2 seconds").alias("w"), "key").agg(met)
    return grouped.select(F.unix_millis("w.end").alias("end"), "key", "rows")


def test_the_watermark_continues_after_a_finished_epoch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = dataclasses.replace(query_at(tmp_path), build=windows, mode="append")
    crash_after_seal(query, monkeypatch)
    epoch, _ = crash_after_the_seal(query, spark, query.sink)
    run_to_the_end(query, spark)
    given = [row for file in range(FILES) for row in query.source.rows_of(file)]
    times = [int(row["at"].timestamp() * 1000) for row in given]
    checkpoint = Checkpoint(query.checkpoint)
    # As without a crash: one file per epoch.
    latest = max(times[: (epoch + 1) * ROWS]) - DELAY_S * 1000
    assert checkpoint.cut(epoch).next_watermark_ms == max(latest, 0)
    watermark = checkpoint.cut(max(cut.epoch for cut in checkpoint.cuts())).watermark_ms
    assert watermark is not None
    wanted: dict[tuple[int, int], list[int]] = {}
    for row, at in zip(given, times, strict=True):
        end = at // 2000 * 2000 + 2000
        if end <= watermark:
            wanted.setdefault((end, row["key"]), []).append(row["number"])
    rows = query.sink.read(spark).collect()
    numbers = [((row["end"], row["key"]), [met["number"] for met in row["rows"]]) for row in rows]
    assert sorted(numbers) == sorted(wanted.items())
    assert len(rows) > ROWS


def failing_once(query: Unsteady, write: Callable[[DataFrame, int], None]) -> Callable[..., None]:
    """A function, and the crash of its driver after it."""
    seen: list[int] = []

    def dies(df: DataFrame, epoch: int) -> None:
        write(df, epoch)
        if not seen and query.seal(epoch) is not None:
            seen.append(epoch)
            raise DeathError(f"after the seal of epoch {epoch}")

    return dies


class ReplacingSink:
    """Replaces the earlier rows of an epoch."""

    def __init__(self) -> None:
        self.epochs: dict[int, list[Row]] = {}
        self.calls: list[int] = []

    def __call__(self, df: DataFrame, epoch: int) -> None:
        self.calls.append(epoch)
        self.epochs[epoch] = df.collect()

    def rows(self) -> list[Row]:
        return [
            Row(key=row["key"], rows=row["rows"], epoch=epoch)
            for epoch in sorted(self.epochs)
            for row in self.epochs[epoch]
        ]


@long
def test_a_function_that_has_written_the_epoch_is_not_called_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    query, write = query_at(tmp_path), ReplacingSink()
    sink = failing_once(query, write)
    calls: list[int] = []

    def written(epoch: int) -> bool:
        calls.append(epoch)
        return epoch in write.epochs

    epoch, _ = crash_after_the_seal(query, spark, sealed(sink, written=written))
    before = {known: list(rows) for known, rows in write.epochs.items()}
    query.start(spark, sealed(sink, written=written)).awaitTermination()
    assert write.calls.count(epoch) == 1
    assert calls.count(epoch) == 2
    assert {known: write.epochs[known] for known in before} == before
    assert query.check(write.rows()) == FILES * ROWS


def test_a_function_that_needs_the_rows_again_is_refused_with_a_remedy(
    spark: SparkSession, tmp_path: Path
) -> None:
    query, write = query_at(tmp_path), ReplacingSink()
    sink = failing_once(query, write)
    epoch, _ = crash_after_the_seal(query, spark, sealed(sink))
    for _ in range(2):
        with pytest.raises(
            StreamingQueryException, match="CLEANCUT_IN_FLIGHT_INPUT_MISMATCH"
        ) as raised:
            query.start(spark, sealed(sink)).awaitTermination()
    assert f"cuts/{epoch:020d}*.sealed" in str(raised.value)
    # The remedy in the error, for a function that replaces its earlier rows.
    for seal in query.seal_files(epoch):
        seal.unlink()
    query.start(spark, sealed(sink)).awaitTermination()
    assert write.calls.count(epoch) == 2
    assert query.check(write.rows()) == FILES * ROWS


def test_an_epoch_with_equal_input_is_repeated_on_request(
    spark: SparkSession, tmp_path: Path
) -> None:
    query, write = query_at(tmp_path, steady=True), ReplacingSink()
    sink = failing_once(query, write)
    epoch, _ = crash_after_the_seal(query, spark, sealed(sink))
    before = sorted(map(str, write.epochs[epoch]))
    query.start(spark, sealed(sink)).awaitTermination()
    assert write.calls.count(epoch) == 2
    assert sorted(map(str, write.epochs[epoch])) == before
    assert query.check(write.rows()) == FILES * ROWS


@pytest.mark.parametrize("steady", [pytest.param(True, marks=long), False])
def test_lost_staged_files_are_an_error_only_if_unrepeatable(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steady: bool
) -> None:
    query = query_at(tmp_path, steady=steady)
    crash_after_seal(query, monkeypatch)
    epoch, _ = crash_after_the_seal(query, spark, query.sink)
    (directory,) = (query.root / "sink/_files").glob(f"cleancut_attempt={epoch:020d}-*")
    next(directory.glob("part-*")).unlink()
    if steady:
        run_to_the_end(query, spark)
        assert query.check(read(query, spark)) == FILES * ROWS
    else:
        with pytest.raises(StreamingQueryException, match="CLEANCUT_IN_FLIGHT_INPUT_MISMATCH"):
            run_to_the_end(query, spark)


def flip(path: Path, at: int) -> None:
    # Hadoop keeps checksum files next to local files, and would detect the flip first.
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    body = bytearray(path.read_bytes())
    body[at] ^= 1
    path.write_bytes(body)


def test_a_corrupted_sealed_epoch_is_named_and_not_published(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = query_at(tmp_path)
    crash_after_seal(query, monkeypatch)
    epoch, sealed = crash_after_the_seal(query, spark, query.sink)
    root = Path(query.checkpoint) / "cleancut"
    last = sealed_frames(Directory(LocalFileSystem(), str(root)), sealed)
    state = next(frame for frame in last if not frame.store.store.startswith("cleancut-channel"))
    waiting = next(frame for frame in last if frame.store.store.startswith("cleancut-channel"))
    damages = [
        (query.seal_file(epoch), 40, "CLEANCUT_CUT_CORRUPTED"),
        (root / state.segment, state.offset + state.length // 2, "CLEANCUT_FRAME_CORRUPTED"),
        (root / waiting.segment, waiting.offset + waiting.length // 2, "CLEANCUT_FRAME_CORRUPTED"),
    ]
    for path, at, error in damages:
        flip(path, at)
        with pytest.raises(StreamingQueryException, match=error) as raised:
            run_to_the_end(query, spark)
        assert path.name in str(raised.value)
        flip(path, at)
    segment = root / state.segment
    body = segment.read_bytes()
    segment.unlink()
    with pytest.raises(StreamingQueryException, match="CLEANCUT_CUT_CORRUPTED") as raised:
        run_to_the_end(query, spark)
    assert segment.name in str(raised.value)
    segment.write_bytes(body)
    assert epoch not in {info.epoch for info in query.sink.epochs(session=spark)}
    assert not (root / f"cuts/{epoch:020d}.cut").exists()
    run_to_the_end(query, spark)
    assert query.check(read(query, spark)) == FILES * ROWS


def test_the_seal_names_the_staged_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = query_at(tmp_path)
    crash_after_seal(query, monkeypatch)
    epoch, _ = crash_after_the_seal(query, spark, query.sink)
    outputs: list[str | None] = []
    sealed = RunningSide.sealed_output

    def noted(side: RunningSide) -> str | None:
        outputs.append(sealed(side))
        return outputs[-1]

    monkeypatch.setattr(RunningSide, "sealed_output", noted)
    run_to_the_end(query, spark)
    kind, _, body = (outputs[0] or "").partition("\n")
    assert kind == "cleancut.sinks"
    assert json.loads(json.loads(body)[query.sink.name])["epoch"] == epoch
    # No other run has sealed later epochs.
    assert set(outputs[1:]) == {None}
