"""Documented functions for `foreachBatch`, and Spark's state stores, under the same faults.

`python -m tests.peers run` runs the functions under the faults of sinks: drivers are killed, or
paused until another one has written epochs, and servers are killed, at steps that follow from the
seed. `contract` runs the tests of `SinkContract` on them. `stores` runs stateful queries on each
state store, and kills drivers and executors. The results are stored, and written into the
documentation; `page` does that alone.
"""

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.peers import contract, record, stores
from tests.peers.idioms import IDIOMS
from tests.peers.record import Result
from tests.support.faults import KILLED, PAUSED, SERVER_KILLED
from tests.support.revision import short_commit
from tests.support.sessions import builder
from tests.support.sink_campaign import Campaign, Verdict, expected_answers, plan
from tests.support.sink_targets import target_at

# Each group shares its drivers, and ends with sinks of Cleancut in the same campaign.
_POSTGRES = [one.name for one in IDIOMS.values() if one.target.startswith("PostgreSQL")]
GROUPS = {
    "postgres": [*_POSTGRES, "PostgresSink"],
    "files": [
        *(name for name in IDIOMS if name not in _POSTGRES),
        *("EpochFiles", "DeltaSink", "IcebergSink"),
    ],
}


def run(group: str, seed: int, faults: int, home: Path) -> list[Result]:
    """Runs one campaign of a group."""
    names = GROUPS[group]
    with ExitStack() as stack:
        targets = {
            name: target_at(
                IDIOMS[name].target if name in IDIOMS else name, home / f"target-{at}", stack
            )
            for at, name in enumerate(names)
        }
        has_servers = any(target.server for target in targets.values())
        planned = plan(seed, faults, names, has_servers=has_servers)
        campaign = Campaign(targets, home, seed, planned, are_fenced=False)
        campaign.run()
        results = []
        for name, target in targets.items():
            wanted = expected_answers(campaign.checkpoint(name), target)
            verdict = Verdict.of(campaign.watchers[name].answers, wanted, target)
            kinds = campaign.fault_counts[name].kinds
            results.append(
                Result(
                    name=name,
                    seed=seed,
                    commit=short_commit(),
                    epochs=len(wanted) - 1,
                    killed=kinds[KILLED],
                    paused=kinds[PAUSED],
                    servers=kinds[SERVER_KILLED],
                    rows=verdict.rows,
                    lost=verdict.lost,
                    duplicated=verdict.duplicated,
                    replaced=verdict.foreign,
                    torn=verdict.torn,
                    reverted=verdict.reverted,
                )
            )
    return results


def run_campaigns(groups: Iterable[str], seed: int, faults: int) -> None:
    """Runs a campaign of each group, and stores its results."""
    for group in groups:
        home = Path(tempfile.mkdtemp(prefix="cleancut-peers-"))
        results = run(group, seed, faults, home)
        shutil.rmtree(home)
        for result in results:
            print(result, flush=True)
        record.CAMPAIGNS.add(results)


def run_stores(names: Iterable[str], seed: int) -> None:
    """Runs the queries of a seed on state stores, and stores their results."""
    spark = builder("local[2]").getOrCreate()
    for name in names:
        home = Path(tempfile.mkdtemp(prefix="cleancut-stores-"))
        for result in stores.run(spark, seed, name, home):
            print(result, flush=True)
            stores.STORE_RESULTS.add([result])
        shutil.rmtree(home)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each result."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers", description=__doc__)
    parser.add_argument("command", choices=["run", "contract", "stores", "page"])
    parser.add_argument("--group", choices=list(GROUPS), default=None, help="default: all")
    parser.add_argument("--seed", type=int, default=None, help="default: a random one")
    parser.add_argument("--faults", type=int, default=12)
    parser.add_argument("--names", nargs="*", choices=contract.NAMES, default=contract.NAMES)
    parser.add_argument("--stores", nargs="*", choices=list(stores.STORES), default=stores.STORES)
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    match options.command:
        case "run":
            groups = [options.group] if options.group else list(GROUPS)
            run_campaigns(groups, seed, options.faults)
        case "contract":
            contract.run(builder("local[2]").getOrCreate(), options.names)
        case "stores":
            run_stores(options.stores, seed)
    record.update()
    return 0


if __name__ == "__main__":
    sys.exit(main())
