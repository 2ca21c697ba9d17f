"""A dataflow of two queries that run without Spark."""

from types import SimpleNamespace

import pytest

from cleancut import Dataflow
from cleancut._storage.access import S3Access
from cleancut.dataflow import _dataflow as acting
from tests.support.flow_places import RealBucket
from tests.support.flow_world import Query


class Pair:
    """A dataflow of two queries.

    Attributes:
        a: the sender.
        b: the reader.
        flow: the dataflow.
        missing: by checkpoint, the number of missing input files.
    """

    def __init__(self, prefix: str, endpoint: str | None = None, region: str | None = None) -> None:
        self.home = RealBucket(prefix, S3Access({"endpoint": endpoint, "region": region}))
        self.a, self.b = Query("a", self.home), Query("b", self.home, ("a",))
        self.flow = Dataflow(f"{prefix}/flow", endpoint=endpoint, region=region)
        self.missing: dict[str, int] = {}

    def added(self) -> "Pair":
        for query in (self.a, self.b):
            self.flow.add(query.name, query.checkpoint)
        return self

    def step(self, rows: int = 10) -> None:
        """Runs an epoch of each; the reader has consumed all except the last one."""
        self.a.run(rows)
        self.b.consume(self.a, self.a.epoch - 1)
        self.b.run()

    def roll_back(self, checkpoint: str, savepoint: str) -> None:
        """Writes the operation of a rollback after all other epochs, like Spark's side."""
        query = self.a if checkpoint == self.a.checkpoint else self.b
        (source,) = [
            member.epoch
            for cut in self.flow.cuts()
            for member in cut.members
            if member.savepoint == savepoint and member.name == query.name
        ]
        assert source is not None
        query.commit(act_source=source)


def roll_back_without_spark(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the queries of a test roll back checkpoints."""

    def rollback(
        checkpoint: str, to: str, *, session: object, allow_missing_input: bool
    ) -> SimpleNamespace:
        assert session is None
        lost = pair.missing.get(checkpoint, 0)
        notes = (f"{lost} input files are missing.",) if lost else ()

        def apply() -> None:
            assert not lost or allow_missing_input
            pair.roll_back(checkpoint, to)

        return SimpleNamespace(notes=notes, missing_files=lost, apply=apply)

    monkeypatch.setattr(acting, "rollback", rollback)
