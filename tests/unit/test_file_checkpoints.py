"""Former checkpoints of a query in the records of a directory."""

from dataclasses import replace
from typing import Any

import pytest

from cleancut.errors import FencedError, RequestError
from cleancut.sinks._core.expected import Expected
from cleancut.sinks._core.lineage import Origin
from cleancut.sinks._epoch_log.checkpoints import begin_checkpoint, check_followed
from cleancut.sinks._epoch_log.manifest import claim
from tests.unit.sink_records import BATCH, Directory, manifest

NOTHING = Expected()
MOVED = replace(BATCH, run_id="r-3", checkpoint="/moved", lineage=(Origin("/ckpt", 4, epoch=7),))


@pytest.fixture
def records() -> Any:
    made = Directory()
    claim(made, BATCH)
    return made


def test_a_run_of_a_continuing_checkpoint_fences_those_of_earlier_ones(records: Any) -> None:
    first = begin_checkpoint(records, BATCH, NOTHING)
    check_followed(records, BATCH, first)
    moved = begin_checkpoint(records, MOVED, NOTHING)
    assert begin_checkpoint(records, MOVED, NOTHING) == moved
    check_followed(records, MOVED, moved)
    with pytest.raises(FencedError, match="a run with the checkpoint /moved"):
        check_followed(records, BATCH, first)
    with pytest.raises(FencedError, match="a run with the checkpoint /moved"):
        begin_checkpoint(records, replace(BATCH, run_id="r-4"), NOTHING)


def test_an_unrelated_checkpoint_is_refused_unless_the_move_is_accepted(records: Any) -> None:
    begin_checkpoint(records, MOVED, NOTHING)
    other = replace(BATCH, checkpoint="/other")
    present = dict(records.present)
    with pytest.raises(RequestError, match="CLEANCUT_SINK_CHECKPOINT_UNKNOWN"):
        begin_checkpoint(records, other, NOTHING)
    assert records.present == present
    accepted = begin_checkpoint(records, other, Expected(moves=["/moved"]))
    assert begin_checkpoint(records, other, NOTHING) == accepted
    with pytest.raises(FencedError):
        begin_checkpoint(records, MOVED, NOTHING)


def test_epochs_that_were_published_after_a_copy_are_refused() -> None:
    records: Any = Directory(manifests=(manifest(7, "a"), manifest(8, "b")))
    claim(records, BATCH)
    with pytest.raises(RequestError, match=r"the query continued at file:/ckpt after") as refused:
        begin_checkpoint(records, replace(MOVED, epoch=9), NOTHING)
    assert refused.value.error_id == "CLEANCUT_SINK_UNDO_REFUSED"
