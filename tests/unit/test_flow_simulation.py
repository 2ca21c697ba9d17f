"""Some simulated dataflows, and defects that are planted into them; `make sim` takes more."""

import pytest

from tests.sim.dataflow import found_after, simulate
from tests.sim.defects import DEFECTS

RUNS = 40
# From which seed on each is looked for, so that few runs find it; of those from 1 on it was the
# given one. A change of the simulation moves them.
FIRST = {"no_lowering": 60, "acts_of_channels_ignored": 5210}
LIMIT = 200


def test_no_vector_that_counts_is_ever_wrong() -> None:
    made = [simulate(seed) for seed in range(5075, 5075 + RUNS)]
    assert sum(of.vectors for of in made) > RUNS
    assert sum(of.invariants.checked for of in made) > RUNS
    # All that may befall a request has done so.
    log = [line.split()[-1] for of in made for line in of.schedule.log]
    assert {"lost", "unheard", "stuck"} <= set(log)
    told = "\n".join(line for of in made for line in of.schedule.log)
    assert "dies before that" in told
    assert "dies after that" in told
    assert "went back to" in told
    assert "CLEANCUT_DATAFLOW_FENCED" in told


def test_a_seed_gives_the_same_run() -> None:
    assert simulate(17).schedule.log == simulate(17).schedule.log


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found(name: str) -> None:
    assert len(DEFECTS) >= 5
    assert found_after(DEFECTS[name], FIRST.get(name, 1), LIMIT) is not None
