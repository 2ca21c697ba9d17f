"""A dataflow of four queries, a diamond and a loop; the kill tests of dataflows kill them.

    orders -> left  -> total -> again -> left
           -> right ->

`python -m tests.support.flow_member <at> <endpoint> <member>` runs one query in a separate driver,
or the `coordinator` of the cuts, from its last state until the stop file of `<at>` exists.
"""

import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of PySpark uses
from pyspark.sql.streaming.query import StreamingQuery

from cleancut import Channel, Checkpoint, Dataflow
from cleancut.sinks import EpochFiles, EpochSink, FanOut, PublishedEpoch, fan_out
from tests.support.kills import die_with_the_test
from tests.support.s3_servers import settings_at
from tests.support.sessions import builder, take_out_defaults

SCHEMA = "id BIGINT, v BIGINT, hops BIGINT, way STRING"
MEMBERS = ("orders", "left", "right", "total")
COORDINATOR = "coordinator"
CHANNELS = ("orders", "left", "right", "again")
MOST_HOPS = 4
_KEYS = "spark.sql.streaming.stateStore.cleancut."
_POLL_S = 0.1
# A row of the output.
Row = tuple[int, int, int, str]


@dataclass(frozen=True)
class Place:
    """The location of a dataflow.

    Attributes:
        work: a local directory, for the input and the stop file.
        at: a directory or a prefix in a bucket, for all other files.
        endpoint: of the bucket; empty for a directory.
    """

    work: Path
    at: str
    endpoint: str = ""

    @property
    def settings(self) -> Mapping[str, str]:
        settings = {f"{_KEYS}cuts": "true", f"{_KEYS}mode": "unaligned"}
        settings |= {"spark.sql.shuffle.partitions": "2"}
        # So that members continue from old epochs.
        settings |= {"spark.sql.streaming.minBatchesToRetain": "1000"}
        if self.endpoint:
            settings |= settings_at(self.endpoint)
        return settings

    @property
    def flow(self) -> Dataflow:
        if not self.endpoint:
            return Dataflow(f"{self.at}/flow")
        return Dataflow(f"{self.at}/flow", endpoint=self.endpoint, region="us-east-1")

    def opened(self, checkpoint: str) -> Checkpoint:
        if not self.endpoint:
            return Checkpoint(checkpoint)
        return Checkpoint(checkpoint, endpoint=self.endpoint, region="us-east-1")

    def epochs(self, channel: str) -> list[PublishedEpoch]:
        """Returns the epochs of a channel."""
        return [*self.channel(channel).epochs(endpoint=self.endpoint or None)]

    def checkpoint(self, member: str) -> str:
        return f"{self.at}/checkpoints/{member}"

    def channel(self, name: str) -> Channel:
        return Channel(f"{self.at}/channels/{name}", schema=SCHEMA)

    @property
    def results(self) -> EpochFiles:
        return EpochFiles(f"{self.at}/results")

    def session(self, spark: SparkSession) -> SparkSession:
        session = spark.newSession()
        for key, value in self.settings.items():
            session.conf.set(key, value)
        return session

    def start(self, spark: SparkSession, member: str, every_s: int = 0) -> StreamingQuery:
        """Starts a query from its last state; epochs of orders have this minimum interval."""
        rows, sink = _query(self, self.session(spark), member)
        writer = rows.writeStream.queryName(member).foreachBatch(sink)
        if member == "orders":
            writer = writer.trigger(processingTime=f"{every_s} seconds")
        return writer.option("checkpointLocation", self.checkpoint(member)).start()

    def output(self, spark: SparkSession, until: int | None = None) -> Counter[Row]:
        """Returns the rows that the dataflow has emitted, up to an epoch of `total`."""
        session = self.session(spark)
        epochs = [published.epoch for published in self.results.epochs(session=session)]
        chosen = [epoch for epoch in epochs if until is None or epoch <= until]
        if not chosen:
            return Counter()
        rows = self.results.read(session, chosen).collect()
        return Counter((row["id"], row["v"], row["hops"], row["way"]) for row in rows)


def _query(
    place: Place, session: SparkSession, member: str
) -> tuple[DataFrame, EpochSink | FanOut]:
    def stream(name: str) -> DataFrame:
        return place.channel(name).stream(session)

    if member == "orders":
        files = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return files.json(str(place.work / "in")), place.channel("orders")
    if member == "left":
        again = stream("again").where("hops > 0 AND way = 'left'")
        again = again.withColumn("v", F.col("v") + 1).withColumn("hops", F.col("hops") - 1)
        rows = stream("orders").unionByName(again).withColumn("way", F.lit("left"))
        return rows.dropDuplicates(["id", "hops"]), place.channel("left")
    if member == "right":
        rows = stream("orders").withColumn("way", F.lit("right")).withColumn("hops", F.lit(0))
        return rows.withColumn("hops", F.col("hops").cast("long")), place.channel("right")
    rows = stream("left").unionByName(stream("right")).dropDuplicates(["id", "hops", "way"])
    return rows, fan_out(place.results, place.channel("again"))


def write_input(work: Path, seed: int, files: int, rows: int) -> None:
    """Writes orders, some of which go through the loop."""
    (work / "in").mkdir(parents=True)
    draw = random.Random(seed)
    for number in range(files):
        orders = [
            {"id": number * rows + n, "v": draw.randrange(1000), "hops": draw.randrange(MOST_HOPS)}
            for n in range(rows)
        ]
        path = work / "in" / f"{number:05}.json"
        path.write_text("\n".join(json.dumps(order | {"way": "order"}) for order in orders))
        os.utime(path, (number, number))


def expected(work: Path) -> Counter[Row]:
    """Returns the result of a batch over the same input."""
    rows: Counter[Row] = Counter()
    for path in (work / "in").iterdir():
        for order in map(json.loads, path.read_text().splitlines()):
            rows[order["id"], order["v"], 0, "right"] += 1
            for hop in range(order["hops"] + 1):
                rows[order["id"], order["v"] + hop, order["hops"] - hop, "left"] += 1
    return rows


@contextmanager
def running(place: Place, spark: SparkSession, every_s: int = 0) -> Iterator[list[StreamingQuery]]:
    """Runs all four queries in one driver."""
    queries = [place.start(spark, member, every_s) for member in MEMBERS]
    try:
        yield queries
    finally:
        for query in queries:
            query.stop()


def main(place: Place, member: str) -> None:
    """Runs one member until the stop file exists."""
    stop = place.work / "stop"
    if member == COORDINATOR:
        with place.flow.run(interval=2.0, timeout=5.0):
            while not stop.exists():
                time.sleep(_POLL_S)
        return
    spark = builder("local[2]").getOrCreate()
    take_out_defaults(spark)
    query = place.start(spark, member)
    with place.flow.participate(query, member, every=0.5):
        while not stop.exists():
            if not query.isActive:
                query.awaitTermination()
                raise AssertionError("a query without an end has ended")
            time.sleep(_POLL_S)
        query.stop()
    spark.stop()


if __name__ == "__main__":
    die_with_the_test()
    main(Place(Path(sys.argv[1]), sys.argv[2], sys.argv[3]), sys.argv[4])
