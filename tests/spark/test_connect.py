"""A client of Spark Connect; the server has the settings that `cleancut conf` prints, and no
others.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cleancut._cli import main as _cli
from cleancut._session.settings import CONNECT_KEY
from tests.support.connect_server import SPARK_HOME, ConnectServer
from tests.support.documented import blocks
from tests.support.kills import environment, run_script
from tests.support.patience import PATIENCE_S
from tests.support.server_process import home_of
from tests.support.tiers import long

pytestmark = pytest.mark.spark

PAGE = "docs/get-started/starting/spark-connect.md"

# Spark waits for the worker process of a function for ten seconds, whatever else runs.
Servers = Callable[..., ConnectServer]

NO_WORKER = "Python worker failed to connect back"
# The first statements of each client: its process has neither a JVM nor Cleancut's jar.
CLIENT = """
import json, os, sys, time
from collections import Counter
from pathlib import Path
from pyspark.sql import SparkSession, functions as f
import cleancut
from cleancut.sinks import sealed
from cleancut.testing import slow

remote, home = sys.argv[1], Path(sys.argv[2])
spark = SparkSession.builder.remote(remote).getOrCreate()
source, results, location = home / "in", str(home / "out"), str(home / "checkpoint")

def put(number, rows):
    made = home / f"{number}.json"
    made.write_text("\\n".join(json.dumps({"k": k, "n": n}) for k, n in rows))
    made.rename(source / made.name)

@sealed
def sink(rows, epoch):
    rows.write.mode("overwrite").parquet(f"{results}/epoch={epoch}")

def distinct(rows):
    return rows.dropDuplicates(["k", "n"])

def start(per_row_ms=0):
    stream = spark.readStream.schema("k int, n int").option("maxFilesPerTrigger", 1)
    rows = distinct(stream.json(str(source)))
    if per_row_ms:
        rows = rows.withColumn("n", slow("n", per_row_ms=per_row_ms, when=f.col("k") == 0))
    writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", location)
    for attempt in range(5):
        try:
            return writer.start()
        except Exception as failure:
            if "%s" not in str(failure):
                raise
    raise TimeoutError

def rows_of(df):
    return sorted((row.k, row.n) for row in df.select("k", "n").collect())

def wanted():
    return rows_of(distinct(spark.read.schema("k int, n int").json(str(source))))

def published_rows():
    return rows_of(spark.read.schema("k int, n int, epoch long").parquet(results))
""".replace("%s", NO_WORKER)

WATCHES = (
    CLIENT
    + """
for number in range(3):
    put(number, [(k % 5, n + number * 40) for n in range(60) for k in [0, n]])
query = start()
query.processAllAvailable()
watched = cleancut.coordinator(query)
status = watched.status()
assert (status.committed, status.last.epoch) == (2, 2), status
assert (status.generation, status.run_id) == (1, str(query.runId)), status
assert watched.wait_for(2, timeout=600)
assert watched.create_savepoint("early", 1) == 1
assert [of.epoch for of in watched.history()] == [0, 1, 2]
assert cleancut.stop(query, savepoint="end") == 2
assert not query.isActive
assert published_rows() == wanted()

# Operations, also from a client; then the query continues.
assert cleancut.rescale(location, 6).apply(spark).copies_rows is False
try:
    cleancut.rescale(location, 6)
    raise AssertionError("it has six already")
except cleancut.RequestError as refused:
    assert refused.error_id == "CLEANCUT_OPERATION_REFUSED", refused
    assert refused.params["location"].endswith("checkpoint"), refused.params
query = distinct(spark.readStream.schema("k int, n int").json(str(source)))
assert cleancut.check_compatibility(location, query), cleancut.check_compatibility(location, query)
put(3, [(k, 1000) for k in range(5)])
query = start()
query.processAllAvailable()
assert cleancut.stop(query) == 4
assert published_rows() == wanted()
back = cleancut.rollback(location, "early").apply()
assert (back.source, back.epoch) == (1, 6)
edited = cleancut.edit(location, 0, lambda state: state.where("key.k <> 3")).apply()
assert edited.operators[0].rows > 0
kept = {row["key"]["k"] for row in cleancut.Checkpoint(location).state(0).to_pylist()}
assert kept == {0, 1, 2, 4}, kept

# The error of a function, and that of start().
@sealed
def failing(rows, epoch):
    raise cleancut.errors.error_of("CLEANCUT_STORE_BUSY", holder="task 7", waitedMs=1)

def check(failure, error_id):
    first, empty, last = str(failure).partition("\\n\\n")
    assert first.startswith(f"[{error_id}] "), str(failure)
    assert len(first.splitlines()) == 5, first
    assert len(last.splitlines()) <= 1, last
    assert cleancut.errors.find_error(failure).error_id == error_id

def failure_of(call):
    try:
        call()
    except Exception as failure:
        return failure
    raise AssertionError("it did not fail")

rows = distinct(spark.readStream.schema("k int, n int").json(str(source))).writeStream
rows = rows.foreachBatch(failing)
query = rows.option("checkpointLocation", str(home / "failing")).start()
check(failure_of(query.awaitTermination), "CLEANCUT_STORE_BUSY")
check(query.exception(), "CLEANCUT_STORE_BUSY")
assert cleancut.errors.find_error(query).params["holder"] == "task 7"
spark.conf.set("spark.sql.streaming.stateStore.cleancut.noSuchKey", "1")
check(failure_of(rows.option("checkpointLocation", str(home / "none")).start),
      "CLEANCUT_CONF_INVALID")
print("DONE")
"""
)

IN_FLIGHT = (
    CLIENT
    + """
