"""`python -m tests.bench.sinks`: rows per second of each sink and of Spark's own writers.

The same epochs of the same stateless query go to each target in turn, by one sink and by another;
those of a turn start with an empty target. What counts is the time of the function of
`foreachBatch`, with what it takes to compute the rows. It fails if a target has other rows in the
end than were written.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import cleancut
from cleancut.sinks import Batch, DeltaSink, EpochFiles, KafkaSink, PostgresSink
from demo.postgres_server import PostgresServer, postgres_server
from tests.support.kafka_server import KafkaBroker, kafka_broker
from tests.support.sessions import DELTA_JARS, DELTA_SETTINGS

# The first epoch of each run warms up the JVM and a connection.
_WARM_UP_EPOCHS = 1
_CACHE = Path(__file__).parents[2] / ".cache"
# Downloaded by `make bench-sinks`.
_JARS = ("postgres-jdbc.classpath", "spark-kafka.classpath")
_KAFKA_PARTITIONS = 2
_COLUMNS = (
    "id",
    "id % 1000 as shop",
    "cast(id * 0.37 as decimal(12, 2)) as amount",
    "timestamp_millis(1700000000000 + id) as at",
    "concat('order ', cast(id as string)) as note",
)

Write = Callable[[DataFrame, int], None]


@dataclass(frozen=True)
class Way:
    """A way to write an epoch.

    Attributes:
        target: what it writes to, whose ways are compared.
        name: of the way; the first of a target is what others are compared with.
        write: makes the function of `foreachBatch`, for a target with a name.
        count: how many rows the target has.
    """

    target: str
    name: str
    write: Callable[[str], Write]
    count: Callable[[str], int]


def files(spark: SparkSession, home: Path) -> list[Way]:
    """Parquet on a local disk."""

    def plain(name: str) -> Write:
        return lambda df, epoch: df.write.mode("append").parquet(str(home / name))

    return [
        Way(
            "parquet", "df.write", plain, lambda name: spark.read.parquet(str(home / name)).count()
        ),
        Way(
            "parquet",
            "EpochFiles",
            lambda name: EpochFiles(home / name),
            lambda name: EpochFiles(home / name).read(spark).count(),
        ),
    ]


def tables(server: PostgresServer) -> list[Way]:
    """Tables of PostgreSQL."""
    url = f"jdbc:postgresql://127.0.0.1:{server.port}/postgres"

    def jdbc(options: Mapping[str, str]) -> Callable[[str], Write]:
        def write(name: str) -> Write:
            def written(df: DataFrame, epoch: int) -> None:
                to = df.write.format("jdbc").mode("append").option("url", url)
                to = to.option("user", server.user).option("password", server.password)
                to.options(dbtable=name, driver="org.postgresql.Driver", **options).save()

            return written

        return write

    def count(name: str) -> int:
        return int(server.rows(f"SELECT count(*) FROM {name}")[0][0])

    def by_key(name: str) -> Write:
        return PostgresSink(server.dsn, name, keys="id")

    return [
        Way("postgres", "df.write.jdbc", jdbc({}), count),
        # An option of the driver: one statement with many rows instead of many statements.
        Way("postgres", "df.write.jdbc, rewritten", jdbc({"reWriteBatchedInserts": "true"}), count),
        Way("postgres", "PostgresSink", lambda name: PostgresSink(server.dsn, name), count),
        Way("postgres", "PostgresSink, keys", by_key, count),
    ]


def topics(spark: SparkSession, broker: KafkaBroker, home: Path) -> list[Way]:
    """Topics of Kafka, of JSON."""
    options = {"kafka.bootstrap.servers": broker.servers}

    def records(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("string(id) AS key", "to_json(struct(*)) AS value")

    def plain(name: str) -> Write:
        broker.make_topic(name, _KAFKA_PARTITIONS)

        def written(df: DataFrame, epoch: int) -> None:
            records(df).write.format("kafka").options(topic=name, **options).save()

        return written

    class Records(KafkaSink):
        def stage(self, rows: DataFrame, batch: Batch) -> str:
            return super().stage(records(rows), batch)

    def ours(name: str) -> Write:
        broker.make_topic(name, _KAFKA_PARTITIONS)
        return Records(broker.servers, topic=name)

    def count(name: str) -> int:
        committed = {"kafka.isolation.level": "read_committed", "subscribe": name}
        return spark.read.format("kafka").options(**options, **committed).load().count()

    ways = {"df.write": plain, "KafkaSink": ours}
    return [Way("kafka", name, write, count) for name, write in ways.items()]


def lakes(spark: SparkSession, home: Path) -> list[Way]:
    """Tables of Delta Lake on a local disk, on the line of Spark that has a connector."""

    def connector(name: str) -> Write:
        def written(df: DataFrame, epoch: int) -> None:
            # The connector skips an epoch that it has recorded under this name.
            options = {"txnAppId": name, "txnVersion": str(epoch)}
            df.write.format("delta").mode("append").options(**options).save(str(home / name))

        return written

    def count(name: str) -> int:
        return spark.read.format("delta").load(str(home / name)).count()

    return [
        Way("delta", "df.write, txnVersion", connector, count),
        Way("delta", "DeltaSink", lambda name: DeltaSink(home / name), count),
    ]


def timed(spark: SparkSession, way: Way, target: str, source: Path, home: Path) -> list[float]:
    """Returns the seconds of each epoch."""
    write, seconds = way.write(target), list[float]()

    def measured(df: DataFrame, epoch: int) -> None:
        began = time.perf_counter()
        write(df, epoch)
        seconds.append(time.perf_counter() - began)

    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
    query = (
        rows.parquet(str(source))
        .repartition(spark.sparkContext.defaultParallelism)
        .selectExpr(*_COLUMNS)
        .writeStream.foreachBatch(measured)
        .option("checkpointLocation", str(home / f"checkpoint-{target}"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return seconds


@contextmanager
def ways(spark: SparkSession, home: Path) -> Iterator[list[Way]]:
    """Returns all ways that this session supports."""
    if DELTA_JARS:
        yield lakes(spark, home)
        return
    with postgres_server() as server, kafka_broker() as broker:
        yield [*files(spark, home), *tables(server), *topics(spark, broker, home)]


def session(master: str) -> SparkSession:
    """Starts Spark with the drivers of all ways."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    jars = ":".join((_CACHE / name).read_text().strip() for name in _JARS)
    settings = DELTA_SETTINGS if DELTA_JARS else {"spark.jars": jars.replace(":", ",")}
    builder = (
        SparkSession.Builder()
        .master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
    )
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = cleancut.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def run(options: argparse.Namespace, home: Path) -> list[str]:
    """Measures all ways; returns the lines of a table."""
    spark = session(options.master)
    source, epochs = home / "source", options.epochs + _WARM_UP_EPOCHS
    for epoch in range(epochs):
        first = epoch * options.rows
        span = spark.range(first, first + options.rows, 1, 1)
        span.write.mode("append").parquet(str(source))
    seconds_by_sink: dict[tuple[str, str], list[float]] = {}
    with ways(spark, home) as all_of_them:
        chosen = [way for way in all_of_them if not options.target or way.target in options.target]
        for turn in range(options.turns):
            for number, way in enumerate(chosen):
                target = f"target_{turn}_{number}"
                seconds = timed(spark, way, target, source, home)
                rows = way.count(target)
                if rows != options.rows * epochs:
                    raise SystemExit(f"{way.name} has {rows} rows of {options.rows * epochs}")
                seconds_by_sink.setdefault((way.target, way.name), []).extend(
                    seconds[_WARM_UP_EPOCHS:]
                )
                print(f"{way.name}\t{turn}\t{statistics.median(seconds):.3f} s", flush=True)
    spark.stop()
    return rendered(seconds_by_sink, options.rows)


def rendered(seconds_by_sink: Mapping[tuple[str, str], Sequence[float]], rows: int) -> list[str]:
    """Renders a table with a line per way."""
    lines = ["| target | written by | rows a second | of the first |", "| --- | --- | --- | --- |"]
    first: dict[str, float] = {}
    for (target, name), seconds in seconds_by_sink.items():
        rate = rows / statistics.median(seconds)
        first.setdefault(target, rate)
        lines.append(f"| {target} | {name} | {rate:,.0f} | {rate / first[target]:.2f} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs it and prints the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sinks")
    parser.add_argument("--rows", type=int, default=500_000, help="of an epoch")
    parser.add_argument("--epochs", type=int, default=3, help="of each run, after the first")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--target", action="append", help="one of them; may be repeated")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="cleancut-bench-") as home:
        lines = run(options, Path(home))
    print("\n".join(["", *lines]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
