"""Plain functions for `foreachBatch`, whose driver is killed after a write and before its commit.

Topology: a driver with a query for each of some functions on Spark's RocksDB provider, and one with
a sink of Cleancut. Verified: the campaign counts the rows that a plain append duplicates, and none
for a function that repeats an epoch without a change. `make campaign-peers` has all functions.
"""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.peers.idioms import IDIOMS
from tests.support.faults import KILLED, PUBLISHED, Fault
from tests.support.seeds import fixed
from tests.support.sink_campaign import Campaign, Verdict, expected_answers
from tests.support.sink_targets import target_at
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos, long]

PLAIN, ONCE = "append to Delta", "append to Delta with a transaction version"
NAMES = [PLAIN, ONCE, "append to Parquet", "DeltaSink"]


def test_a_repeated_epoch_is_counted_for_plain_appends_only(tmp_path: Path) -> None:
    with ExitStack() as stack:
        targets = {
            name: target_at(
                IDIOMS[name].target if name in IDIOMS else name, tmp_path / f"target-{at}", stack
            )
            for at, name in enumerate(NAMES)
        }
        faults = [
            Fault(number, KILLED, name, PUBLISHED, 0, 0.0) for number, name in enumerate(NAMES)
        ]
        campaign = Campaign(targets, tmp_path, fixed(11), faults, are_fenced=False)
        campaign.run()
        verdicts = {}
        for name, target in targets.items():
            wanted = expected_answers(campaign.checkpoint(name), target)
            verdicts[name] = Verdict.of(campaign.watchers[name].answers, wanted, target)
    assert verdicts[PLAIN].duplicated > 0
    assert verdicts["append to Parquet"].duplicated > 0
    assert verdicts[ONCE].is_right, verdicts[ONCE]
    assert verdicts["DeltaSink"].is_right, verdicts["DeltaSink"]
