"""Drivers killed at each step of an epoch of `EpochFiles`, compared with the answer of a batch."""

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of PySpark uses

from cleancut.sinks import EpochFiles
from demo.processes import ProcessTree
from tests.support.events import SCHEMA, write_events
from tests.support.file_offsets import files_by_epoch
from tests.support.kills import environment
from tests.support.patience import PATIENCE_S
from tests.support.results import Difference
from tests.support.s3_servers import S3Server, s3proxy
from tests.support.seeds import chaos_runs, hunting
from tests.support.sink_places import Place, credentials, session_at
from tests.support.sink_victim import (
    BEFORE,
    PUBLISHED,
    RETURNED,
    SEALED,
    STAGED,
    STAGING,
    kill_record,
    sink_place,
    start_victim,
)
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos]

SEED = hunting(11)
FILES = 8
LIFE_LIMIT_S = PATIENCE_S
# One kill per group; the seed selects a step of the group.
IS_CAMPAIGN = chaos_runs() > 1
WINDOWS = ([BEFORE], [STAGING, STAGED], [SEALED], [PUBLISHED, RETURNED])
# After a kill at one of these steps the epoch is visible.
VISIBLE = {PUBLISHED, RETURNED}


def plan(seed: int) -> list[tuple[int, str]]:
    """Plans the kills: ascending epochs, and steps."""
    draw = random.Random(seed)
    # Each kill costs the start of another driver.
    windows = WINDOWS if IS_CAMPAIGN else WINDOWS[1::2]
    steps = [draw.choice(window) for window in windows]
    draw.shuffle(steps)
    # A restarted query may read two files in one epoch, so there may be fewer epochs than files.
    return list(zip(sorted(draw.sample(range(FILES - 2), len(steps))), steps, strict=True))


def live(home: Path, root: Path, server: S3Server | None, epoch: int, step: str) -> int:
    """Runs the victim once; returns its exit code, negative for a signal."""
    command = [sys.executable, "-m", "tests.support.sink_victim"]
    command += [str(home / "events"), str(root), server.endpoint if server else ""]
    command += [str(epoch), step]
    env = environment() | (server.environment if server else {})
    log = home / "life.log"
    deadline = time.monotonic() + LIFE_LIMIT_S
    with ProcessTree(command, env=env, log=log) as victim:
        while (code := victim.exit_code()) is None:
            assert time.monotonic() < deadline, "a life takes too long"
            time.sleep(0.05)
    assert code in (0, -9), log.read_text(errors="replace")[-4000:]
    return code


def published(spark: SparkSession, place: Place) -> dict[int, list[str]]:
    """Returns the rows that a reader sees, by epoch."""
    sink = EpochFiles(place.location)
    rows_by_epoch: dict[int, list[str]] = {info.epoch: [] for info in sink.epochs(session=spark)}
    if rows_by_epoch:
        for row in sink.read(spark, epoch_column="epoch").collect():
            rows_by_epoch[row["epoch"]].append(str(tuple(row)[:-1]))
    return {epoch: sorted(rows) for epoch, rows in rows_by_epoch.items()}


def expected(checkpoint: Path) -> dict[int, list[str]]:
    """Returns the expected totals of each key of an epoch, computed here."""
    totals: dict[int, tuple[int, int, int]] = {}
    epochs = {}
    for epoch, (files,) in enumerate(files_by_epoch(checkpoint)):
        met = set()
        for event in (json.loads(line) for file in files for line in file.open()):
            n, v, most = totals.get(event["k"], (0, 0, 0))
            totals[event["k"]] = (n + 1, v + event["v"], max(most, event["v"]))
            met.add(event["k"])
        epochs[epoch] = sorted(str((k, *totals[k])) for k in met)
    return epochs


def leftovers(place: Place) -> list[str]:
    """Returns the unpublished files of the sink's directory; checks the published ones."""
    sizes = place.sizes()
    named = {"_query.json"}
    for manifest in (name for name in sizes if name.startswith("_epochs/")):
        named.add(manifest)
        for file in json.loads(place.read(manifest))["files"]:
            assert sizes[file["name"]] == file["bytes"] > 0
            named.add(file["name"])
    assert not sizes or "_query.json" in sizes or not any("_epochs" in name for name in sizes)
    return sorted(set(sizes) - named)


@pytest.fixture(scope="module")
def server(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3proxy(tmp_path_factory.mktemp("s3proxy")) as started, credentials(spark):
        yield started


@long
@pytest.mark.parametrize("where", ["disk", "bucket"])
@pytest.mark.parametrize("seed", range(SEED, SEED + chaos_runs()))
def test_published_rows_match_the_batch_after_kills_at_any_step(
    seed: int,
    where: str,
    spark: SparkSession,
    tmp_path: Path,
    show: Callable[[str], None],
    request: pytest.FixtureRequest,
) -> None:
    bucket: S3Server | None = request.getfixturevalue("server") if where == "bucket" else None
    root = tmp_path / "query"
    place = sink_place(root, bucket.endpoint if bucket else "")
    spark = session_at(spark, place)
    root.mkdir()
    write_events(tmp_path / "events", seed=seed, files=range(FILES))
    hit: list[str] = []
    left: list[int] = []
    seen: dict[int, list[str]] = {}
    for epoch, step in plan(seed):
        kill_record(root).unlink(missing_ok=True)
        assert live(tmp_path, root, bucket, epoch, step) == -9, (
            f"no driver was killed: {epoch} {step}"
        )
        assert kill_record(root).read_text() == f"{epoch} {step}"
        hit.append(f"{epoch} {step}")
        before, seen = seen, published(spark, place)
        # Published epochs are unchanged, and the epoch of the kill is published or not.
        assert list(seen) == list(range(epoch + (step in VISIBLE)))
        assert {known: seen[known] for known in before} == before
        left.append(len(leftovers(place)))
    # The last run is in this process, and is not killed.
    start_victim(spark, tmp_path / "events", root, place).awaitTermination()
    actual, wanted = published(spark, place), expected(root / "checkpoint")
    difference = Difference.between(wanted, actual)
    show(f"seed {seed}, killed: {', '.join(hit)}; {left} files remain; {difference}")
    assert len(hit) == len(plan(seed))
    assert difference.none
    assert {known: actual[known] for known in seen} == seen
    assert last_of_each_key(spark, place) == batch_answer(spark, tmp_path / "events")
    assert any(left), "no kill left anything, so nothing was cleaned"
    assert leftovers(place) == []


def last_of_each_key(spark: SparkSession, place: Place) -> dict[int, tuple[object, ...]]:
    rows = EpochFiles(place.location).read(spark, epoch_column="epoch").orderBy("epoch").collect()
    return {row["k"]: tuple(row)[1:-1] for row in rows}


def batch_answer(spark: SparkSession, events: Path) -> dict[int, tuple[object, ...]]:
    rows = spark.read.schema(SCHEMA).json(str(events))
    totals = rows.groupBy("k").agg(F.count("*"), F.sum("v"), F.max("v")).collect()
    return {row["k"]: tuple(row)[1:] for row in totals}
