"""Spark's own state readers on checkpoints of Cleancut and of RocksDB."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cleancut import Checkpoint
from tests.support.events import write_events
from tests.support.queries import CHECKPOINT_IDS, OPERATORS, PROCESSORS, RUNNABLE
from tests.support.seeds import fixed
from tests.support.sessions import CLEANCUT, ROCKSDB, run
from tests.support.states import read_state, state
from tests.support.tiers import long, usually

pytestmark = pytest.mark.spark

SEED = fixed(311)
EPOCHS = 5
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
# The changes of a key that an epoch changed several times, as a query on Cleancut keeps them.
ALL_CHANGES = {"spark.sql.streaming.stateStore.cleancut.changeFeed": "all"}
READ = ["aggregation-update", "join-inner-no-bounds", "aggregation-append-ids"]


@pytest.fixture(
    scope="module", params=usually({"aggregation-update", "aggregation-append-ids"}, READ)
)
def operator(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def roots(
    operator: str, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """A query that ran several epochs on each provider."""
    work = tmp_path_factory.mktemp("readers")
    write_events(work / "events", seed=SEED, files=range(EPOCHS))
    roots = {provider: work / name for provider, name in ((CLEANCUT, "ours"), (ROCKSDB, "peer"))}
    for provider, root in roots.items():
        run(
            spark,
            OPERATORS[operator],
            events=work / "events",
            root=root,
            provider=provider,
            settings={CHANGELOG: "true"} | (ALL_CHANGES if _is_join(operator) else {}),
        )
    return roots


def test_state_of_every_epoch_is_that_of_the_built_in_provider(
    operator: str, roots: dict[str, Path], spark: SparkSession
) -> None:
    settings = {**OPERATORS[operator].settings, CHANGELOG: "true"}
    ids = settings.keys() & CHECKPOINT_IDS.keys()
    # Spark finds the checkpoint IDs of the last epochs only.
    for batch in range(EPOCHS) if not ids else [EPOCHS - 1]:
        state, expected = (
            read_state(spark, root, settings, batchId=str(batch))
            for root in (roots[CLEANCUT], roots[ROCKSDB])
        )
        assert state == expected
        assert any(state.values())


FAMILIES = {
    "transform-in-pandas": PROCESSORS["transform-in-pandas"],
    **{name: OPERATORS[name] for name in RUNNABLE if name.endswith("-v3")},
}


@long
@pytest.mark.parametrize("name", FAMILIES)
def test_families_of_a_checkpoint_with_cuts_are_those_of_one_without(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Up to Spark 4.2 its reader opens the families for writing, which only the query may do."""
    write_events(tmp_path / "events", seed=SEED, files=range(3))
    roots = {cuts: tmp_path / cuts for cuts in ("true", "false")}
    for cuts, root in roots.items():
        settings = {"spark.sql.streaming.stateStore.cleancut.cuts": cuts}
        run(spark, FAMILIES[name], events=tmp_path / "events", root=root, settings=settings)
    state, expected = (state(spark, root, FAMILIES[name].settings) for root in roots.values())
    assert state == expected
    assert any(state.values())
    assert len(Checkpoint(roots["true"] / "checkpoint").cuts()) >= 3
    # It has written nothing that a later run would read.
    write_events(tmp_path / "events", seed=SEED, files=range(3, 4))
    rows = [
        run(spark, FAMILIES[name], events=tmp_path / "events", root=root) for root in roots.values()
    ]
    assert rows[0] == rows[1]
    assert Checkpoint(roots["true"] / "checkpoint").verify().ok


def test_change_feed_is_that_of_the_built_in_provider(
    operator: str, roots: dict[str, Path], spark: SparkSession
) -> None:
    settings = {**OPERATORS[operator].settings, CHANGELOG: "true"}
    options = {"readChangeFeed": "true", "changeStartBatchId": "1", "changeEndBatchId": "4"}
    state, expected = (
        read_state(spark, root, settings, **options) for root in (roots[CLEANCUT], roots[ROCKSDB])
    )
    # If an epoch changes a key several times, Cleancut keeps the last change by default.
    for part, rows in state.items():
        assert rows
        assert not Counter(rows) - Counter(expected[part])
        assert {_batch(row) for row in rows} == {_batch(row) for row in expected[part]}
    if operator.startswith("aggregation-update") or _is_join(operator):
        assert state == expected


def test_state_is_loaded_from_an_older_base_on_demand(
    operator: str, roots: dict[str, Path], spark: SparkSession
) -> None:
    settings = OPERATORS[operator].settings
    stores = roots[CLEANCUT] / "checkpoint" / "cleancut" / "stores" / "0"
    tried = 0
    for partition in sorted(stores.iterdir()):
        # Maintenance may reach one store of a partition an epoch later than the others.
        based = [
            {int(base.name[:20]) for base in store.glob("*.base")} for store in partition.iterdir()
        ]
        versions = sorted(set.intersection(*based))
        whole = read_state(spark, roots[CLEANCUT], settings)
        for version in versions[:2]:
            state = read_state(
                spark,
                roots[CLEANCUT],
                settings,
                snapshotStartBatchId=str(version - 1),
                snapshotPartitionId=partition.name,
            )
            suffix = f"partition_id={partition.name})"
            for part, rows in state.items():
                assert rows == [row for row in whole[part] if row.endswith(suffix)]
            tried += 1
    assert tried > 0


def test_a_missing_base_is_an_error(
    operator: str, roots: dict[str, Path], spark: SparkSession
) -> None:
    with pytest.raises(Exception, match="CLEANCUT_FRAME_MISSING"):
        state(
            spark,
            roots[CLEANCUT],
            OPERATORS[operator].settings,
            # The first version is a delta.
            snapshotStartBatchId="0",
            snapshotPartitionId="0",
        )


def _batch(row: str) -> str:
    return row.split("batch_id=")[1].split(",")[0]


def _is_join(operator: str) -> bool:
    return operator.startswith("join")
