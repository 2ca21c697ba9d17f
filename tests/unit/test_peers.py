"""The page on plain functions shows the results of their campaigns."""

from pathlib import Path

import pytest

from tests.peers import record
from tests.peers.__main__ import GROUPS
from tests.peers.contract import FINDINGS, NAMES, WITHOUT_SERVER
from tests.peers.idioms import IDIOMS
from tests.peers.record import CAMPAIGNS, Result
from tests.peers.stores import STORE_RESULTS, STORES, has_uncommitted, queries_of
from tests.support import marked_pages
from tests.support.contracts import EVENTS
from tests.support.in_flight_queries import IN_PYTHON, draw_queries
from tests.support.sink_targets import sink_at

INSERT, UPSERT = "INSERT", "INSERT … ON CONFLICT DO UPDATE"


def _result(name: str, seed: int, duplicated: int) -> Result:
    return Result(name, seed, "abcdef12", 9, 3, 2, 1, 40, 0, duplicated, 0, 5, 0)


def test_each_function_is_in_one_group_with_sinks_of_cleancut() -> None:
    names = [name for group in GROUPS.values() for name in group]
    assert len(names) == len(set(names))
    assert set(IDIOMS) < set(names)
    for group in GROUPS.values():
        sinks = [name for name in group if name not in IDIOMS]
        assert sinks
        if "EpochFiles" in sinks:
            assert sink_at("EpochFiles", "somewhere").name


def test_the_table_has_sums_and_each_campaign() -> None:
    results = [_result(INSERT, 1, 7), _result(INSERT, 2, 1), _result("PostgresSink", 1, 0)]
    text = record.render(results)
    [insert] = [line for line in text.splitlines() if line.startswith("| INSERT,")]
    assert insert.startswith("| INSERT, PostgreSQL rows | RocksDB | [at least once](https://spark.")
    assert insert.endswith("| 18 | 6 | 4 | 2 | 80 | 0 | 8 | 0 | 10 |")
    assert (
        "| `PostgresSink` | Cleancut | exactly once | 9 | 3 | 2 | 1 | 40 | 0 | 0 | 0 | 5 |" in text
    )
    assert "| 1 | abcdef12 | 6 | 2 |" in text
    assert "| 2 | abcdef12 | 6 | 1 |" in text


def test_results_of_a_seed_replace_earlier_ones(tmp_path: Path) -> None:
    place = tmp_path / "results.json"
    CAMPAIGNS.add([_result(INSERT, 1, 7), _result(UPSERT, 1, 0)], place)
    CAMPAIGNS.add([_result(INSERT, 1, 8), _result(INSERT, 2, 0)], place)
    assert [(one.name, one.seed, one.duplicated) for one in CAMPAIGNS.read(place)] == [
        (INSERT, 1, 8),
        (UPSERT, 1, 0),
        (INSERT, 2, 0),
    ]


@pytest.mark.parametrize("begin", record.TABLES)
def test_the_page_shows_the_results(begin: str) -> None:
    written = marked_pages.written(record.PAGE, begin)
    assert written == record.TABLES[begin](), "python -m tests.peers page writes it"


def test_the_contract_has_run_completely() -> None:
    cells = {(one.idiom, one.event) for one in FINDINGS.read()}
    names = {name for name, _ in cells}
    assert set(WITHOUT_SERVER) < names <= set(NAMES)
    assert cells == {(name, event) for name in names for event in EVENTS.values()}


def test_sinks_of_cleancut_lost_and_duplicated_nothing() -> None:
    ours = [one for one in CAMPAIGNS.read() if one.name not in IDIOMS]
    assert {one.name for one in ours} >= {"PostgresSink", "EpochFiles", "DeltaSink", "IcebergSink"}
    for one in ours:
        assert one.rows > 0
        assert not any((one.lost, one.duplicated, one.replaced, one.torn, one.reverted)), one


def test_sparks_hdfs_backed_store_runs_what_it_supports() -> None:
    seeds = range(30)
    run = {name for seed in seeds for name in queries_of("HDFS-backed", seed)}
    assert run & set(IN_PYTHON) == {"applyInPandasWithState"}
    assert all(queries_of("RocksDB", seed) == draw_queries(seed) for seed in seeds)


def test_an_epoch_is_uncommitted_between_its_file_and_its_commit(tmp_path: Path) -> None:
    results, commits = tmp_path / "query/results", tmp_path / "query/checkpoint/commits"
    results.mkdir(parents=True)
    commits.mkdir(parents=True)
    assert not has_uncommitted(tmp_path)
    (results / "00000.json").touch()
    assert has_uncommitted(tmp_path)
    (commits / "0").touch()
    assert not has_uncommitted(tmp_path)


def test_state_stores_have_run_the_same_seeds() -> None:
    results = STORE_RESULTS.read()
    seeds = {store: {one.seed for one in results if one.store == store} for store in STORES}
    assert seeds["Cleancut"]
    assert seeds["Cleancut"] == seeds["RocksDB"] == seeds["HDFS-backed"]
    for one in results:
        assert (one.rows > 0, one.drivers > 0, one.executors > 0) == (True, True, True), one
        if one.store == "Cleancut":
            assert not any((one.lost, one.duplicated, one.wrong, one.unordered, one.changed)), one
