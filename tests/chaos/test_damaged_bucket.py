"""Random damage to the objects of a checkpoint in a bucket, Spark's own among them.

Each object keeps what the client has written beside its bytes, as it does where a disk flips a bit
or somebody copies one object over another.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from cleancut import Checkpoint, RequestError
from tests.support.counted_files import ROWS, CountedFiles
from tests.support.s3_servers import S3Server, s3proxy
from tests.support.seeds import chaos_runs, hunting
from tests.support.sink_places import Bucket, Place, credentials, session_at
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos]

SEED = hunting(24)
TRIALS = 4 * chaos_runs()
KEYS = 60


@pytest.fixture
def server(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[S3Server]:
    with s3proxy(tmp_path) as started, credentials(spark):
        for name, value in started.environment.items():
            monkeypatch.setenv(name, value)
        yield started


class Objects(Bucket):
    """Those of a checkpoint, as whoever damages them sees them."""

    def copy_to(self, other: "Objects") -> None:
        for name in self.sizes():
            self._copy(self._prefix + name, other._prefix + name)

    def _copy(self, source: str, target: str) -> None:
        place = {"Bucket": self._bucket, "Key": source}
        self._client.copy_object(Bucket=self._bucket, Key=target, CopySource=place)

    def flip(self, name: str, draw: random.Random) -> None:
        def flipped(body: bytes) -> bytes:
            changed = bytearray(body)
            if changed:
                changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
            return bytes(changed)

        self._change(name, flipped)

    def cut(self, name: str, draw: random.Random) -> None:
        self._change(name, lambda body: body[: draw.randrange(len(body))] if body else b"")

    def _change(self, name: str, change: Callable[[bytes], bytes]) -> None:
        at = {"Bucket": self._bucket, "Key": self._prefix + name}
        response = self._client.get_object(**at)
        body = change(response["Body"].read())
        self._client.put_object(**at, Body=body, Metadata=response["Metadata"])

    def exchange(self, one: str, other: str) -> None:
        first, second, kept = (self._prefix + name for name in (one, other, f"{one}.kept"))
        for source, target in ((first, kept), (second, first), (kept, second)):
            self._copy(source, target)
        self.delete(f"{one}.kept")


class Query(CountedFiles):
    """A count by key, and what its sink has seen last of each."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        super().__init__(directory, keys=KEYS)
        self.spark = spark
        self.counts: dict[int, int] = {}

    def run(self, place: Place) -> None:
        stream = self.counted(session_at(self.spark, place))
        writer = stream.writeStream.foreachBatch(self._take).outputMode("update")
        writer = writer.option("checkpointLocation", place.location)
        writer.trigger(availableNow=True).start().awaitTermination()

    def _take(self, rows: DataFrame, _: int) -> None:
        self.counts |= {row["k"]: row["count"] for row in rows.collect()}


def kind(name: str) -> str:
    """What an object is, by the directory that it lies in."""
    below = name.removeprefix("cleancut/")
    parts = below.split("/")
    return parts[0] if below == name or len(parts) > 1 else "notes"


def harm(objects: Objects, draw: random.Random) -> str:
    """Damages objects of a kind that is drawn first, so that few of them are met as often."""
    names = objects.sizes()
    damaged_kind = draw.choice(sorted({kind(name) for name in names}))
    chosen = sorted(name for name in names if kind(name) == damaged_kind)
    victim = draw.choice(chosen)
    others = [name for name in chosen if name != victim]
    how = draw.choice(["flip", "cut", "remove", *(["exchange"] * 3 if others else [])])
    if how == "flip":
        objects.flip(victim, draw)
    elif how == "cut":
        objects.cut(victim, draw)
    elif how == "remove":
        objects.delete(victim)
    else:
        other = draw.choice(others)
        objects.exchange(victim, other)
        return f"{how} {victim} and {other}"
    return f"{how} {victim}"


def found_sound(place: Place, server: S3Server) -> bool:
    """What verify says; it refuses to look at what another release may have written."""
    try:
        return Checkpoint(place.location, endpoint=server.endpoint).verify().ok
    except RequestError:
        return False


def refusal(query: Query, place: Place) -> Exception | None:
    """What a restart ends with, at its start or later, unless it takes all that there is."""
    try:
        query.run(place)
    except (Py4JJavaError, StreamingQueryException) as error:
        return error
    return None


@long
def test_a_restart_on_a_damaged_bucket_fails_or_is_right(
    server: S3Server, spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    query, intact = Query(spark, tmp_path), Objects(server.endpoint, "intact")
    query.add(4)
    query.run(intact)
    query.add()
    expected = dict.fromkeys(range(KEYS), query.files * ROWS // KEYS)
    outcomes = Counter[str]()
    for trial in range(TRIALS):
        draw, objects = random.Random(f"{SEED} {trial}"), Objects(server.endpoint, f"trial-{trial}")
        intact.copy_to(objects)
        what = harm(objects, draw)
        is_sound = found_sound(objects, server)
        trial_name = f"trial {trial} of seed {SEED}: {what}"
        query.counts.clear()
        error = refusal(query, objects)
        if error is not None:
            assert not is_sound, f"{trial_name}: verify says sound, and the restart says {error}"
            outcomes["refused, and named by verify"] += 1
        else:
            assert query.counts == expected, trial_name
            outcomes["right, sound" if is_sound else "right, and named by verify"] += 1
    show(f"seed {SEED}, {TRIALS} trials: {dict(outcomes)}")
    assert outcomes["refused, and named by verify"] > 0
