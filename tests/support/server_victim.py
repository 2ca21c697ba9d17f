"""A query with rows in flight that writes to Kafka, MariaDB and Redis at once: what a test kills.

`python -m tests.support.server_victim <master> <seed> <input> <root> <kafka> <mariadb> <redis>`
runs it to the end of its input, cut at random, from wherever it was left.
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame

from cleancut.sinks import Batch, EpochSink, FanOut, KafkaSink, RedisSink, SqlSink, fan_out
from tests.support.table_victim import NEWEST, files_at, run

TOPIC = "every-row"


class Records(KafkaSink):
    """Each row as JSON, with its epoch."""

    def stage(self, rows: DataFrame, batch: Batch) -> str:
        return super().stage(rows.selectExpr("to_json(struct(*)) AS value"), batch)


def sinks_at(root: Path, kafka: str, mariadb: str, redis: str) -> FanOut:
    """Files, a topic of all rows, and the newest row of each partition in a table and in keys."""
    targets: list[EpochSink] = [
        files_at(root),
        Records(kafka, topic=TOPIC, epoch_header="epoch"),
        SqlSink(mariadb, NEWEST, keys="partition", order_by="number"),
        RedisSink(redis, key=f"{NEWEST}:{{partition}}", order_by="number"),
    ]
    return fan_out(*targets)


if __name__ == "__main__":
    master, seed, source, root = sys.argv[1:5]
    run(master, int(seed), Path(source), Path(root), sinks_at(Path(root), *sys.argv[5:8]))
