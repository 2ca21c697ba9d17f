"""Sealing of an epoch, on a fake JVM that records its calls."""

from types import SimpleNamespace
from typing import Any

import pytest

import cleancut
from cleancut import RequestError
from cleancut._query import sealing
from cleancut.testing import EpochRows


class Rows:
    """A Dataset of the JVM."""

    def equals(self, other: "Rows") -> bool:
        return self is other


class ScalaOption:
    """An Option of Scala."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def isDefined(self) -> bool:  # noqa: N802
        return self.text is not None

    def get(self) -> str | None:
        return self.text


class Facade:
    """The JVM side of the seal.

    `steps` records what happened to a batch, `kept` is what Spark caches instead, and `output` is
    the output that an earlier run has sealed.
    """

    def __init__(self, kept: Rows | None = None, output: str | None = None) -> None:
        self.steps: list[Any] = []
        self.kept = kept
        self.output = output

    def seal(self, batch: Rows, epoch: int) -> Rows:
        self.steps.append((batch, epoch))
        return self.kept or batch

    def compute(self, batch: Rows, epoch: int) -> Rows:
        self.steps.append(f"compute {epoch}")
        return self.kept or batch

    def close(self, batch: Rows, epoch: int, output: str) -> None:
        self.steps.append(f"close {epoch} {output}")

    def sealedOutput(self, batch: Rows, epoch: int) -> ScalaOption:  # noqa: N802
        return ScalaOption(self.output)

    def finish(self, batch: Rows, epoch: int) -> bool:
        self.steps.append(f"finish {epoch}")
        return self.output is not None


class Batch:
    """A DataFrame of foreachBatch."""

    def __init__(self, rows: Rows, session: Any) -> None:
        self._jdf = rows
        self.sparkSession = session
        self.steps = session._jvm.io.cleancut.CleancutSeal.steps

    def unpersist(self) -> None:
        self.steps.append(("unpersist", self._jdf))


def batch_of(kept: Rows | None = None, output: str | None = None) -> Any:
    cleancut = SimpleNamespace(CleancutSeal=Facade(kept, output))
    jvm = SimpleNamespace(io=SimpleNamespace(cleancut=cleancut))
    return Batch(Rows(), SimpleNamespace(_jvm=jvm))


def test_a_batch_is_sealed_before_the_function_and_released_after_it() -> None:
    batch = batch_of()

    @cleancut.sinks.sealed
    def write(df: Any, epoch: int) -> None:
        """Writes."""
        assert df is batch
        df.steps.append(f"write {epoch}")

    write(batch, 7)
    assert batch.steps == [(batch._jdf, 7), "write 7", ("unpersist", batch._jdf)]
    assert (write.__name__, write.__doc__) == ("write", "Writes.")


def test_the_function_gets_the_rows_that_spark_has_cached() -> None:
    kept = Rows()
    batch = batch_of(kept)

    @cleancut.sinks.sealed
    def write(df: Any, epoch: int) -> None:
        df.steps.append(("write", df._jdf))

    write(batch, 7)
    assert batch.steps == [(batch._jdf, 7), ("write", kept), ("unpersist", kept)]
    assert cleancut.seal(batch, 8)._jdf is kept


def test_a_failed_function_releases_the_batch() -> None:
    batch = batch_of()

    @cleancut.sinks.sealed
    def write(df: Any, epoch: int) -> None:
        raise OSError("the sink is gone")

    with pytest.raises(OSError, match="the sink is gone"):
        write(batch, 7)
    assert batch.steps[-1] == ("unpersist", batch._jdf)


def test_a_written_and_sealed_epoch_is_finished_without_the_function() -> None:
    lookups: list[int] = []

    def written(epoch: int) -> bool:
        lookups.append(epoch)
        return epoch < 8

    def write(df: Any, epoch: int) -> None:
        df.steps.append(f"write {epoch}")

    sink = cleancut.sinks.sealed(write, written=written)
    sealed, other = batch_of(output="rows"), batch_of()
    sink(sealed, 7)
    assert sealed.steps == ["finish 7"]
    # No run has sealed it, so its tasks have to run.
    sink(other, 7)
    assert other.steps == ["finish 7", (other._jdf, 7), "write 7", ("unpersist", other._jdf)]
    sink(sealed, 8)
    assert sealed.steps[1:] == [(sealed._jdf, 8), "write 8", ("unpersist", sealed._jdf)]
    assert lookups == [7, 7, 8]


def test_a_sink_that_stages_seals_in_two_steps() -> None:
    kept = Rows()
    batch = batch_of(kept)
    assert sealing.compute(batch, 7)._jdf is kept
    sealing.close(batch, 7, "rows of 7")
    assert batch.steps == ["compute 7", "close 7 rows of 7"]
    assert sealing.sealed_output(batch, 7) is None
    assert sealing.sealed_output(batch_of(output="rows of 7"), 7) == "rows of 7"


def test_a_batch_of_spark_connect_cannot_be_sealed() -> None:
    batch: Any = SimpleNamespace()
    with pytest.raises(RequestError, match="epoch 3") as raised:
        cleancut.seal(batch, 3)
    assert raised.value.error_id == "CLEANCUT_SEAL_BATCH_INVALID"


def test_an_object_of_spark_connect_is_refused_by_name() -> None:
    """It failed with an AttributeError that did not mention Connect."""
    given = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    with pytest.raises(RequestError) as raised:
        EpochRows()(given, 0)
    assert raised.value.error_id == "CLEANCUT_CONNECT_UNSUPPORTED"
    assert "is one of Spark Connect" in str(raised.value)
