"""State whose frames are larger than the pieces in which they are written and read."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cleancut import Checkpoint
from tests.support.padded import padded
from tests.support.sessions import with_cuts
from tests.support.tiers import long

pytestmark = pytest.mark.spark

KEYS = 12_000
PIECE_BYTES = 8 << 20


@long
def test_a_restart_reads_a_large_frame_in_pieces(
    spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    session = with_cuts(spark, 1)
    source, location = tmp_path / "source", tmp_path / "checkpoint"
    source.mkdir()

    def run(file: int, keys: range) -> dict[str, str]:
        lines = "\n".join(json.dumps({"k": k}) for k in keys)
        (source / f"{file}.json").write_text(lines)
        query = (
            padded(session.readStream.schema("k long").json(str(source)))
            .writeStream.format("noop")
            .outputMode("update")
            .option("checkpointLocation", str(location))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        progress = query.lastProgress
        assert progress is not None
        return dict(progress.stateOperators[0].customMetrics)

    run(0, range(KEYS))
    (frame,) = Checkpoint(str(location)).frames(0, 0)
    assert frame.file_bytes > PIECE_BYTES
    metrics = run(1, range(0, KEYS, 100))
    show(f"a frame of {frame.file_bytes} bytes, downloaded in {metrics['cleancutDownloadMs']} ms")
    checkpoint = Checkpoint(str(location))
    assert checkpoint.verify().problems == ()
    state = {row["key"]["k"]: row["value"] for row in checkpoint.state(0).to_pylist()}
    batch = padded(spark.read.schema("k long").json(str(source))).collect()
    assert len(batch) == KEYS
    assert {k: (value["count"], value["first"]) for k, value in state.items()} == {
        row["k"]: (row["c"], row["padding"]) for row in batch
    }
