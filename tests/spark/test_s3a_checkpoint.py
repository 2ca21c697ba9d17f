"""A checkpoint that Spark wrote through `s3a://` is cloned to `s3://` without hadoop-aws."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kills import run_script
from tests.support.s3_servers import S3Server, s3proxy
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, long]

# The endpoint is configured before Spark starts, so the test has a separate process.
CLONED = """
import sys
from pathlib import Path

import boto3

import cleancut
from cleancut import Checkpoint
from cleancut._session.options import PREFIX
from tests.support.file_epochs import KEYS, PLACES, Epochs
from tests.support.sessions import builder

endpoint, home, place = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
spark = cleancut.configure(builder("local[2]"), endpoint=endpoint).getOrCreate()
it = Epochs(spark, home, PLACES[place])
it.add(2)
it.run()

# S3A writes each file as one object, and a marker for each directory that it makes.
client = boto3.client("s3", endpoint_url=endpoint)
local = Path(it.checkpoint)
for path in sorted(local.rglob("*")):
    if not path.name.startswith("."):
        key = f"old/{path.relative_to(local)}"
        if path.is_dir():
            client.put_object(Bucket="bucket", Key=f"{key}/")
        else:
            client.put_object(Bucket="bucket", Key=key, Body=path.read_bytes())

plan = cleancut.clone("s3://bucket/old", "s3://bucket/new", provider="cleancut", same_query=True)
done = plan.apply()
assert sum(of.rows or 0 for of in done.operators) == KEYS, done
assert Checkpoint("s3://bucket/new", endpoint=endpoint).verify().ok
it.checkpoint = "s3://bucket/new"
it.settings |= {f"{PREFIX}s3.endpoint": endpoint}
it.add()
ran = it.run()
assert it.state() == it.expected(3), it.state()
assert Checkpoint("s3://bucket/new", endpoint=endpoint).verify().ok
print("CLONED", ran)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3proxy(tmp_path_factory.mktemp("s3proxy")) as started:
        yield started


@pytest.mark.parametrize("place", ["rocksdb", "rocksdb-1", "level-0"])
def test_a_checkpoint_of_s3a_is_cloned_to_s3(server: S3Server, tmp_path: Path, place: str) -> None:
    answer = run_script(CLONED, server.endpoint, str(tmp_path), place, **server.environment)
    assert answer.returncode == 0, answer.stderr
    assert "CLONED" in answer.stdout
