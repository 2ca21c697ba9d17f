"""Documented functions for `foreachBatch` in the contract of sinks, as their page states it.

Functions that need a server are run by `python -m tests.peers contract` alone.
"""

from pathlib import Path

import pytest

from tests.peers.contract import FINDINGS, WITHOUT_SERVER, contract_of, find
from tests.support.contracts import EVENTS
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark"), long]


@pytest.mark.parametrize("test", EVENTS)
@pytest.mark.parametrize("name", WITHOUT_SERVER)
def test_an_idiom_has_the_outcome_that_its_page_states(
    name: str, test: str, tmp_path: Path
) -> None:
    stated = {(one.idiom, one.event): one.outcome for one in FINDINGS.read()}
    with contract_of(name) as contract:
        finding = find(contract, test, tmp_path)
    assert finding.outcome == stated[name, finding.event], finding.reason
