"""Sinks next to polling readers, while drivers are killed or paused and servers are killed.

Topology: a driver runs a query with state for each of some sinks, which writes to its real target;
`tests.support.sink_campaign` describes the faults. Verified for each sink: each answer of its
reader is that of complete epochs by a batch over their files, never of fewer epochs than before,
and the last one is that of all; a paused driver that continues is fenced; after the loss of a
server the query continues, or ends by a retryable error; and all faults have happened.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.input_coverage.log import INPUTS
from tests.support.faults import ENTERED, KILLED, PAUSED, PUBLISHED, SERVER_KILLED, Fault
from tests.support.kafka_server import needs_kafka
from tests.support.mariadb import needs_mariadb
from tests.support.seeds import chaos_runs, hunting
from tests.support.sink_campaign import (
    FAULT_SPACE,
    Campaign,
    Verdict,
    covered_by,
    expected_answers,
    plan,
)
from tests.support.sink_targets import LOCAL, NAIVE, SERVERS, target_at
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos]

SEED = hunting(41)
FAULTS = 3 if chaos_runs() == 1 else chaos_runs()
# After this number of minutes a campaign begins no other fault.
MINUTES = float(os.environ.get("CLEANCUT_CAMPAIGN_MINUTES", "inf"))
# By name; a driver with fewer queries reaches its faults sooner.
SINKS = os.environ.get("CLEANCUT_CAMPAIGN_SINKS", "").split(",")


@long
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(LOCAL, id="local"),
        pytest.param(SERVERS, id="servers", marks=[needs_kafka, needs_mariadb]),
    ],
)
def test_readers_see_complete_epochs_during_all_kills(
    names: Sequence[str], tmp_path: Path, show: Callable[[str], None]
) -> None:
    chosen = [name for name in names if SINKS == [""] or name in SINKS]
    if not chosen:
        pytest.skip("none of these sinks is in CLEANCUT_CAMPAIGN_SINKS")
    with ExitStack() as stack:
        targets = {name: target_at(name, tmp_path / name, stack) for name in chosen}
        has_servers = any(target.server for target in targets.values())
        faults = plan(SEED, FAULTS, targets, has_servers=has_servers)
        campaign = Campaign(targets, tmp_path, SEED, faults, limit_s=60 * MINUTES)
        campaign.run()
        for number, inputs in enumerate(covered_by(campaign.executed)):
            INPUTS.add(FAULT_SPACE, f"{SEED}-{chosen[0]}-{number}", inputs)
        verdicts = {}
        for name, target in targets.items():
            wanted = expected_answers(campaign.checkpoint(name), target)
            watcher = campaign.watchers[name]
            verdicts[name] = Verdict.of(watcher.answers, wanted, target)
            show(
                f"seed {SEED}, {name}: {campaign.fault_counts[name]}; {len(wanted) - 1} epochs;"
                f" {watcher.polls} polls ({watcher.away} while away) saw"
                f" {len(watcher.answers)} answers; {verdicts[name]}"
            )
    assert [name for name, verdict in verdicts.items() if not verdict.is_right] == []
    entered = sum(fault.step == ENTERED for fault in campaign.executed)
    for name, target in targets.items():
        fault_counts = campaign.fault_counts[name]
        has_server = target.server is not None
        planned = [
            fault for fault in campaign.executed if fault.kind != SERVER_KILLED or has_server
        ]
        assert len(planned) - entered <= fault_counts.kinds.total() <= len(planned), name
        assert 2 * fault_counts.overtaken >= fault_counts.kinds[PAUSED], name
        assert len(campaign.watchers[name].answers) > 2, name


@long
def test_the_campaign_detects_a_sink_without_a_ledger(tmp_path: Path) -> None:
    with ExitStack() as stack:
        target = target_at(NAIVE, tmp_path / "target", stack)
        faults = [Fault(number, KILLED, NAIVE, PUBLISHED, 0, 0.0) for number in range(2)]
        campaign = Campaign({NAIVE: target}, tmp_path, SEED, faults)
        campaign.run()
        wanted = expected_answers(campaign.checkpoint(NAIVE), target)
        verdict = Verdict.of(campaign.watchers[NAIVE].answers, wanted, target)
    assert verdict.duplicated > 0
    assert verdict.torn > 0
    assert not verdict.is_right
