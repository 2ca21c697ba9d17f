"""`python -m tests.bench.channel`: the latency from the publication of an epoch to its reader.

A query sends one epoch at a time, and another one in the same driver passes it to a function of
`foreachBatch`. The latency is the time from the creation of the manifest until the reader has
counted the rows. For comparison, the same reader reads the output of Spark's own file sink, and
Parquet files without a query by Spark's own file source. On a directory, and in a bucket of a local
server.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from cleancut import Channel
from tests.bench import coordinated
from tests.support.s3_servers import S3Server, s3proxy
from tests.support.sessions import builder, take_out_defaults
from tests.support.sink_places import Bucket, Disk, Place, session_at

_WARM_UP = 5
_SCHEMA = "id BIGINT, note STRING"
_LIMIT_S = 60


class Counted:
    """The rows that a reader has received, and the times of their counts."""

    def __init__(self) -> None:
        self.rows = 0
        self.at_ns = 0

    def __call__(self, df: DataFrame, _: int) -> None:
        self.rows += df.count()
        self.at_ns = time.time_ns()

    def wait(self, rows: int) -> int:
        """Returns when it had this number of rows, in Unix time in ns."""
        deadline = time.monotonic() + _LIMIT_S
        while self.rows < rows:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.rows} of {rows} rows")
            time.sleep(0.001)
        return self.at_ns


@contextmanager
def _reading(stream: DataFrame, checkpoint: Path) -> Iterator[Counted]:
    counted = Counted()
    writer = stream.writeStream.foreachBatch(counted)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        yield counted
    finally:
        query.stop()


def by_channel(spark: SparkSession, home: Path, place: Place, epochs: int, rows: int) -> list[int]:
    """Returns nanoseconds of each epoch, from its manifest to the reader's count."""
    session = session_at(spark, place)
    channel = Channel(place.location, schema=_SCHEMA)
    stream = channel.stream(session)

    def published(_: int) -> int:
        newest = channel.epochs(endpoint=_endpoint(place))[-1]
        return int(newest.published.timestamp() * 1e9)

    def send(out: DataFrame) -> DataStreamWriter:
        return out.writeStream.foreachBatch(channel)

    return _sent(session, home, stream, send, published, epochs, rows)


def by_sink(spark: SparkSession, home: Path, epochs: int, rows: int) -> list[int]:
    """Returns the same for Spark's own file sink, from its entry of an epoch."""
    sink = home / "sink"
    sink.mkdir(parents=True)
    stream = spark.readStream.schema(_SCHEMA).parquet(str(sink))

    def published(epoch: int) -> int:
        # Each tenth file also contains the entries of the others before it.
        (entry,) = (sink / "_spark_metadata").glob(f"{epoch}{'.compact' * (epoch % 10 == 9)}")
        return entry.stat().st_mtime_ns

    def send(out: DataFrame) -> DataStreamWriter:
        return out.writeStream.format("parquet").option("path", str(sink))

    return _sent(spark, home, stream, send, published, epochs, rows)


def _sent(
    session: SparkSession,
    home: Path,
    stream: DataFrame,
    send: Callable[[DataFrame], DataStreamWriter],
    published: Callable[[int], int],
    epochs: int,
    rows: int,
) -> list[int]:
    """Sends epochs one at a time, each after the previous one was read."""
    (home / "in").mkdir(parents=True)
    source = session.readStream.schema("n BIGINT").json(str(home / "in"))
    out = source.selectExpr(f"explode(sequence(n * {rows}, n * {rows} + {rows - 1})) as id")
    out = out.selectExpr("id", "concat('order ', cast(id as string)) as note").coalesce(1)
    latencies = []
    with _reading(stream, home / "reader") as counted:
        query = send(out).option("checkpointLocation", str(home / "sender")).start()
        try:
            for n in range(_WARM_UP + epochs):
                path = home / "in" / f"{n}.json"
                path.with_suffix(".tmp").write_text(f'{{"n": {n}}}')
                path.with_suffix(".tmp").rename(path)
                latencies.append(counted.wait((n + 1) * rows) - published(n))
        finally:
            query.stop()
    return latencies[_WARM_UP:]


def by_files(spark: SparkSession, home: Path, epochs: int, rows: int) -> list[int]:
    """Returns the same for files that Spark's own source finds, from their creation."""
    made = home / "made"
    for n in range(_WARM_UP + epochs):
        frame = spark.range(n * rows, (n + 1) * rows).coalesce(1)
        frame = frame.selectExpr("id", "concat('order ', cast(id as string)) as note")
        frame.write.parquet(str(made / str(n)))
    (home / "files").mkdir()
    stream = spark.readStream.schema(_SCHEMA).parquet(str(home / "files"))
    latencies = []
    with _reading(stream, home / "reader-of-files") as counted:
        for n in range(_WARM_UP + epochs):
            part = next((made / str(n)).glob("part-*.parquet"))
            at_ns = time.time_ns()
            os.link(part, home / "files" / f"{n}.parquet")
            latencies.append(counted.wait((n + 1) * rows) - at_ns)
    return latencies[_WARM_UP:]


def _endpoint(place: Place) -> str | None:
    return place.settings.get("spark.sql.streaming.stateStore.cleancut.s3.endpoint")


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument(
        "--coordinator",
        type=int,
        metavar="PAIRS",
        help="what a coordinator costs instead: so many windows with one, and as many without",
    )
    parser.add_argument("--seconds", type=int, default=20, help="the length of such a window")
    options = parser.parse_args()
    os.environ |= {"AWS_ACCESS_KEY_ID": "access", "AWS_SECRET_ACCESS_KEY": "secret"}
    os.environ["AWS_REGION"] = "us-east-1"
    spark = builder("local[2]", coordinated.SETTINGS).getOrCreate()
    take_out_defaults(spark)
    if options.coordinator is not None:
        coordinated.run(spark, options.coordinator, options.seconds, options.rows)
        spark.stop()
        return
    print("| what is read | epochs | rows of each | p50 | p90 | max |")
    print("|---|---|---|---|---|---|")
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server: S3Server = stack.enter_context(s3proxy(home / "s3"))
        ways: dict[str, Callable[[], list[int]]] = {
            "a channel on a disk": lambda: by_channel(
                spark, home / "disk", Disk(home / "disk/channel"), options.epochs, options.rows
            ),
            "a channel in a bucket": lambda: by_channel(
                spark,
                home / "bucket",
                Bucket(server.endpoint, "channel"),
                options.epochs,
                options.rows,
            ),
            "Spark's own sink of files": lambda: by_sink(
                spark.newSession(), home / "sparks", options.epochs, options.rows
            ),
            "files of no query, by Spark's own source": lambda: by_files(
                spark.newSession(), home, options.epochs, options.rows
            ),
        }
        for name, way in ways.items():
            ms = sorted(ns / 1e6 for ns in way())
            p90 = statistics.quantiles(ms, n=10)[-1]
            figures = " | ".join(
                f"{figure:.0f} ms" for figure in (statistics.median(ms), p90, ms[-1])
            )
            print(f"| {name} | {options.epochs} | {options.rows} | {figures} |", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
