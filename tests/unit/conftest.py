"""Fixtures of the tests that need no JVM."""

from pathlib import Path

import pytest

from demo.job import Job
from tests.unit.checkpoint_files import CheckpointFiles
from tests.vectors.frame_cases import put, remove


@pytest.fixture
def files(tmp_path: Path) -> CheckpointFiles:
    """An empty checkpoint."""
    return CheckpointFiles(tmp_path / "checkpoint")


@pytest.fixture
def two_partitions(files: CheckpointFiles) -> CheckpointFiles:
    """Partition 0 has versions 1 to 3, partition 1 only 1 and 2."""
    files.delta(1, [put(1, "ada", 3, 1.5), put(2, "grace", 1, 0.5)], 2)
    files.delta(2, [put(1, "ada", 4, 2.5), remove(2, "grace")], 1)
    files.delta(3, [put(3, "lin", 1, 0.25)], 2)
    files.delta(1, [], 0, partition=1)
    files.delta(2, [put(4, "emmy", 2, 8.0)], 1, partition=1)
    return files


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A small demo whose work directory is not there yet."""
    return Job(tmp_path / "demo", rows=1000, provider="hdfs", master="local[1]", kills=0, seed=0)
