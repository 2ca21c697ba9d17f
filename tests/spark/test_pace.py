"""The pace of a query's epochs, which its coordinator sets while it runs."""

import re
import time
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import cleancut
from cleancut import Checkpoint, coordinator
from tests.support.documented import blocks
from tests.support.file_epochs import PLACES, Epochs
from tests.support.patience import PATIENCE_S
from tests.support.tiers import long

pytestmark = pytest.mark.spark

PAGE = "docs/operate/pace.md"
INTERVAL_S = 1.2


def wait_for(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_epochs_keep_to_the_pace_and_a_stop_loses_none(spark: SparkSession, tmp_path: Path) -> None:
    it = Epochs(spark, tmp_path, PLACES["cuts"])
    it.add(12)
    query = it.start()
    try:
        wait_for(lambda: len(it.ran) >= 2)
        handle = coordinator(query)
        assert handle.pace().interval == timedelta(0)
        paced = handle.pace(interval=INTERVAL_S)
        assert paced.interval == timedelta(seconds=INTERVAL_S)
        assert str(paced) == "an epoch every 1.2 s"
        first = len(it.ran)
        assert handle.wait_for(first + 3, timeout=PATIENCE_S)
        handle.pace(interval=0, min_pause=3_600)
        resting = len(it.ran)
        time.sleep(2 * INTERVAL_S)
        assert len(it.ran) <= resting + 1
    finally:
        # The end of a run does not wait for the pause, which is longer than each test.
        query.stop()
    assert query.exception() is None
    written = {info.epoch: info.written for info in Checkpoint(it.checkpoint).cuts()}
    epochs = range(first + 1, first + 4)
    gaps = [(written[b] - written[a]).total_seconds() for a, b in pairwise(epochs)]
    # Between two starts of epochs; the time until the cut varies.
    assert sum(gaps) / len(gaps) > INTERVAL_S * 0.8
    # The pace also applies to the next run of this driver, until it is reset.
    again = it.start()
    try:
        assert coordinator(again).pace().min_pause == timedelta(hours=1)
        coordinator(again).pace(min_pause=0)
        again.processAllAvailable()
    finally:
        again.stop()
    assert it.state() == it.expected(12)
    assert sorted(set(it.ran)) == list(range(12))


@long
def test_a_query_tolerates_a_number_of_failed_background_tasks(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Pages of cuts cannot be written, because a file has the name of their directory."""
    it = Epochs(spark, tmp_path, PLACES["cuts"])
    it.add(2)
    it.run()
    pages = Path(it.checkpoint) / "cleancut" / "pages"
    pages.write_text("in the way")
    it.add(28)
    query = it.start()
    try:
        handle = coordinator(query)
        # By default no number of failures ends the query.
        assert handle.pace().tolerable_failures is None
        wait_for(lambda: handle.pace().failures.get("writing of pages", (0, ""))[0] >= 2)
        assert query.isActive
        message = str(handle.pace())
        assert re.search(r"the writing of pages has failed \d+ times in a row: .*pages", message)
        paced = handle.pace(tolerable_failures=1, autopause=False)
        assert paced.tolerable_failures == 1
        with pytest.raises(StreamingQueryException) as raised:
            query.awaitTermination(int(PATIENCE_S))
    finally:
        query.stop()
    error = cleancut.errors.find_error(raised.value)
    assert error is not None
    assert error.error_id == "CLEANCUT_MAINTENANCE_FAILED"
    ended = it.ran[-1]
    # Its last epoch is committed, and nothing is lost.
    assert Checkpoint(it.checkpoint).cuts()[-1].epoch == ended
    pages.unlink()
    again = it.start()
    try:
        handle = coordinator(again)
        assert handle.pace().failures == {}
        assert handle.pace(tolerable_failures="any").tolerable_failures is None
        again.processAllAvailable()
    finally:
        again.stop()
    assert it.ran == [*range(ended + 1), *range(ended + 1, 30)]
    assert it.state() == it.expected(30)
    assert list(pages.iterdir())


@long
def test_background_tasks_wait_while_epochs_are_late(spark: SparkSession, tmp_path: Path) -> None:
    it = Epochs(spark, tmp_path, PLACES["cuts"])
    it.slow_from = 9
    it.add(13)
    query = it.start()
    try:
        handle = coordinator(query)
        assert handle.pace(autopause=True).autopause
        wait_for(lambda: handle.pace().postponed_epochs > 0)
        assert "waits while epochs are late, as behind the last" in str(handle.pace())
        query.processAllAvailable()
    finally:
        query.stop()
    assert it.state() == it.expected(13)


def test_a_budget_reports_its_effect(spark: SparkSession, tmp_path: Path) -> None:
    it = Epochs(spark, tmp_path, PLACES["cuts"])
    it.add(2)
    query = it.start()
    try:
        query.processAllAvailable()
        handle = coordinator(query)
        assert "which epochs do not reach" in str(handle.pace(budget="$5000/day"))
        # About five requests per epoch; a cent buys two thousand of them a day.
        wait_for(lambda: handle.pace(budget=0.01).budget_interval > timedelta(seconds=30))
        paced = handle.pace()
        assert paced.budget == 0.01
        assert "allows an epoch every" in str(paced)
        assert handle.pace(budget=0).budget is None
        exec(blocks(PAGE, "python")[0], {"query": query})
        assert handle.pace().budget == 5
        assert handle.pace().min_pause == timedelta(0)
        for wrong in ("five", "-1", 1e9):
            with pytest.raises(ValueError, match="budget"):
                handle.pace(budget=wrong)
        for slow in (-1, timedelta(hours=2)):
            with pytest.raises(ValueError, match="interval"):
                handle.pace(interval=slow)
        for many in (-1, 2_000_000, 0.5, True, "all"):
            with pytest.raises(ValueError, match="tolerable_failures"):
                handle.pace(tolerable_failures=many)  # type: ignore[arg-type]
    finally:
        query.stop()
