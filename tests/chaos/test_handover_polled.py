"""A reader polls a table while drivers of its query take over from each other.

Topology: a count by key, written to files and to a table of PostgreSQL with the newest count of
each key. Two versions take over from the running one; then a standby takes over from a driver that
dies by SIGKILL. Verified: each answer of the table has exactly the epochs up to its last one, by
the files; no answer is older than the one before it; and the last answer is that of a batch.
"""

import functools
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from demo.polling import Poller
from demo.postgres_server import PostgresServer, postgres_server
from tests.support.handover_driver import DSN, END, TABLE, TOOK_OVER, sink_at
from tests.support.handovers import Release, prefixes
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos, long]

SETTING = "spark.sql.streaming.stateStore.cleancut.handoverTimeout=60s"
HANDOVERS = 2


class Reader(Poller):
    """Polls the table in a separate thread.

    Attributes:
        answers: the last epoch and the counts of each poll that differs from the one before it.
    """

    def __init__(self, server: PostgresServer) -> None:
        super().__init__(self._take)
        self.answers: list[tuple[int, dict[int, int]]] = []
        self._server = server

    def _take(self) -> None:
        # One statement, hence one moment.
        rows = self._server.rows(
            "SELECT (SELECT coalesce(max(epoch), -1) FROM cleancut_epochs"
            f" WHERE sink = 'table public.{TABLE}'), k, count FROM {TABLE}"
        )
        answer = (rows[0][0] if rows else -1, {key: count for _, key, count in rows})
        assert len(answer[1]) == len(rows), "a key is there twice"
        if self.answers[-1:] != [answer]:
            self.answers.append(answer)


def test_a_reader_sees_complete_epochs_in_order_during_handovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, show: Callable[[str], None]
) -> None:
    with postgres_server() as server, ExitStack() as stack:
        monkeypatch.setenv(DSN, server.dsn)
        release = Release(tmp_path, stack)
        owner = release.start("plain", SETTING)
        with Reader(server) as reader:
            release.wait_for_epochs()
            for _ in range(HANDOVERS):
                new = release.start("plain", SETTING)
                release.wait(functools.partial(release.has_ended, owner))
                assert release.ends()[owner] == END
                owner = new
                release.wait_for_epochs()
            standby = release.prepare("standby")
            assert release.drivers[owner].kill()
            release.wait(functools.partial(release.has_printed, standby, TOOK_OVER))
            release.wait_for_epochs()
            release.end()
            reader.look()
    epochs = [epoch for epoch, _ in reader.answers]
    show(
        f"{reader.polls} polls saw {len(reader.answers)} answers of {len(set(epochs))} epochs; "
        f"cuts of generations {sorted(set(release.generations()))}"
    )
    assert epochs == sorted(set(epochs))
    expected: dict[int, dict[int, int]] = {-1: {}}
    expected |= dict(prefixes(sink_at(tmp_path), "k", "count"))
    for epoch, counts in reader.answers:
        assert counts == expected[epoch], epoch
    assert epochs[-1] == max(expected)
    assert release.generations()[-1] == HANDOVERS + 2
    assert len(set(epochs)) > HANDOVERS + 2
