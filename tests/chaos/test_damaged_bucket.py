"""Random corruption of the objects of a checkpoint in a bucket, including Spark's own.

Each object keeps its metadata, as after a bit flip on a disk or a manual copy of one object over
another.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException, StreamingQueryException
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
    """The objects of a checkpoint, with ways to corrupt them."""

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
    """A count by key, and the latest rows of its sink."""

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
    """Returns the kind of an object by its directory."""
    below = name.removeprefix("cleancut/")
    parts = below.split("/")
    return parts[0] if below == name or len(parts) > 1 else "notes"


def corrupt(objects: Objects, draw: random.Random) -> str:
    """Corrupts objects of a random kind, so that rare kinds are equally likely."""
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


def is_verified(place: Place, server: S3Server) -> bool:
    """Whether `verify` accepts the checkpoint; it refuses objects of other releases."""
    try:
        return Checkpoint(place.location, endpoint=server.endpoint).verify().ok
    except RequestError:
        return False


def refusal(query: Query, place: Place) -> Exception | None:
    """Returns the error of a restart, at its start or later; None if it processes all input."""
    try:
        query.run(place)
    except (IllegalArgumentException, Py4JJavaError, StreamingQueryException) as error:
        return error
    return None


@long
def test_a_restart_on_a_corrupted_bucket_fails_or_is_right(
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
        what = corrupt(objects, draw)
        is_sound = is_verified(objects, server)
        trial_name = f"trial {trial} of seed {SEED}: {what}"
        query.counts.clear()
        error = refusal(query, objects)
        if error is not None:
            assert not is_sound, (
                f"{trial_name}: verify found no problem, and the restart failed with {error}"
            )
            outcomes["refused, and named by verify"] += 1
        else:
            assert query.counts == expected, trial_name
            outcomes["right, sound" if is_sound else "right, and named by verify"] += 1
    show(f"seed {SEED}, {TRIALS} trials: {dict(outcomes)}")
    assert outcomes["refused, and named by verify"] > 0
