"""Clones between object stores, each with separate credentials."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.kills import run_script
from tests.support.s3_servers import S3Server, s3proxy
from tests.support.tiers import long

pytestmark = pytest.mark.spark

OTHERS = ("second-id", "second-secret")
FILE = "AWS_SHARED_CREDENTIALS_FILE"
CLUSTER = """
import sys
from pathlib import Path

import cleancut
from tests.support.sessions import builder

first, second = sys.argv[1:3]
home, data = map(Path, sys.argv[3:])
spark = cleancut.configure(builder("local-cluster[2,1,1024]"), endpoint=first).getOrCreate()
"""
COUNTED = """
import pytest

import cleancut
from cleancut import Checkpoint, RequestError
from cleancut._session.options import PREFIX
from tests.support.file_epochs import KEYS, PLACES, Epochs



def counts(checkpoint):
    return {row["key"]["k"]: row["value"]["count"] for row in checkpoint.state(0).to_pylist()}


it = Epochs(spark, home, PLACES["cuts"] | {f"{PREFIX}s3.endpoint": first})
it.checkpoint = "s3://bucket/query"
it.add(3)
it.run()

# What is not enough is refused, by a plan, and nothing is there afterwards.
there = {"endpoint": second, "profile": "second-site"}
into = "s3://bucket/clone"
refused = [
    ("CLEANCUT_OBJECT_STORE_REFUSED", into, {"endpoint": second}),
    ("CLEANCUT_OBJECT_STORE_REFUSED", into, there | {"profile": "third-site"}),
    ("CLEANCUT_CONF_INVALID", into, there | {"endpoint": "nowhere"}),
    ("CLEANCUT_OPERATION_REFUSED", str(home / "clone"), there),
]
for error_id, place, access in refused:
    with pytest.raises(RequestError) as raised:
        cleancut.clone(it.checkpoint, place, session=it.session(), target_access=access)
    assert raised.value.error_id == error_id, raised.value
    print("REFUSED", raised.value)
assert list(data.iterdir()) == [], "the other store"

plan = cleancut.clone(
    it.checkpoint, into, 1, session=it.session(), partitions=5, target_access=there
)
assert list(data.iterdir()) == []
(note,) = plan.notes
assert f"{PREFIX}s3.profile=second-site" in note and f"{PREFIX}s3.endpoint={second}" in note, note
print("PLANNED", plan)
done = plan.apply()
assert sum(of.rows or 0 for of in done.operators) == KEYS
clone = Checkpoint(into, endpoint=second, profile="second-site")
assert clone.verify().ok, clone.verify()

# The query continues with the settings that the note names; the other one with those that it had.
other = Epochs(spark, home, it.settings | {f"{PREFIX}s3.endpoint": second})
other.settings |= {f"{PREFIX}s3.profile": "second-site"}
other.checkpoint, other.files = into, it.files
assert counts(clone) == it.expected(2)
assert other.run() == [5]
assert other.given[5] == {key: it.expected(3)[key] for key in other.given[5]}
it.add()
assert (other.run(), it.run()) == ([6], [3])
assert counts(clone) == counts(Checkpoint(it.checkpoint, endpoint=first)) == it.expected(4)
assert clone.verify().ok
assert [of.epoch for of in clone.cuts()][-1] == 6
"""


# In addition to rows, a processor has schema files of its variables in its checkpoint.
GROWN = """
import cleancut
from cleancut import Checkpoint
from cleancut._session.options import PREFIX
from pyspark.sql import functions as f
from tests.support.file_epochs import PLACES, Epochs
from tests.support.processors import OUTPUT, Grown


class Growing(Epochs):
    def start(self, **trigger):
        stream = self.session().readStream.schema("k int").option("maxFilesPerTrigger", 1)
        rows = stream.json(str(self.home / "in")).withColumns({"v": f.col("k"), "s": f.lit("x")})
        grown = rows.groupBy("k").transformWithState(Grown(1), OUTPUT, "update", "none")
        writer = grown.writeStream.outputMode("update").format("noop").trigger(**trigger)
        return writer.option("checkpointLocation", self.checkpoint).start()


