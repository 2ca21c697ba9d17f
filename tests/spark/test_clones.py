"""Clones of a checkpoint: the original and the clone both continue."""

import json
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import cleancut
from cleancut import Checkpoint, RequestError
from tests.support.file_epochs import KEYS, PLACES, Epochs
from tests.support.kills import run_script
from tests.support.s3_servers import s3proxy
from tests.support.sessions import START_REFUSED
from tests.support.tiers import long, usually

pytestmark = pytest.mark.spark

REFUSED = "CLEANCUT_OPERATION_REFUSED"
# The kinds of clones, with their arguments.
KINDS: dict[str, dict[str, Any]] = {
    "rocksdb": {"provider": "rocksdb", "cuts": False},
    "level-0": {"provider": "cleancut", "cuts": False},
    "cuts": {"provider": "cleancut", "cuts": True},
}

USUAL = {"rocksdb to cuts"}
WAYS = [f"{place} to {to}" for place, to in product(PLACES, KINDS)]


@pytest.mark.parametrize(
    ("place", "to"), usually(USUAL, WAYS, lambda way: tuple(way.split(" to ")))
)
def test_a_clone_continues_like_the_query(
    spark: SparkSession, tmp_path: Path, place: str, to: str
) -> None:
    it = Epochs(spark, tmp_path, PLACES[place])
    it.add(4)
    it.run()
    into = str(tmp_path / "clone")
    format_ = "-1" if place.endswith("-1") else ""
    plan = cleancut.clone(it.checkpoint, into, 1, partitions=5, **KINDS[to])
    assert (plan.source, plan.last, plan.epoch) == (1, 3, 5)
    assert not Path(into).exists()
    assert sum(done.rows or 0 for done in plan.apply().operators) == KEYS
    other = Epochs(spark, tmp_path, PLACES[f"{to}{format_}"])
    other.checkpoint, other.files = into, it.files
    assert other.state() == it.expected(2)
    # It reads the files that were added after the clone, one per epoch.
    assert other.run() == [6, 7]
    assert other.given[6] == {key: it.expected(3)[key] for key in other.given[6]}
    it.add()
    assert other.run() == [8]
    assert it.run() == [4]
    assert other.state() == it.state() == it.expected(5)
    ids = [json.loads((Path(at) / "metadata").read_text())["id"] for at in (it.checkpoint, into)]
    assert ids[0] != ids[1]
    if to != "rocksdb":
        report = Checkpoint(into).verify()
        assert report.ok, str(report)
        assert bool(Checkpoint(into).cuts()) == (to == "cuts")


def test_a_query_moves_and_keeps_its_name(spark: SparkSession, tmp_path: Path) -> None:
    it = Epochs(spark, tmp_path, PLACES["cuts"])
    it.add(3)
    it.run()
    Checkpoint(it.checkpoint).create_savepoint("good", 1)
    moved = str(tmp_path / "moved")
    cleancut.clone(it.checkpoint, moved, "good", same_query=True).apply()
    assert [savepoint.name for savepoint in Checkpoint(it.checkpoint).savepoints()] == ["good"]
    before = (Path(it.checkpoint) / "metadata").read_text()
    assert (Path(moved) / "metadata").read_text() == before
    # The original is deleted, and no reference in the clone leads there.
    shutil.rmtree(it.checkpoint)
    it.checkpoint = moved
    # No epoch number is used twice, because sinks identify epochs by it.
    assert it.run() == [5]
    assert it.state() == it.expected(3)
    assert Checkpoint(moved).verify().ok


def test_a_clone_is_created_while_the_query_runs(spark: SparkSession, tmp_path: Path) -> None:
    it = Epochs(spark, tmp_path, PLACES["cuts"])
    it.add(3)
    query = it.start()
    try:
        query.processAllAvailable()
        into = str(tmp_path / "clone")
        assert cleancut.clone(it.checkpoint, into).apply().source == 2
        assert Checkpoint(it.checkpoint).savepoints() == []
        it.add()
        query.processAllAvailable()
    finally:
        query.stop()
    other = Epochs(spark, tmp_path, PLACES["cuts"])
    other.checkpoint = into
    assert other.run() == [5]
    assert other.state() == it.state() == it.expected(4)


