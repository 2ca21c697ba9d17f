"""State whose input is partitioned by fewer columns than its keys have is not rescaled."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import cleancut
from cleancut import RequestError
from tests.support.sessions import with_cuts

pytestmark = pytest.mark.spark

STRICT = "spark.sql.streaming.statefulOperator.useStrictDistribution"


def test_an_operation_that_assigns_rows_to_partitions_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = with_cuts(spark, 3)
    session.conf.set(STRICT, "false")
    location, source = str(tmp_path / "checkpoint"), tmp_path / "in"
    source.mkdir()
    counts: dict[tuple[int, str], int] = {}

    def take(batch: DataFrame, _: int) -> None:
        counts.update({(row.k, row.side): row.n for row in batch.collect()})

    def run(number: int, partitions: str = "auto") -> None:
        rows = [{"k": k, "side": side} for k in range(8) for side in "ab"]
        (source / f"{number}.json").write_text("\n".join(map(json.dumps, rows)))
        session.conf.set("spark.sql.streaming.stateStore.cleancut.statePartitions", partitions)
        # The partitioning by one column satisfies the operator.
        events = session.readStream.schema("k long, side string").json(str(source))
        grouped = events.repartition("k").groupBy("k", "side").agg(f.count("*").alias("n"))
        writer = grouped.writeStream.outputMode("update").option("checkpointLocation", location)
        query = writer.foreachBatch(take).trigger(availableNow=True).start()
        query.awaitTermination()

    run(0)
    refused: list[Callable[[], object]] = [
        lambda: cleancut.rescale(location, 6, session=session),
        lambda: cleancut.clone(location, str(tmp_path / "clone"), partitions=6, session=session),
        lambda: cleancut.edit(location, 0, lambda state: state, session=session),
    ]
    for plan in refused:
        with pytest.raises(RequestError, match=f"{STRICT}=false") as raised:
            plan()
        assert raised.value.error_id == "CLEANCUT_OPERATION_REFUSED"
    # A start continues with the existing partitions.
    run(1, partitions="6")
    assert set(counts.values()) == {2}
    assert len(counts) == 16
    cleancut.clone(location, str(tmp_path / "clone"), session=session).apply()
