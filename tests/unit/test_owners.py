"""The runs that own a query, by their records."""

import json
from typing import Any

import pytest

from cleancut import Checkpoint
from cleancut._cli import main as _cli
from tests.unit.cut_files import CutFiles

STARTED_MS = 1_790_000_000_000


def write_owner(cuts: CutFiles, generation: int, **fields: Any) -> None:
    """Writes the record of a run."""
    note = {"generation": generation, "runId": f"run-{generation}", "host": f"host-{generation}"}
    note |= {"startedMs": STARTED_MS + generation, "address": f"10.0.0.{generation}:7078"}
    cuts.write(f"owners/{generation:020d}.json", json.dumps(note | fields).encode())


def states(cuts: CutFiles) -> list[str]:
    return [owner.state for owner in Checkpoint(cuts.location).owners()]


def test_the_owner_of_a_query_is_its_last_run(four_cuts: CutFiles) -> None:
    assert Checkpoint(four_cuts.location).owners() == []
    write_owner(four_cuts, 1)
    four_cuts.write(f"owners/{1:020d}.ended", b"{}")
    write_owner(four_cuts, 2)
    write_owner(four_cuts, 3)
    assert states(four_cuts) == ["ended", "superseded", "running"]
    *_, owner = Checkpoint(four_cuts.location).owners()
    assert (owner.generation, owner.host, owner.address) == (3, "host-3", "10.0.0.3:7078")
    assert owner.run_id == "run-3"
    assert owner.started is not None
    assert owner.started.timestamp() * 1000 == STARTED_MS + 3
    four_cuts.write(f"owners/{3:020d}.ended", b"{}")
    assert states(four_cuts) == ["ended", "superseded", "ended"]


def test_a_run_that_waits_does_not_own_the_query_yet(four_cuts: CutFiles) -> None:
    write_owner(four_cuts, 1)
    write_owner(four_cuts, 2, waitsFor=1)
    assert states(four_cuts) == ["running", "waiting"]
    four_cuts.write(f"owners/{2:020d}.took", b"{}")
    assert states(four_cuts) == ["superseded", "running"]
    # A third run takes the query from both.
    write_owner(four_cuts, 3, waitsFor=2)
    write_owner(four_cuts, 4)
    assert states(four_cuts) == ["superseded", "superseded", "superseded", "running"]


def test_a_fence_and_an_unreadable_record_are_listed(four_cuts: CutFiles) -> None:
    write_owner(four_cuts, 1)
    four_cuts.write(f"owners/{2:020d}.json", b"[")
    Checkpoint(four_cuts.location).fence("failover")
    assert states(four_cuts) == ["superseded", "unreadable", "fence"]
    *_, fence = Checkpoint(four_cuts.location).owners()
    assert fence.host == "failover"


def test_the_command_lists_the_last_owners(
    four_cuts: CutFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    for generation in range(1, 13):
        write_owner(four_cuts, generation)
    assert [owner.generation for owner in Checkpoint(four_cuts.location).owners(last=2)] == [11, 12]
    assert _cli.main(["ls", str(four_cuts.location), "--owners", "--json"]) == _cli.OK
    listed = json.loads(capsys.readouterr().out)
    assert [owner["generation"] for owner in listed] == list(range(3, 13))
    assert listed[-1]["state"] == "running"
