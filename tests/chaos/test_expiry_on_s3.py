"""Expiry of cuts in a bucket, on S3 servers and after operations."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cleancut import Checkpoint
from cleancut._cli import main as _cli
from tests.support.kills import run_script
from tests.support.s3_servers import VERSITYGW, S3Server, s3proxy, versitygw

pytestmark = [pytest.mark.chaos, pytest.mark.long]

# Processes all files, and then performs the operation, which copies no row.
RUNS = """
import sys
import cleancut
from tests.support.sessions import builder

endpoint, location, source, operation = sys.argv[1:]
made = cleancut.configure(builder("local[2]"), endpoint=endpoint)
spark = made.config("spark.sql.shuffle.partitions", "2").getOrCreate()
stream = spark.readStream.schema("k string").option("maxFilesPerTrigger", 1).json(source)
writer = stream.groupBy("k").count().writeStream.format("noop").outputMode("update")
writer = writer.option("checkpointLocation", location).trigger(availableNow=True)
writer.start().awaitTermination()
if operation == "rescale":
    assert not cleancut.rescale(location, 4).apply().copies_rows
if operation == "back":
    assert not cleancut.rollback(location, "early").apply().copies_rows
"""


@pytest.fixture(
    params=[s3proxy, *([versitygw] if VERSITYGW else [])], ids=lambda server: server.__name__
)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[S3Server]:
    make: Callable[[Path], S3Server] = request.param
    with make(tmp_path / "server") as started:
        yield started


def test_a_query_continues_after_its_cuts_expired(
    server: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, location = tmp_path / "in", f"s3://{server.BUCKET}/queries/counted"
    source.mkdir()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    files = 0

    def run(operation: str, more: int) -> None:
        nonlocal files
        for number in range(files, files + more):
            lines = [json.dumps({"k": f"k{(7 * v + number) % 23}"}) for v in range(60)]
            path = source / f"{number}.json"
            path.write_text("\n".join(lines), encoding="utf-8")
            # Spark reads files by modification time, and equal times in any order.
            os.utime(path, (1_700_000_000 + number,) * 2)
        files += more
        places = [server.endpoint, location, str(source), operation]
        answer = run_script(RUNS, *places, **server.environment)
        assert answer.returncode == 0, answer.stderr

    def there() -> Checkpoint:
        return Checkpoint(location, endpoint=server.endpoint)

    def counts() -> dict[str, int]:
        return {row["key"]["k"]: row["value"]["count"] for row in there().state(0).to_pylist()}

    def expected(files: int) -> dict[str, int]:
        counted: dict[str, int] = {}
        for number in range(files):
            for v in range(60):
                key = f"k{(7 * v + number) % 23}"
                counted[key] = counted.get(key, 0) + 1
        return counted

    def expire() -> None:
        access = ["--endpoint", server.endpoint]
        command = ["expire", location, *access, "--retain-last", "1", "--json"]
        assert _cli.main(command) == 0
        plan = json.loads(capsys.readouterr().out)
        before = there().cuts()
        assert len(before) == len(plan["epochs"]) + 1
        assert _cli.main([*command, "--apply"]) == 0
        done = json.loads(capsys.readouterr().out)
        assert [cut.epoch for cut in there().cuts()] == [before[-1].epoch]
        assert there().verify().ok, str(there().verify())
        assert done["segments"] == plan["segments"]

    run("none", 5)
    there().create_savepoint("early", 1)
    expire()
    # The chains of the last cut also need segments of the expired cuts; a later base that is in no
    # cut may be deleted.
    assert counts() == expected(5)
    run("rescale", 1)
    expire()
    assert counts() == expected(6)
    assert there().cut().referenced_bytes
    run("back", 1)
    expire()
    assert counts() == expected(2)
    there().drop_savepoint("early")
    expire()
    assert counts() == expected(2)
    run("none", 1)
    assert counts() == expected(8)
