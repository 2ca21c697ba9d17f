"""The demo in mode unaligned, killed with in-flight rows; each row is compared."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.demo import run_demo
from tests.support.seeds import hunting
from tests.support.tiers import long

KILLS = 2
TIMEOUT_S = 900

pytestmark = [pytest.mark.spark, pytest.mark.chaos, long]


@pytest.mark.parametrize(("kills", "rows"), [(2, 4000), (20, 16000)])
def test_a_reader_of_tables_sees_complete_epochs_during_kills_of_the_demo(
    kills: int, rows: int, tmp_path: Path, show: Callable[[str], None]
) -> None:
    seed = hunting(4711)
    options = ["--sink", "postgres", "--mode", "unaligned", "--rows", str(rows)]
    options += ["--kills", str(kills), "--seed", str(seed), "--dir", str(tmp_path)]
    ended = run_demo(*options, timeout_s=3 * TIMEOUT_S)
    print(ended.stdout)
    assert ended.returncode == 0
    assert f"{kills} kills survived" in ended.stdout
    looked = re.search(r"a reader polled ([\d,]+) times and saw ([\d,]+) states", ended.stdout)
    assert looked is not None
    show(f"seed {seed}: a reader polled {looked[1]} times and saw {looked[2]} states")
    assert int(looked[2].replace(",", "")) > kills


@pytest.mark.parametrize("place", [[], ["--s3"]], ids=["local disk", "S3"])
def test_in_flight_rows_are_replayed_by_restarts_of_the_demo(
    place: list[str], tmp_path: Path, show: Callable[[str], None]
) -> None:
    seed = hunting(4711)
    options = ["--mode", "unaligned", "--rows", "4000", "--kills", str(KILLS), "--seed", str(seed)]
    ended = run_demo(*options, *place, "--dir", str(tmp_path), timeout_s=TIMEOUT_S)
    print(ended.stdout)
    assert ended.returncode == 0
    assert f"{KILLS} kills survived" in ended.stdout
    replays = re.findall(r"run (\d+) replays in-flight rows: (.+)", ended.stdout)
    assert [life for life, _ in replays] == [str(life) for life in range(2, KILLS + 2)]
    summed = re.search(r"in-flight rows that restarts replayed: (.+)", ended.stdout)
    assert summed is not None
    show(f"seed {seed}: restarts replayed {summed[1]} rows")
    assert summed[1] != "none"