def kept(checkpoint):
    tables = (checkpoint.state(0, family=family) for family in ("count", "all"))
    return [sorted(map(repr, table.drop(["partition"]).to_pylist())) for table in tables]


it = Growing(spark, home, PLACES["cuts"] | {f"{PREFIX}s3.endpoint": first})
it.checkpoint = "s3://bucket/query"
it.add(2)
it.run()
access = {"endpoint": second, "profile": "second-site"}
cleancut.clone(it.checkpoint, "s3://bucket/clone", partitions=2, target_access=access).apply()
here, there = Checkpoint(it.checkpoint, endpoint=first), Checkpoint("s3://bucket/clone", **access)
assert kept(there) == kept(here)
keys = {f"{PREFIX}s3.{name}": text for name, text in access.items()}
other = Growing(spark, home, it.settings | keys)
other.checkpoint = "s3://bucket/clone"
before = kept(here)
it.add()
for of in (it, other):
    of.run()
assert kept(there) == kept(here) != before
assert there.verify().ok
"""


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[S3Server, S3Server]]:
    """Each server refuses the credentials of the other. Both start concurrently."""
    both = s3proxy(tmp_path / "one"), s3proxy(tmp_path / "two", OTHERS)
    with both[0] as first, both[1] as second:
        yield first, second


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    """An AWS configuration that has only the credentials of the second server."""
    text = f"aws_access_key_id = {OTHERS[0]}\naws_secret_access_key = {OTHERS[1]}\n"
    (tmp_path / "credentials").write_text(f"[second-site]\n{text}")
    (tmp_path / "home").mkdir()
    return tmp_path / "credentials"


@long
def test_a_clone_into_another_store_uses_its_credentials(
    spark: SparkSession,
    servers: tuple[S3Server, S3Server],
    profiles: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both locations were accessed with the credentials of the session."""
    first, second = servers
    for name, value in (first.environment | {FILE: str(profiles)}).items():
        monkeypatch.setenv(name, value)
    # A running JVM reads them this way.
    system: Any = spark._jvm.java.lang.System  # type: ignore[union-attr]
    properties = {
        "aws.accessKeyId": first.environment["AWS_ACCESS_KEY_ID"],
        "aws.secretAccessKey": first.environment["AWS_SECRET_ACCESS_KEY"],
        "aws.sharedCredentialsFile": str(profiles),
    }
    for name, value in properties.items():
        system.setProperty(name, value)
    try:
        places = {"first": first.endpoint, "second": second.endpoint, "home": tmp_path / "home"}
        exec(COUNTED, places | {"spark": spark, "data": data_of(tmp_path)})
    finally:
        for name in properties:
            system.clearProperty(name)


@long
@pytest.mark.parametrize("script", [COUNTED, GROWN], ids=["counted", "grown"])
def test_a_clone_into_another_store_on_a_cluster(
    servers: tuple[S3Server, S3Server], profiles: Path, tmp_path: Path, script: str
) -> None:
    first, second = servers
    places = [first.endpoint, second.endpoint, str(tmp_path / "home"), str(data_of(tmp_path))]
    variables = first.environment | {FILE: str(profiles)}
    ran = run_script(f"{CLUSTER}{script}print('DONE')", *places, **variables)
    assert ran.stdout.endswith("DONE\n"), ran.stdout + ran.stderr[-8000:]
    assert OTHERS[1] not in ran.stdout + ran.stderr
    assert list(data_of(tmp_path).iterdir()), "the clone is elsewhere"


def data_of(home: Path) -> Path:
    """Returns the directory of the objects of the second server's bucket."""
    return home / "two" / "data" / S3Server.BUCKET
