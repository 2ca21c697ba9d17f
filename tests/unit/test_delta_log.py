"""Entries of queries in the log of a Delta table."""

from collections.abc import Mapping
from dataclasses import replace

from cleancut.sinks._core.ledger import LedgerEpoch, Run
from cleancut.sinks._lakes.delta_log import Action, DeltaLog, transactions_of
from cleancut.sinks._lakes.log import Entry, chain

QUERY = "q-1"
FOREIGN: list[Action] = [{"commitInfo": {"userMetadata": "{not JSON", "operation": "WRITE"}}]


class Log(DeltaLog):
    """A transaction log in memory."""

    def __init__(self) -> None:
        self.commits: list[list[Action] | None] = []
        self.transactions: dict[str, int] = {}

    @property
    def label(self) -> str:
        return "/lake/rows"

    def version(self) -> int:
        return len(self.commits) - 1

    def transaction_version(self, application: str) -> int | None:
        return self.transactions.get(application)

    def actions(self, version: int) -> list[Action] | None:
        return self.commits[version]

    def configuration(self) -> Mapping[str, str]:
        return {}

    def commit(self, entry: Entry) -> None:
        self.transactions |= transactions_of(entry, len(self.commits))
        self.commits.append([{"commitInfo": {"cleancut": entry.fields()}}, {"add": {}}])


def entry(epoch: int, previous: int | None) -> Entry:
    published = LedgerEpoch(0, epoch, 100 + epoch, "r-1", f"token {epoch}", 6, 0)
    return Entry(QUERY, Run("r-1", last=epoch), previous, published, latest=published)


def test_entries_are_found_between_commits_of_other_writers() -> None:
    log = Log()
    log.commits += [FOREIGN] * 3
    log.commit(entry(0, None))
    log.commit(entry(1, 3))
    log.commits += [FOREIGN] * 4
    log.commit(entry(2, 4))
    log.commits += [FOREIGN]
    entries = list(chain(log, log.head(QUERY)))
    assert [(placed.at, placed.entry.run.last) for placed in entries] == [(9, 2), (4, 1), (3, 0)]
    assert log.head("another") is None


def test_the_last_epoch_outlives_the_deletion_of_its_commit() -> None:
    log = Log()
    log.commit(entry(0, None))
    log.commit(entry(1, 0))
    log.commits = [None] * len(log.commits) + [FOREIGN]
    head = log.head(QUERY)
    assert head is not None
    assert head.entry.run.last == 1
    assert head.entry.latest == replace(_remembered(1), planned_ms=101)


def _remembered(epoch: int) -> LedgerEpoch:
    return LedgerEpoch(0, epoch, 0, "of an entry that is deleted", "", -1, 0)
