"""Polls tables while a query writes to them and is killed, and checks the visible rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from demo.polling import Poller
from tests.support.kills import Campaign
from tests.support.table_victim import files_at

ROW = ("number", "file", "partition", "value")

Rows = frozenset[tuple[Any, ...]]
Answer = tuple[str, int, Rows]


class Reader(Poller):
    """Polls tables in a separate thread.

    Attributes:
        answers: the table, the last epoch and the rows of each poll.
    """

    def __init__(self, ask: Callable[[], Iterable[tuple[str, int, list[tuple[Any, ...]]]]]) -> None:
        """Takes the function that reads all tables: each at one moment, with its last epoch."""
        super().__init__(self._take)
        self.answers: set[Answer] = set()
        self._ask = ask

    def _take(self) -> None:
        for table, epoch, rows in self._ask():
            assert len(set(rows)) == len(rows), "a row is there twice"
            self.answers.add((table, epoch, frozenset(rows)))

    def last_epoch(self) -> int:
        """Returns the last epoch that it has seen."""
        return max((epoch for _, epoch, _ in self.answers), default=-1)

    def epochs(self) -> int:
        """Returns the number of epochs with which it has seen a table."""
        return len({epoch for _, epoch, _ in self.answers})


def prefixes(spark: SparkSession, root: Path) -> tuple[dict[int, Rows], dict[int, Rows]]:
    """Returns the rows after each epoch, from the files: all rows, and the newest of each key."""
    sink = files_at(root)
    of_epochs: dict[int, list[tuple[Any, ...]]] = {
        published.epoch: [] for published in sink.epochs(session=spark)
    }
    for row in sink.read(spark, epoch_column="epoch").collect():
        of_epochs[row["epoch"]].append(tuple(row[name] for name in ROW))
    every: set[tuple[Any, ...]] = set()
    newest: dict[int, tuple[Any, ...]] = {}
    all_rows: dict[int, Rows] = {-1: frozenset()}
    newest_rows: dict[int, Rows] = {-1: frozenset()}
    for epoch, rows in of_epochs.items():
        every |= set(rows)
        # The greatest number of an epoch counts, and of two epochs the later one.
        newest |= {row[2]: row for row in sorted(rows)}
        all_rows[epoch] = frozenset(every)
        newest_rows[epoch] = frozenset(newest.values())
    return all_rows, newest_rows


def summary(campaign: Campaign, reader: Reader, modes: Sequence[str]) -> str:
    """Summarizes the campaign in a line."""
    return (
        f"{campaign.drivers_killed} drivers killed in {campaign.lives} lives;"
        f" {reader.polls} polls saw {len(reader.answers)} answers;"
        f" {modes.count('unaligned')} of {len(modes)} cuts with in-flight rows"
    )


def check_answers(reader: Reader, wanted: Mapping[str, Mapping[int, Rows]]) -> None:
    """Checks that each answer has all epochs up to its last one, and that answers exist."""
    for target, epoch, rows in reader.answers:
        right = wanted[target][epoch]
        assert rows == right, (target, epoch, len(rows - right), len(right - rows))
    assert reader.epochs() > 2
