"""The inputs of Python's generators, without their runs."""

from tests.input_coverage.log import InputLog
from tests.support import (
    flow_kills,
    in_flight_queries,
    operation_kills,
    python_inputs,
    random_damages,
    sink_campaign,
)
from tests.support.python_queries import PythonQuery
from tests.support.sink_targets import LOCAL, SERVERS

# `make chaos` and `make campaign-kills` have as many, each from a random seed.
_KILLED_QUERIES = 20
_SINK_CAMPAIGNS, _FAULTS = 10, 20
_DAMAGES, _FLOW_KILLS = 100, 50


def generate(log: InputLog) -> None:
    """Writes the inputs of all generators."""
    for seed in range(python_inputs.SELECTIONS.size):
        log.add(python_inputs.SPACE, seed, PythonQuery.draw(seed).covered())
    for seed in range(_KILLED_QUERIES):
        log.add(in_flight_queries.KILL_SPACE, seed, in_flight_queries.covered_by(seed))
    for seed in range(_SINK_CAMPAIGNS):
        for sinks, has_servers in ((LOCAL, False), (SERVERS, True)):
            faults = sink_campaign.plan(seed, _FAULTS, sinks, has_servers=has_servers)
            for number, inputs in enumerate(sink_campaign.covered_by(faults)):
                log.add(sink_campaign.FAULT_SPACE, f"{seed}-{sinks[0]}-{number}", inputs)
    for damages in (random_damages.FILES, random_damages.OBJECTS):
        for trial in range(_DAMAGES):
            covered = random_damages.RandomDamage(damages, 0, trial).covered()
            log.add(damages.space, trial, covered)
    for number in range(operation_kills.CYCLE):
        log.add(operation_kills.SPACE, number, operation_kills.covered_by(0, number))
    for place in flow_kills.PLACES:
        kills = flow_kills.order_of_kills(0, _FLOW_KILLS)
        for number, inputs in enumerate(flow_kills.covered_by(place, kills)):
            log.add(flow_kills.SPACE, f"{place} {number}", inputs)
