"""Fixtures of the tests that need no JVM."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from demo.job import Job
from tests.support.draws import draws
from tests.unit.checkpoint_files import CheckpointFiles
from tests.unit.cut_files import CutFiles
from tests.vectors.cut_writer import costs
from tests.vectors.frame_cases import put, remove

# The only profile: no check depends on the speed of the machine.
settings.register_profile(
    "without-time",
    max_examples=draws(200),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("without-time")


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
    """A small demo job whose work directory does not exist yet."""
    return Job(tmp_path / "demo", rows=1000, provider="hdfs", master="local[1]", kills=0, seed=0)


@pytest.fixture
def four_cuts(files: CheckpointFiles) -> CutFiles:
    """`four_epochs`; the last cut has a page of epoch 2 for partition 0 and one of epoch 0 for
    partition 1.
    """
    return four_epochs(CutFiles(files))


def four_epochs(cuts: CutFiles) -> CutFiles:
    """Epochs 0 to 3 of two partitions; partition 0 has a base of version 3.

    Only the last two cuts have costs.
    """
    ada, grace = put(1, "ada", 3, 1.5), put(2, "grace", 1, 0.5)
    more, lin, emmy = put(1, "ada", 4, 2.5), put(3, "lin", 1, 0.25), put(4, "emmy", 2, 8.0)
    cuts.commit(([ada, grace], 2), ([], 0))
    cuts.commit(([more, remove(2, "grace")], 1), ([emmy], 1))
    cuts.commit(([lin], 2), ([], 1), costs=costs())
    cuts.base(0, [more, lin])
    cuts.commit(([grace], 3), ([], 1), costs=costs())
    return cuts
