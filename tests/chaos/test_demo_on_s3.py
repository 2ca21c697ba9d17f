"""The demo with its checkpoints in a bucket, the only files that a restart finds."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import cleancut
from demo.__main__ import judge
from demo.checkpoint import position
from demo.job import QUERIES, ROTATIONS, Job
from tests.support.demo import run_demo
from tests.support.s3_servers import (
    HAS_CEPH,
    R2_SIMULATOR,
    VERSITYGW,
    S3Server,
    r2_simulator,
    rados_gateway,
    s3proxy,
    versitygw,
)
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos, long]

PYTHON = Path(__file__).parents[2] / "python"
CLUSTER = "local-cluster[2,1,1024]"
TIMEOUT_S = 900
KILLS = 2
EXECUTOR_KILLS = 1
# The last kill is halfway through: a later one may be too late on a busy machine.
SEED = 16
PREFIX = "runs/1"
SERVERS = [
    s3proxy,
    *([versitygw] if VERSITYGW else []),
    *([r2_simulator] if R2_SIMULATOR else []),
    *([rados_gateway] if HAS_CEPH else []),
]


@pytest.fixture(params=SERVERS, ids=lambda server: server.__name__)
def server(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[S3Server]:
    (tmp_path / "server").mkdir()
    with request.param(tmp_path / "server") as started:
        for name, value in started.environment.items():
            monkeypatch.setenv(name, value)
        yield started


def demo(server: S3Server, *options: str) -> subprocess.CompletedProcess[str]:
    places = ["--checkpoint", f"s3://{server.BUCKET}/{PREFIX}", "--endpoint", server.endpoint]
    return run_demo(*options, *places, timeout_s=TIMEOUT_S)


READER = """
import json, sys
from pyspark.sql import SparkSession
import cleancut
endpoint, location, version = sys.argv[1], sys.argv[2], int(sys.argv[3])
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = cleancut.configure(builder, endpoint=endpoint).getOrCreate()
reader = spark.read.format("statestore").option("batchId", version - 1)
rows = reader.load(location).selectExpr("key.tailnum", "partition_id")
print("ROWS", json.dumps(sorted([row.tailnum, row.partition_id] for row in rows.collect())))
"""


def stored(server: S3Server, location: str, version: int) -> list[list[object]]:
    """Returns the state's keys and their partitions by Spark's reader in a separate process."""
    ended = subprocess.run(
        [sys.executable, "-c", READER, server.endpoint, location, str(version)],
        env={**os.environ, "PYTHONPATH": str(PYTHON)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    (line,) = (line for line in ended.stdout.splitlines() if line.startswith("ROWS "))
    rows: list[list[object]] = json.loads(line.removeprefix("ROWS "))
    return rows


def ours(server: S3Server, location: str, version: int) -> list[list[object]]:
    """Returns the same by the reader without a JVM."""
    table = cleancut.Checkpoint(location, endpoint=server.endpoint).state(0, version=version)
    keys, partitions = table["key"].to_pylist(), table["partition"].to_pylist()
    return sorted([key["tailnum"], at] for key, at in zip(keys, partitions, strict=True))


def test_the_demo_survives_kills_with_only_the_bucket(
    server: S3Server, tmp_path: Path, show: Callable[[str], None]
) -> None:
    root = tmp_path / "demo"
    kills = ["--kills", str(KILLS), "--executor-kills", str(EXECUTOR_KILLS), "--seed", str(SEED)]
    ended = demo(server, "--rows", "4000", "--master", CLUSTER, *kills, "--dir", str(root))
    print(ended.stdout)
    assert ended.returncode == 0
    assert f"{KILLS + EXECUTOR_KILLS} kills survived" in ended.stdout
    job = Job.load(root / "job.json")
    for query, verdict in judge(job).items():
        assert verdict.differences == 0, query
        assert verdict.actual > 1000
        at = position(job, query)
        show(f"{query}: {verdict.actual} rows, {at.committed + 1} epochs")
        assert at.committed == at.planned >= job.epochs - 1 - KILLS
    assert len(list(root.glob("lives/*.log"))) == KILLS + 1
    # No file of a checkpoint was ever on local disks, and all other files are deleted.
    assert {path.name for path in root.iterdir()} == {"input", "job.json", "lives", "results"}
    for location in (job.checkpoint(query) for query in QUERIES):
        assert location.names("offsets")
        assert sum(size for _, size in location.sizes("cleancut")) > 10_000
    version = position(job, ROTATIONS).committed // 2
    state = stored(server, job.checkpoint(ROTATIONS).uri, version)
    show(f"{len(state)} rows of state in version {version}, by Spark's reader and by ours")
    assert len(state) > 100
    assert state == ours(server, job.checkpoint(ROTATIONS).uri, version)
    again = demo(server, "--rows", "4000", "--dir", str(tmp_path / "again"))
    assert again.returncode == 2
    assert "is not empty" in again.stdout
