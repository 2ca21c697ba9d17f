"""Cuts that are older than the logs and schema files that Spark retains."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import cleancut
from cleancut import Checkpoint, RequestError
from tests.support.sessions import with_cuts
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, long]


class Counts(StatefulProcessor):
    """Counts the rows of each key in each of its variables.

    Attributes:
        names: of the variables.
    """

    def __init__(self, *names: str) -> None:
        self.names = names

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._all = [handle.getValueState(name, "n long") for name in self.names]

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Any,
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        more = len(list(rows))
        for state in self._all:
            value = state.get() if state.exists() else None
            state.update(((value[0] if value else 0) + more,))
        yield Row(k=key[0])


class Counted:
    """A query with such a processor, one file per epoch, each in a separate run."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.session = with_cuts(spark, 2)
        self.session.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
        self.input, self.checkpoint = home / "in", home / "checkpoint"
        self.input.mkdir(parents=True)
        self.files = 0

    def run(self, *names: str) -> None:
        lines = [f'{{"k": {n % 5}}}' for n in range(20)]
        (self.input / f"{self.files}.json").write_text("\n".join(lines), encoding="utf-8")
        self.files += 1
        rows = self.session.readStream.schema("k int").json(str(self.input))
        counted = rows.groupBy("k").transformWithState(Counts(*names), "k int", "update", "none")
        writer = counted.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
        writer.option("checkpointLocation", str(self.checkpoint)).start().awaitTermination()

    def purge(self) -> None:
        """Completes the cleanup that Spark has started in the background."""
        oldest = min(int(entry.name) for entry in (self.checkpoint / "commits").glob("[0-9]*"))
        assert oldest > 1
        for log in ("offsets", "commits"):
            for entry in (self.checkpoint / log).glob("[0-9]*"):
                if int(entry.name) < oldest:
                    remove(entry)
        for description in self.descriptions()[:-1]:
            if int(description.name) < oldest:
                remove(description)

    def descriptions(self) -> list[Path]:
        """Returns the schema files of the operator, by epoch."""
        descriptions = (self.checkpoint / "state" / "0" / "_metadata" / "v2").glob("[0-9]*")
        return sorted(descriptions, key=lambda description: int(description.name))

    def counts(self, name: str) -> set[int]:
        table = Checkpoint(str(self.checkpoint)).state(0, family=name)
        assert table.num_rows == 5
        return {row["value"]["n"] for row in table.to_pylist()}


def remove(file: Path) -> None:
    """Deletes a file and Hadoop's checksum file of it."""
    file.unlink()
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Counted:
    """Seven epochs with a savepoint of the second, and the cleanup of Spark since then."""
    it = Counted(spark, tmp_path)
    for at in range(7):
        it.run("a", "b")
        if at == 1:
            Checkpoint(str(it.checkpoint)).create_savepoint("early")
    it.purge()
    assert int(it.descriptions()[0].name) > 1
    return it


def test_a_savepoint_with_a_purged_schema_file_is_rolled_back_to(query: Counted) -> None:
    location = str(query.checkpoint)
    assert query.counts("a") == {28}
    plan = cleancut.rollback(location, "early", session=query.session)
    assert (plan.source, plan.copies_rows) == (1, False)
    plan.apply(query.session)
    assert query.counts("a") == {8}
    # All later input is read again.
    query.run("a", "b")
    assert query.counts("a") == query.counts("b") == {32}
    cleancut.rollback(location, undo=True, session=query.session).apply(query.session)
    assert query.counts("b") == {28}


def test_a_clone_of_it_continues(query: Counted, tmp_path: Path) -> None:
    into = tmp_path / "copy"
    plan = cleancut.clone(
        str(query.checkpoint), str(into), "early", session=query.session, partitions=3
    )
    plan.apply(query.session)
    query.checkpoint = into
    assert query.counts("a") == {8}
    query.run("a", "b")
    assert query.counts("b") == {32}


def test_a_later_schema_file_has_more_variables(query: Counted) -> None:
    """A variable added later has a schema, and no rows in the earlier state."""
    query.run("a", "b", "c")
    query.run("a", "b", "c")
    query.run("a", "b", "c")
    for description in query.descriptions()[:-1]:
        remove(description)
    location = str(query.checkpoint)
    cleancut.rollback(location, "early", session=query.session).apply(query.session)
    assert query.counts("a") == {8}
    query.run("a", "b", "c")
    assert query.counts("a") == {44}
    assert query.counts("c") == {36}


def test_a_schema_file_without_a_variable_of_the_cut_is_refused(
    query: Counted, spark: SparkSession, tmp_path: Path
) -> None:
    other = Counted(spark, tmp_path / "other")
    other.run("a")
    kept = query.descriptions()
    for description in kept:
        remove(description)
        shutil.copyfile(other.descriptions()[0], description)
    before = sorted(query.checkpoint.rglob("*"))
    with pytest.raises(
        RequestError, match="family b of operator 0 is missing or has another schema"
    ) as raised:
        cleancut.rollback(str(query.checkpoint), "early", session=query.session)
    assert raised.value.error_id == "CLEANCUT_OPERATION_REFUSED"
    assert f"roll back to epoch {kept[0].name} or later" in str(raised.value)
    assert sorted(query.checkpoint.rglob("*")) == before
