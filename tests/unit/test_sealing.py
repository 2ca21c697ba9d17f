"""Sealing an epoch, on a JVM that only notes what it is asked."""

from types import SimpleNamespace
from typing import Any

import pytest

import cleancut
from cleancut import RequestError


class Rows:
    """A Dataset of the JVM."""

    def equals(self, other: "Rows") -> bool:
        return self is other


class Facade:
    """Of the JVM. `steps` is what became of a batch, `kept` is what Spark keeps in its place."""

    def __init__(self, kept: Rows | None = None) -> None:
        self.steps: list[Any] = []
        self.kept = kept

    def seal(self, batch: Rows, epoch: int) -> Rows:
        self.steps.append((batch, epoch))
        return self.kept or batch


class Batch:
    """A DataFrame of foreachBatch."""

    def __init__(self, rows: Rows, session: Any) -> None:
        self._jdf = rows
        self.sparkSession = session
        self.steps = session._jvm.io.cleancut.CleancutSeal.steps

    def unpersist(self) -> None:
        self.steps.append(("unpersist", self._jdf))


def batch_of(kept: Rows | None = None) -> Any:
    cleancut = SimpleNamespace(CleancutSeal=Facade(kept))
    jvm = SimpleNamespace(io=SimpleNamespace(cleancut=cleancut))
    return Batch(Rows(), SimpleNamespace(_jvm=jvm))


def test_a_batch_is_sealed_before_the_function_and_given_up_behind_it() -> None:
    batch = batch_of()

    @cleancut.sinks.sealing
    def write(df: Any, epoch: int) -> None:
        """Writes."""
        assert df is batch
        df.steps.append(f"write {epoch}")

    write(batch, 7)
    assert batch.steps == [(batch._jdf, 7), "write 7", ("unpersist", batch._jdf)]
    assert (write.__name__, write.__doc__) == ("write", "Writes.")


def test_the_function_gets_the_rows_that_spark_could_keep() -> None:
    kept = Rows()
    batch = batch_of(kept)

    @cleancut.sinks.sealing
    def write(df: Any, epoch: int) -> None:
        df.steps.append(("write", df._jdf))

    write(batch, 7)
    assert batch.steps == [(batch._jdf, 7), ("write", kept), ("unpersist", kept)]
    assert cleancut.seal(batch, 8)._jdf is kept


def test_a_function_that_fails_gives_the_batch_up() -> None:
    batch = batch_of()

    @cleancut.sinks.sealing
    def write(df: Any, epoch: int) -> None:
        raise OSError("the sink is gone")

    with pytest.raises(OSError, match="the sink is gone"):
        write(batch, 7)
    assert batch.steps[-1] == ("unpersist", batch._jdf)


def test_a_batch_of_spark_connect_cannot_be_sealed() -> None:
    batch: Any = SimpleNamespace()
    with pytest.raises(RequestError, match="epoch 3") as raised:
        cleancut.seal(batch, 3)
    assert raised.value.error_id == "CLEANCUT_SEAL_MISPLACED"
