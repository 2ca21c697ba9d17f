"""A query with in-flight rows that writes to Kafka, MariaDB and Redis; a test kills it.

`python -m tests.support.server_victim <master> <seed> <input> <root> <kafka> <mariadb> <redis>`
runs it to the end of its input, with random cuts, from its last state.
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame

from cleancut.sinks import Batch, EpochSink, FanOut, KafkaSink, RedisSink, SqlSink, fan_out
from tests.support.table_victim import NEWEST, files_at, run

TOPIC = "every-row"


class Records(KafkaSink):
    """Encodes each row as JSON, with its epoch."""

    def stage(self, rows: DataFrame, batch: Batch) -> str:
        return super().stage(rows.selectExpr("to_json(struct(*)) AS value"), batch)


def sinks_at(root: Path, kafka: str, mariadb: str, redis: str) -> FanOut:
    """Returns sinks for files, a topic of all rows, and the newest row of each partition."""
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
