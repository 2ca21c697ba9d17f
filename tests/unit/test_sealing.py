"""Sealing an epoch, on a JVM that only notes what it is asked."""

from types import SimpleNamespace
from typing import Any

import pytest

import cleancut
from cleancut import RequestError


class Batch:
    """A DataFrame of foreachBatch; `steps` is what became of it."""

    def __init__(self) -> None:
        self.steps: list[Any] = []
        self._jdf = object()
        facade = SimpleNamespace(seal=lambda batch, epoch: self.steps.append((batch, epoch)))
        jvm = SimpleNamespace(io=SimpleNamespace(cleancut=SimpleNamespace(CleancutSeal=facade)))
        self.sparkSession = SimpleNamespace(_jvm=jvm)

    def unpersist(self) -> None:
        self.steps.append("unpersist")


def test_a_batch_is_sealed_before_the_function_and_given_up_behind_it() -> None:
    batch: Any = Batch()

    @cleancut.sinks.sealing
    def write(df: Any, epoch: int) -> None:
        """Writes."""
        df.steps.append(f"write {epoch}")

    write(batch, 7)
    assert batch.steps == [(batch._jdf, 7), "write 7", "unpersist"]
    assert (write.__name__, write.__doc__) == ("write", "Writes.")


def test_a_function_that_fails_gives_the_batch_up() -> None:
    batch: Any = Batch()

    @cleancut.sinks.sealing
    def write(df: Any, epoch: int) -> None:
        raise OSError("the sink is gone")

    with pytest.raises(OSError, match="the sink is gone"):
        write(batch, 7)
    assert batch.steps[-1] == "unpersist"


def test_a_batch_of_spark_connect_cannot_be_sealed() -> None:
    batch: Any = SimpleNamespace()
    with pytest.raises(RequestError, match="epoch 3") as raised:
        cleancut.seal(batch, 3)
    assert raised.value.error_id == "CLEANCUT_SEAL_MISPLACED"
