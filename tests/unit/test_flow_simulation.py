"""A few simulated dataflows, and planted defects; `make sim` runs more."""

import pytest

from tests.sim.dataflow import found_after, simulate
from tests.sim.defects import DEFECTS

RUNS = 40
# The first seed of the search for each defect, so that few runs find it; changes of the simulation
# move these seeds.
FIRST = {"no_lowering": 60, "acts_of_channels_ignored": 5210}
LIMIT = 200


def test_every_visible_vector_is_consistent() -> None:
    made = [simulate(seed) for seed in range(5075, 5075 + RUNS)]
    assert sum(run.vectors for run in made) > RUNS
    assert sum(run.invariants.checked for run in made) > RUNS
    # Each planned fault has happened.
    log = [line.split()[-1] for run in made for line in run.schedule.log]
    assert {"lost", "unheard", "stuck"} <= set(log)
    log_text = "\n".join(line for run in made for line in run.schedule.log)
    assert "dies before a request" in log_text
    assert "dies after a request" in log_text
    assert "was rolled back to" in log_text
    assert "CLEANCUT_DATAFLOW_FENCED" in log_text


def test_a_seed_gives_the_same_run() -> None:
    assert simulate(17).schedule.log == simulate(17).schedule.log


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found(name: str) -> None:
    assert len(DEFECTS) >= 5
    assert found_after(DEFECTS[name], FIRST.get(name, 1), LIMIT) is not None
