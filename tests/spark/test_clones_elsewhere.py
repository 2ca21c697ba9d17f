"""A checkpoint is cloned from one object store into another, each with credentials of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kills import environment
from tests.support.s3_servers import s3proxy
from tests.support.tiers import long, usually

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
OTHERS = ("second-id", "second-secret")
SCRIPT = """
import sys
from pathlib import Path

import pytest

import cleancut
from cleancut import Checkpoint, RequestError
from cleancut._spark.settings import PREFIX
from tests.support.file_epochs import KEYS, PLACES, Epochs
from tests.support.sessions import builder

master, first, second = sys.argv[1:4]
home, data = map(Path, sys.argv[4:])
spark = cleancut.configure(builder(master), endpoint=first).getOrCreate()
it = Epochs(spark, home, PLACES["cuts"])
it.checkpoint = "s3://bucket/query"
it.add(3)
it.run()

# What is not enough is refused, by a plan, and nothing is there afterwards.
there = {"into_endpoint": second, "into_profile": "second-site"}
into = "s3://bucket/clone"
refused = [
    ("CLEANCUT_OBJECT_STORE_REFUSED", into, {"into_endpoint": second}),
    ("CLEANCUT_OBJECT_STORE_REFUSED", into, there | {"into_profile": "third-site"}),
    ("CLEANCUT_CONF_INVALID", into, there | {"into_endpoint": "nowhere"}),
    ("CLEANCUT_OFFLINE_REFUSED", str(home / "clone"), there),
]
for error_id, place, access in refused:
    with pytest.raises(RequestError) as raised:
        cleancut.clone(it.checkpoint, place, **access)
    assert raised.value.error_id == error_id, raised.value
    print("REFUSED", raised.value)
assert list(data.iterdir()) == [], "the other store"

plan = cleancut.clone(it.checkpoint, into, 1, partitions=5, **there)
assert list(data.iterdir()) == []
(note,) = plan.notes
assert f"{PREFIX}profile=second-site" in note and f"{PREFIX}endpoint={second}" in note, note
print("PLANNED", plan)
done = plan.apply()
assert sum(of.rows or 0 for of in done.operators) == KEYS
clone = Checkpoint(into, endpoint=second, profile="second-site")
assert clone.verify().ok, clone.verify()

# The query goes on with the settings that the note names; the other one with those that it had.
other = Epochs(spark, home, it.settings | {f"{PREFIX}endpoint": second})
other.settings |= {f"{PREFIX}profile": "second-site"}
other.checkpoint, other.files = into, it.files
assert other.state() == it.expected(2)
assert other.run() == [5]
assert other.given[5] == {key: it.expected(3)[key] for key in other.given[5]}
it.add()
assert (other.run(), it.run()) == ([6], [3])
assert other.state() == it.state() == it.expected(4)
assert clone.verify().ok
assert [of.epoch for of in clone.cuts()][-1] == 6
print("DONE")
"""


# Beside rows, a processor has files with the schemas of its variables in its checkpoint.
OF_A_PROCESSOR = """
import sys
from pathlib import Path

import cleancut
from cleancut import Checkpoint
from cleancut._spark.settings import PREFIX
from pyspark.sql import functions as f
from tests.support.file_epochs import PLACES, Epochs
from tests.support.processors import OUTPUT, Grown
from tests.support.sessions import builder

master, first, second = sys.argv[1:4]
home = Path(sys.argv[4])
spark = cleancut.configure(builder(master), endpoint=first).getOrCreate()


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


it = Growing(spark, home, PLACES["cuts"])
it.checkpoint = "s3://bucket/query"
it.add(2)
it.run()
access = {"endpoint": second, "profile": "second-site"}
how = {f"into_{name}": value for name, value in access.items()}
cleancut.clone(it.checkpoint, "s3://bucket/clone", partitions=2, **how).apply()
here, there = Checkpoint(it.checkpoint, endpoint=first), Checkpoint("s3://bucket/clone", **access)
assert kept(there) == kept(here)
other = Growing(spark, home, it.settings | {f"{PREFIX}{name}": of for name, of in access.items()})
other.checkpoint = "s3://bucket/clone"
before = kept(here)
it.add()
for of in (it, other):
    of.run()
assert kept(there) == kept(here) != before
assert there.verify().ok
print("DONE")
"""
MASTERS = ("local[2]", "local-cluster[2,1,1024]")


@pytest.mark.parametrize("master", usually({"local[2]"}, MASTERS))
def test_a_clone_goes_into_another_store_with_other_credentials(
    tmp_path: Path, master: str
) -> None:
    """Formerly both places were reached as the session said, with the same credentials."""
    run(SCRIPT, master, tmp_path)


@long
def test_the_clone_of_a_processor_does_so_with_its_schemas(tmp_path: Path) -> None:
    run(OF_A_PROCESSOR, MASTERS[1], tmp_path)


def run(script: str, master: str, tmp_path: Path) -> None:
    """A script, beside two servers of which each takes the credentials of the other for wrong."""
    home, profiles = tmp_path / "home", tmp_path / "credentials"
    home.mkdir()
    profiles.write_text(
        f"[second-site]\naws_access_key_id = {OTHERS[0]}\naws_secret_access_key = {OTHERS[1]}\n"
    )
    # Both start at once.
    servers = s3proxy(tmp_path / "one"), s3proxy(tmp_path / "two", OTHERS)
    with servers[0] as first, servers[1] as second:
        data = tmp_path / "two" / "data" / second.BUCKET
        places = [master, first.endpoint, second.endpoint, str(home), str(data)]
        ran = subprocess.run(
            [sys.executable, "-c", script, *places],
            env=environment()
            | first.environment
            | {"AWS_SHARED_CREDENTIALS_FILE": str(profiles), "AWS_CONFIG_FILE": str(profiles)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert ran.stdout.endswith("DONE\n"), ran.stdout + ran.stderr[-8000:]
    assert OTHERS[1] not in ran.stdout + ran.stderr
    assert list(data.iterdir()), "the clone is elsewhere"
