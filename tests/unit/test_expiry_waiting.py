"""Expiry after a run that waited for the run before, which may be alive (rules T1 and X4)."""

import json
import os

import pytest

from cleancut import Checkpoint
from tests.unit.cut_files import CutFiles
from tests.vectors.frame_cases import put
from tests.vectors.segment_cases import delta_of

PAST = 30


def write_owner(cuts: CutFiles, generation: int, **waits: int) -> None:
    note = {"generation": generation, "runId": "r", "host": "h", "startedMs": 1_700_000_000_000}
    cuts.write(f"owners/{generation:020d}.json", json.dumps(note | waits).encode())


@pytest.mark.parametrize("has_taken", [False, True])
def test_no_orphan_is_deleted_unless_the_waiting_run_has_taken_the_query(
    four_cuts: CutFiles, has_taken: bool
) -> None:
    for _ in range(PAST):
        four_cuts.commit(([], 3), ([], 1))
    frame = delta_of(2, [put(7, "lost", 1, 1.0)], 1, partition=7)
    lost = four_cuts.segment(1, [frame], writer="9", number=9)[0].segment
    os.utime(four_cuts.root / lost, (1, 1))
    write_owner(four_cuts, 1)
    write_owner(four_cuts, 2, waitsFor=1)
    if has_taken:
        four_cuts.write(f"owners/{2:020d}.took", b"{}")
    Checkpoint(four_cuts.location).expire(retain_last=1).apply(fence="retired")
    # The run before is an operation, perhaps, which has read a cut that expires now.
    assert (four_cuts.root / lost).exists() is not has_taken
