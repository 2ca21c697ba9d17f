"""Random damage to the objects of a checkpoint in a bucket, Spark's own among them.

Each object keeps what the client has written beside its bytes, as it does where a disk flips a bit
or somebody copies one object over another.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from cleancut import Checkpoint, RequestError
from tests.support.s3_servers import S3Server, s3proxy
from tests.support.seeds import chaos_runs, hunting
from tests.support.sink_places import credentials

pytestmark = [pytest.mark.spark, pytest.mark.chaos]

SEED = hunting(24)
TRIALS = 6 * chaos_runs()
CONF = "spark.sql.streaming.stateStore.cleancut"
KEYS = 60
ROWS = 300


@pytest.fixture
def server(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[S3Server]:
    with s3proxy(tmp_path) as started, credentials(spark):
        for name, value in started.environment.items():
            monkeypatch.setenv(name, value)
        yield started


@dataclass
class Bucket:
    """Objects below prefixes of a server's bucket, as whoever damages them sees them."""

    server: S3Server

    def __post_init__(self) -> None:
        self.client: Any = boto3.client("s3", endpoint_url=self.server.endpoint)
        self.name = self.server.BUCKET

    def objects(self, prefix: str) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.name, Prefix=f"{prefix}/"
        )
        found = [of["Key"] for page in pages for of in page.get("Contents", [])]
        return [key.removeprefix(f"{prefix}/") for key in found]

    def copy(self, source: str, target: str) -> None:
        for name in self.objects(source):
            self._copy(f"{source}/{name}", f"{target}/{name}")

    def _copy(self, source: str, target: str) -> None:
        place = {"Bucket": self.name, "Key": source}
        self.client.copy_object(Bucket=self.name, Key=target, CopySource=place)

    def flip(self, key: str, draw: random.Random) -> None:
        found = self.client.get_object(Bucket=self.name, Key=key)
        body = bytearray(found["Body"].read())
        if body:
            body[draw.randrange(len(body))] ^= 1 << draw.randrange(8)
        self._put(key, bytes(body), found["Metadata"])

    def cut(self, key: str, draw: random.Random) -> None:
        found = self.client.get_object(Bucket=self.name, Key=key)
        body = found["Body"].read()
        self._put(key, body[: draw.randrange(len(body))] if body else b"", found["Metadata"])

    def _put(self, key: str, body: bytes, metadata: dict[str, str]) -> None:
        self.client.put_object(Bucket=self.name, Key=key, Body=body, Metadata=metadata)

    def exchange(self, one: str, other: str) -> None:
        self._copy(one, f"{one}.kept")
        self._copy(other, one)
        self._copy(f"{one}.kept", other)
        self.remove(f"{one}.kept")

    def remove(self, key: str) -> None:
        self.client.delete_object(Bucket=self.name, Key=key)


@dataclass
class Query:
    """A count by key, of files of which each is an epoch."""

    spark: SparkSession
    server: S3Server
    source: Path
    files: int = 0
    counts: dict[int, int] = field(default_factory=dict)

    def add(self) -> None:
        self.source.mkdir(exist_ok=True)
        rows = "\n".join(f'{{"k": {(self.files * 37 + i) % KEYS}}}' for i in range(ROWS))
        (self.source / f"{self.files:04d}.json").write_text(rows, encoding="utf-8")
        self.files += 1

    def location(self, prefix: str) -> str:
        return f"s3://{self.server.BUCKET}/{prefix}"

    def run(self, prefix: str) -> None:
        session = self.spark.newSession()
        session.conf.set(f"{CONF}.endpoint", self.server.endpoint)
        session.conf.set(f"{CONF}.region", "us-east-1")
        reader = session.readStream.schema("k long").option("maxFilesPerTrigger", 1)
        counted = reader.json(str(self.source)).groupBy("k").count()
        writer = counted.writeStream.foreachBatch(self._take).outputMode("update")
        writer = writer.option("checkpointLocation", self.location(prefix))
        writer.trigger(availableNow=True).start().awaitTermination()

    def checkpoint(self, prefix: str) -> Checkpoint:
        return Checkpoint(self.location(prefix), endpoint=self.server.endpoint)

    def _take(self, rows: DataFrame, _: int) -> None:
        self.counts |= {row["k"]: row["count"] for row in rows.collect()}


def kind(name: str) -> str:
    """What an object is, by the directory that it lies in."""
    own = name.removeprefix("cleancut/")
    parts = own.split("/")
    return parts[0] if own == name or len(parts) > 1 else "notes"


def harm(bucket: Bucket, prefix: str, draw: random.Random) -> str:
    """Damages objects of a kind that is drawn first, so that few of them are met as often."""
    names = bucket.objects(prefix)
    of = draw.choice(sorted({kind(name) for name in names}))
    chosen = sorted(name for name in names if kind(name) == of)
    victim = draw.choice(chosen)
    others = [name for name in chosen if name != victim]
    how = draw.choice(["flip", "cut", "remove", *(["exchange"] * 3 if others else [])])
    key = f"{prefix}/{victim}"
    if how == "flip":
        bucket.flip(key, draw)
    elif how == "cut":
        bucket.cut(key, draw)
    elif how == "remove":
        bucket.remove(key)
    else:
        other = draw.choice(others)
        bucket.exchange(key, f"{prefix}/{other}")
        return f"{how} {victim} and {other}"
    return f"{how} {victim}"


def found_sound(query: Query, prefix: str) -> bool:
    """What verify says; it refuses to look at what another release may have written."""
    try:
        return query.checkpoint(prefix).verify().ok
    except RequestError:
        return False


def refusal(query: Query, prefix: str) -> Exception | None:
    """What a restart ends with, at its start or later, unless it takes all that there is."""
    try:
        query.run(prefix)
    except (Py4JJavaError, StreamingQueryException) as error:
        return error
    return None


def test_a_restart_on_a_damaged_bucket_fails_or_is_right(
    server: S3Server, spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    query, bucket = Query(spark, server, tmp_path / "source"), Bucket(server)
    for _ in range(4):
        query.add()
    query.run("intact")
    query.add()
    expected = dict.fromkeys(range(KEYS), query.files * ROWS // KEYS)
    outcomes = Counter[str]()
    for trial in range(TRIALS):
        draw, prefix = random.Random(f"{SEED} {trial}"), f"trial-{trial}"
        bucket.copy("intact", prefix)
        what = harm(bucket, prefix, draw)
        is_sound = found_sound(query, prefix)
        told = f"trial {trial} of seed {SEED}: {what}"
        query.counts.clear()
        error = refusal(query, prefix)
        if error is not None:
            assert not is_sound, f"{told}: verify says sound, and the restart says {error}"
            outcomes["refused, and named by verify"] += 1
        else:
            assert query.counts == expected, told
            outcomes["right, sound" if is_sound else "right, and named by verify"] += 1
    show(f"seed {SEED}, {TRIALS} trials: {dict(outcomes)}")
    assert outcomes["refused, and named by verify"] > 0