put(0, [(k, 0) for k in range(5)])
query = start(per_row_ms=30)
query.processAllAvailable()
put(1, [(0, n) for n in range(1, 80)] + [(k, n) for k in range(1, 5) for n in range(1, 5)])
watched = cleancut.coordinator(query)
while not watched.cut_now():
    time.sleep(0.05)
assert watched.wait_for(1, timeout=600)
print("LEFT", sum(of.rows for of in watched.status().in_flight), flush=True)
print("DONE", flush=True)
os._exit(0)
"""
)

GOES_ON = (
    CLIENT
    + """
query = start()
query.processAllAvailable()
cleancut.stop(query)
assert published_rows() == wanted()
print("DONE")
"""
)

IN_ORDER = (
    CLIENT
    + """
for number, rows in enumerate(([(0, 3), (0, 1)], [(0, 2), (1, 1), (0, 3)])):
    put(number, rows)
stream = spark.readStream.schema("k int, n int").option("maxFilesPerTrigger", 1)
rows = cleancut.in_sequence(stream.json(str(source)), "k", "n", first=1)
writer = rows.writeStream.format("parquet").option("checkpointLocation", location)
query = writer.trigger(availableNow=True).start(results)
query.awaitTermination()
written = spark.read.parquet(results)
assert rows_of(written) == [(0, 1), (0, 2), (0, 3), (1, 1)], rows_of(written)
try:
    cleancut.in_sequence(stream.json(str(source)), "k", "x")
    raise SystemExit("it went through")
except cleancut.RequestError as refused:
    assert refused.error_id == "CLEANCUT_SEQUENCE_INVALID", refused
print("DONE")
"""
)


LACKS = (
    CLIENT
    + """
for use in (
    lambda: cleancut.rescale(location, 6),
    lambda: cleancut.seal(spark.range(1), 0),
    lambda: cleancut.configure(SparkSession.builder.remote(remote)),
):
    try:
        use()
        raise SystemExit("it went through")
    except cleancut.RequestError as refused:
        assert refused.error_id == "CLEANCUT_CONNECT_UNSUPPORTED", refused
        assert "cleancut conf" in str(refused)
print("DONE")
"""
)


def lines(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    capsys.readouterr()
    assert _cli.main(["conf", *options]) == 0
    return capsys.readouterr().out


@pytest.fixture
def server(capsys: pytest.CaptureFixture[str]) -> Iterator[Servers]:
    started: list[ConnectServer] = []
    with home_of("connect") as home:

        def make(*options: str, master: str = "local[2]", lacking: str = "none") -> ConnectServer:
            printed = lines(capsys, *options).replace("\\\n", "\n").splitlines()
            kept = " ".join(line for line in printed if lacking not in line)
            one = ConnectServer(home, kept, master=master)
            one.start()
            started.append(one)
            return one

        yield make
        for one in started:
            one.stop()


def client(script: str, server: ConnectServer, home: Path) -> str:
    (home / "in").mkdir(exist_ok=True)
    ended = run_script(script, server.remote, str(home))
    assert ended.returncode == 0, f"{ended.stderr}\n{server.log[-5000:]}"
    assert "DONE" in ended.stdout
    return ended.stdout


def test_a_client_runs_watches_and_changes_a_query(server: Servers, tmp_path: Path) -> None:
    client(WATCHES, server("--cuts"), tmp_path)


@long
def test_a_client_puts_rows_in_sequence(server: Servers, tmp_path: Path) -> None:
    client(IN_ORDER, server("--cuts"), tmp_path)


@long
@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])
def test_a_server_killed_with_rows_in_flight_continues(
    master: str, server: Servers, tmp_path: Path, show: Callable[[str], None]
) -> None:
    started = server("--cuts", "--mode", "unaligned", master=master)
    left = re.search(r"LEFT (\d+)", client(IN_FLIGHT, started, tmp_path))
    assert left is not None
    assert int(left[1]) > 0
    started.kill()
    started.start()
    client(GOES_ON, started, tmp_path)
    show(f"{left[1]} in-flight rows when the server was killed")


@long
def test_the_documented_server_and_client_run(tmp_path: Path) -> None:
    """Runs the documented command unchanged; `spark-defaults.conf` has the port, which must be
    free.
    """
    (line,) = blocks(PAGE, "sh")
    (script,) = blocks(PAGE, "python")
    with home_of("connect") as home:
        started = ConnectServer(home, "")
        (home / "spark-defaults.conf").write_text(started.properties)
        places = {f"SPARK_{kind}_DIR": str(home) for kind in ("CONF", "LOG", "PID")}
        places["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        places["SPARK_HOME"] = str(SPARK_HOME)
        stop = [str(SPARK_HOME / "sbin" / "stop-connect-server.sh")]
        subprocess.run(
            ["bash", "-c", line], env=environment() | places, check=True, timeout=PATIENCE_S
        )
        try:
            started.wait()
            script = re.sub(r'"(orders|counts|checkpoint)(?=["/])', rf'"{tmp_path}/\1', script)
            (tmp_path / "orders").mkdir()
            shops = ["a", "b", "a"]
            rows = "\n".join(json.dumps({"shop": shop}) for shop in shops)
            (tmp_path / "orders" / "1.json").write_text(rows)
            for _ in range(5):
                ended = run_script(script.replace("sc://localhost:15002", started.remote))
                if NO_WORKER not in ended.stderr:
                    break
        finally:
            subprocess.run(stop, env=environment() | places, check=True, timeout=PATIENCE_S)
    assert ended.returncode == 0, ended.stderr
    assert re.search(r"^committed +0$", ended.stdout, re.MULTILINE)
    assert "3 -> 6" in ended.stdout


@long
def test_missing_settings_of_a_server_or_a_function_are_reported(
    server: Servers, tmp_path: Path
) -> None:
    client(LACKS, server(lacking=CONNECT_KEY), tmp_path)