def test_an_impossible_clone_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    it = Epochs(spark, tmp_path, PLACES["rocksdb"])
    it.add(2)
    it.run()
    other = Epochs(spark, tmp_path, PLACES["level-0"])
    other.checkpoint = str(tmp_path / "there")
    other.run()
    free = str(tmp_path / "free")
    refusals: list[tuple[Callable[[], object], str]] = [
        (lambda: cleancut.clone(it.checkpoint, other.checkpoint), "there is a checkpoint at"),
        (
            lambda: cleancut.clone(it.checkpoint, it.checkpoint),
            "the target must be another location",
        ),
        (
            lambda: cleancut.clone(it.checkpoint, f"{it.checkpoint}/in"),
            "is inside the source location or contains it",
        ),
        (lambda: cleancut.clone(it.checkpoint, free, 9), "epoch 9 is not stored"),
        (lambda: cleancut.clone(it.checkpoint, "s3://bucket/q"), "cannot be committed by cuts"),
    ]
    for call, reason in refusals:
        with pytest.raises(RequestError, match=reason) as raised:
            call()
        assert raised.value.error_id == REFUSED
    assert not Path(free).exists()


@pytest.mark.parametrize("to", usually({"cuts"}, KINDS))
def test_a_killed_clone_cannot_be_started_and_is_repeated(
    spark: SparkSession, tmp_path: Path, to: str
) -> None:
    it = Epochs(spark, tmp_path, PLACES["level-0"])
    it.add(3)
    it.run()
    into = tmp_path / "clone"
    cleancut.clone(it.checkpoint, str(into), 1, **KINDS[to]).apply()
    # The files before its last step.
    shutil.rmtree(into / "commits")
    shutil.rmtree(into / "cleancut" / "cuts", ignore_errors=True)
    other = Epochs(spark, tmp_path, PLACES[to])
    other.checkpoint, other.files = str(into), it.files
    with pytest.raises(START_REFUSED, match="CLEANCUT_OPERATION_INCOMPLETE"):
        other.run()
    assert other.given == {}
    cleancut.clone(it.checkpoint, str(into), 1, **KINDS[to]).apply()
    other.run()
    assert other.state() == it.state() == it.expected(3)


IN_A_BUCKET = """
import sys
from pathlib import Path
import cleancut
from cleancut import Checkpoint
from tests.support.file_epochs import PLACES, Epochs
from tests.support.lines import STATE_FOR_SPARK
from tests.support.sessions import builder

endpoint, home = sys.argv[1], Path(sys.argv[2])
spark = cleancut.configure(builder("local-cluster[2,1,1024]"), endpoint=endpoint).getOrCreate()
it = Epochs(spark, home, PLACES["rocksdb"])
it.add(3)
it.run()
# Into the bucket, from bucket to bucket, and out, to a store of Spark's where that can be.
out = "rocksdb" if STATE_FOR_SPARK.is_here else "level-0"
places = [it.checkpoint, "s3://bucket/one", "s3://bucket/two", str(home / "out")]
for at, (source, into, kind) in enumerate(zip(places, places[1:], ["cuts", "cuts", out])):
    provider = "rocksdb" if kind == "rocksdb" else "cleancut"
    cuts = None if kind == "rocksdb" else kind == "cuts"
    cleancut.clone(source, into, provider=provider, cuts=cuts, partitions=4 + at).apply()
    it.settings = {"spark.sql.shuffle.partitions": "3"} | PLACES[kind]
    it.checkpoint = into
    it.add()
    it.run()
    assert it.state() == it.expected(4 + at), (into, it.state())
    if kind == "cuts":
        there = Checkpoint(into, endpoint=endpoint)
        assert there.verify().ok
        # Back by an epoch, and undone, where it is.
        cleancut.rollback(into, there.cuts()[0].epoch).apply()
        assert it.state() == it.expected(3 + at)
        cleancut.rollback(into, undo=True).apply()
        assert it.state() == it.expected(4 + at)
print("DONE")
"""


@long
def test_a_query_is_cloned_into_a_bucket_and_back_on_a_cluster(tmp_path: Path) -> None:
    with s3proxy(tmp_path / "proxy") as server:
        done = run_script(IN_A_BUCKET, server.endpoint, str(tmp_path), **server.environment)
    assert done.stdout.endswith("DONE\n"), done.stdout + done.stderr[-8000:]
