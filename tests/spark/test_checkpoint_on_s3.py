"""Reads cuts that a query has written to a bucket, without a JVM."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cleancut import Checkpoint
from tests.support.kills import run_script
from tests.support.s3_servers import S3Server, s3proxy
from tests.support.tiers import long

pytestmark = pytest.mark.spark


# In a separate process, because an endpoint is configured before Spark starts.
QUERY = """
import json, sys
from pyspark.sql import functions as f
import cleancut
from tests.support.sessions import builder

endpoint, location, source = sys.argv[1:]
spark = cleancut.configure(builder("local[2]"), endpoint=endpoint).getOrCreate()
stream = spark.readStream.schema("k string, v long, at timestamp")
rows = stream.option("maxFilesPerTrigger", 1).json(source).withWatermark("at", "10 minutes")
counted = rows.groupBy("k").agg(f.count("*"), f.sum("v"))
writer = counted.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
query = writer.option("checkpointLocation", location).start()
query.awaitTermination()
last = query.lastProgress.batchId
state = {}
for epoch in range(last + 1):
    reader = spark.read.format("statestore").option("batchId", epoch)
    found = reader.load(location).select("key.*", "value.*", "partition_id").collect()
    state[epoch] = sorted([list(row) for row in found])
print(json.dumps(state))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3proxy(tmp_path_factory.mktemp("s3proxy")) as started:
        yield started


def add(source: Path, *numbers: int) -> None:
    source.mkdir(exist_ok=True)
    for number in numbers:
        lines = [
            json.dumps({"k": f"k{(7 * v + number) % 23}", "v": v, "at": f"2026-01-01 00:{v:02}:00"})
            for v in range(60)
        ]
        (source / f"{number}.json").write_text("\n".join(lines), encoding="utf-8")


def run(server: S3Server, location: str, source: Path) -> dict[int, list[Any]]:
    """Runs the query and returns the state of each epoch by Spark's own state reader."""
    places = [server.endpoint, location, str(source)]
    answer = run_script(QUERY, *places, **server.environment)
    assert answer.returncode == 0, answer.stderr
    state = json.loads(answer.stdout.splitlines()[-1])
    return {int(epoch): rows for epoch, rows in state.items()}


@long
def test_cuts_have_the_state_that_spark_reads(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location, source = f"s3://{server.BUCKET}/queries/counted", tmp_path / "source"
    add(source, 0, 1, 2)
    first = run(server, location, source)
    add(source, 3, 4)
    state = run(server, location, source)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    checkpoint = Checkpoint(location, endpoint=server.endpoint)
    cuts = checkpoint.cuts()
    assert [cut.epoch for cut in cuts] == sorted(state)
    assert {cut.generation for cut in cuts} == {1, 2}
    assert len(state) > len(first) >= 3
    for epoch, expected in state.items():
        table = checkpoint.state(0, at=epoch)
        stored = sorted(
            [*row["key"].values(), *row["value"].values(), row["partition"]]
            for row in table.to_pylist()
        )
        assert stored == expected
    report = checkpoint.verify()
    assert report.ok, report
    assert report.loadable == 3 * len(state)


# The tasks of the operation report to the driver from separate processes.
RESCALED = """
import json, sys
import cleancut
from cleancut import Checkpoint
from tests.support.sessions import builder

endpoint, location, source = sys.argv[1:]
made = cleancut.configure(builder("local-cluster[2,1,1024]"), endpoint=endpoint)
# Full snapshots, which maintenance writes, would let the third plan refer to frames as well.
made = made.config("spark.sql.streaming.stateStore.maintenanceInterval", "1h")
spark = made.config("spark.sql.shuffle.partitions", "3").getOrCreate()
last = {}

def take(batch, _):
    last.update({row.k: (row["count"], row["sum(v)"]) for row in batch.collect()})

def run(*files):
    stream = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1)
    counted = stream.json(source).groupBy("k").agg({"v": "sum", "*": "count"})
    counted = counted.withColumnRenamed("count(1)", "count").select("k", "count", "sum(v)")
    query = counted.writeStream.outputMode("update").foreachBatch(take)
    query = query.option("checkpointLocation", location).trigger(availableNow=True).start()
    query.awaitTermination()

run()
rows_of_plans = {}
# The first two copy no row; the third is the first that does.
for partitions in (6, 2, 5):
    done = cleancut.rescale(location, partitions).apply()
    assert done.copies_rows == (partitions == 5), done
    rows_of_plans[partitions] = done.operators[0].rows
    table = Checkpoint(location, endpoint=endpoint).state(0)
    found = {row["key"]["k"]: tuple(sorted(row["value"].values())) for row in table.to_pylist()}
    assert found == {key: tuple(sorted(row)) for key, row in last.items()}, (found, last)
    assert max(table.column("partition").to_pylist()) < partitions
    import os, shutil
    name = f"{source}/{partitions + 10}.json"
    shutil.copy(f"{source}/0.json", f"{source}/.part")
    os.rename(f"{source}/.part", name)
    run()
assert Checkpoint(location, endpoint=endpoint).verify().ok
for provider in ("cleancut", "rocksdb"):
    try:
        cleancut.convert(location, provider=provider)
        raise AssertionError(provider)
    except cleancut.RequestError as refused:
        assert refused.error_id == "CLEANCUT_OPERATION_REFUSED"
print(json.dumps([rows_of_plans, last]))
"""


@long
def test_a_query_in_a_bucket_is_rescaled_on_a_cluster(server: S3Server, tmp_path: Path) -> None:
    source = tmp_path / "in"
    add(source, 0, 1, 2)
    location = f"s3://{server.BUCKET}/moved"
    places = [server.endpoint, location, str(source)]
    answer = run_script(RESCALED, *places, **server.environment)
    assert answer.returncode == 0, answer.stderr
    counts, last = json.loads(answer.stdout.splitlines()[-1])
    assert counts == {"6": 0, "2": 0, "5": 23}
    totals: dict[str, list[int]] = {}
    for number in (0, 0, 0, 0, 1, 2):
        for v in range(60):
            total = totals.setdefault(f"k{(7 * v + number) % 23}", [0, 0])
            total[0], total[1] = total[0] + 1, total[1] + v
    assert last == totals
