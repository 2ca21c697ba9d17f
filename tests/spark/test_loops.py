"""Loops that end by themselves, with the rows of the loop in their cuts."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of PySpark uses

import cleancut
from cleancut import Channel
from cleancut.sinks import EpochFiles, fan_out, transformed
from tests.support import graphs
from tests.support.documented import blocks
from tests.support.seeds import fixed
from tests.support.sessions import with_cuts
from tests.support.tiers import long

pytestmark = pytest.mark.spark

SEED = fixed(71)


class Graph:
    """A loop over edges, one file per epoch."""

    def __init__(self, spark: SparkSession, home: Path, kind: str) -> None:
        self.spark = with_cuts(spark, 2)
        self.home = home
        self.kind = kind
        self.channel = Channel(home / "loop", schema=graphs.SCHEMA)
        self.files = EpochFiles(home / "out")
        self.changes: list[list[tuple[str, graphs.Edge]]] = []
        (home / "in").mkdir()

    @property
    def checkpoint(self) -> str:
        return str(self.home / "checkpoint")

    def add(self, changes: list[tuple[str, graphs.Edge]]) -> None:
        path = self.home / "in" / f"{len(self.changes):05}.json"
        first = 1000 * len(self.changes)
        graphs.write_changes(path, changes, first, both=self.kind == "component")
        os.utime(path, (len(self.changes), len(self.changes)))
        self.changes.append(changes)

    def run(self) -> None:
        """Runs the loop until no rows are left in it."""
        edges = self.spark.readStream.schema(graphs.SCHEMA).option("maxFilesPerTrigger", 1)
        kinds = {"rank": (graphs.ranks, "delta"), "component": (graphs.components, "label")}
        body, message = kinds[self.kind]
        loop = cleancut.dataflow.iterate(
            edges.json(str(self.home / "in")),
            body,
            channel=self.channel,
            feedback=lambda out: out.where(F.col("kind") == message),
            sink=transformed(self.files, lambda out: out.where(F.col("kind") == self.kind)),
        )
        writer = loop.option("checkpointLocation", self.checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()

    def latest_values(self) -> dict[int, Any]:
        """The latest value that each vertex emitted."""
        rows = self.files.read(self.spark, epoch_column="e").orderBy("e").collect()
        column = "x" if self.kind == "rank" else "w"
        return {row["v"]: row[column] for row in rows}

    def expected(self) -> dict[int, Any]:
        vertices = {v for file in self.changes for _, edge in file for v in edge}
        edges = graphs.edges_after(self.changes)
        batch: Callable[..., dict[int, Any]] = (
            graphs.ranks_of if self.kind == "rank" else graphs.components_of
        )
        return batch(edges, vertices)

    def check(self) -> None:
        actual, expected = self.latest_values(), self.expected()
        if self.kind == "rank":
            # The values that a vertex does not send add up along all edges.
            assert actual == pytest.approx(expected, abs=graphs.EPSILON * 200)
        else:
            assert actual == expected


@long
@pytest.mark.parametrize("kind", ["rank", "component"])
def test_a_loop_ends_with_the_result_of_a_batch(
    spark: SparkSession, tmp_path: Path, kind: str, show: Callable[[str], None]
) -> None:
    graph = Graph(spark, tmp_path, kind)
    changes = graphs.draw_changes(SEED, files=2, each=30, directed=kind == "rank")
    assert any(kind == "drop" for file in changes for kind, _ in file)
    for file in changes:
        graph.add(file)
        graph.run()
        graph.check()
    epochs = graph.channel.epochs()
    show(
        f"seed {SEED}: {len(epochs)} epochs, {sum(epoch.rows for epoch in epochs)} rows came round"
    )
    assert len(epochs) > 2 * len(changes)
    # Without new rows there is no epoch.
    graph.run()
    assert len(graph.channel.epochs()) == len(epochs)


def test_the_cut_of_a_rollback_has_the_rows_of_the_loop(
    spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    graph = Graph(spark, tmp_path, "rank")
    for file in graphs.draw_changes(SEED + 1, files=2, each=30, directed=True):
        graph.add(file)
    graph.run()
    expected = graph.latest_values()
    checkpoint = cleancut.Checkpoint(graph.checkpoint)
    last = checkpoint.cuts()[-1].epoch
    # In the middle of the loop, while rows are in it.
    sent = {epoch.epoch: epoch.rows for epoch in graph.channel.epochs()}
    back = last // 2
    read = json.loads(checkpoint.cut(back).offsets["1"] or "{}")["epoch"]
    on_their_way = sum(rows for epoch, rows in sent.items() if read < epoch <= back)
    assert on_their_way > 0
    left = sum(rows for epoch, rows in sent.items() if epoch > back)
    assert left > 0
    show(
        f"back to epoch {back} of {last}, with {on_their_way} rows on their way round, {left} left"
    )
    cleancut.rollback(graph.checkpoint, back).apply()
    graph.run()
    assert graph.latest_values() == pytest.approx(expected, abs=graphs.EPSILON * 200)
    graph.check()
    # The unread rows are not read again: they would be duplicates.
    held = [epoch.epoch for epoch in graph.channel.epochs()]
    assert held[: back + 1] == list(range(back + 1))
    assert held[back + 1] == last + 3
    newest = checkpoint.cut().offsets["1"] or "{}"
    assert json.loads(newest)["epoch"] == max(
        epoch.epoch for epoch in graph.channel.epochs() if epoch.rows
    )
    graph.run()
    assert len(graph.channel.epochs()) == len(held)


@long
def test_new_input_waits_while_the_loop_has_many_rows(spark: SparkSession, tmp_path: Path) -> None:
    session = with_cuts(spark, 1)
    source, loop = Channel(tmp_path / "source"), Channel(tmp_path / "loop", schema="v BIGINT")
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.json").write_text(f'{{"v": {number}}}')
        os.utime(tmp_path / "in" / f"{number}.json", (number, number))
    files = session.readStream.schema("v BIGINT").option("maxFilesPerTrigger", 1)
    sender = files.json(str(tmp_path / "in")).writeStream.foreachBatch(source)
    sender = sender.option("checkpointLocation", str(tmp_path / "sender"))
    sender.trigger(availableNow=True).start().awaitTermination()
    taken: list[list[int]] = []
    sink = fan_out(transformed(loop, lambda rows: rows.where("v < 100").selectExpr("v + 50 as v")))

    def write(df: DataFrame, epoch: int) -> None:
        with sink.epoch(df, epoch) as opened:
            taken.append(sorted(row["v"] for row in opened.rows.collect()))
            opened.write(opened.rows)

    # One epoch at a time of both, and none of the source while more than a byte is in the loop.
    head = source.stream(session, max_epochs=1, yields_to=loop, yields_above=1)
    rows = head.unionByName(loop.stream(session, feedback=True, max_epochs=1))
    query = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "q"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert sorted(v for batch in taken for v in batch) == [0, 1, 2, 50, 51, 52, 100, 101, 102]
    assert taken[0] == [0]


def test_the_documented_loop(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.json").write_text('{"v": 1, "x": 8.0}')
    session = with_cuts(spark, 1)
    names: dict[str, Any] = {
        "cleancut": cleancut,
        "Channel": Channel,
        "EpochFiles": EpochFiles,
        "transformed": transformed,
        "edges": session.readStream.schema("v BIGINT, x DOUBLE").json(str(tmp_path / "in")),
        # A vertex passes half of its value to the next one, until the value is too small.
        "body": lambda rows: rows.withColumn("kind", F.lit("rank")).unionByName(
            rows.where("x > 1")
            .select((F.col("v") + 1).alias("v"), (F.col("x") / 2).alias("x"))
            .withColumn("kind", F.lit("delta"))
        ),
    }
    code = blocks("docs/use/channels.md", "python")[-1]
    exec(code.replace('"/ranks', f'"{tmp_path}'), names)
    names["query"].awaitTermination()
    ranks = EpochFiles(tmp_path / "out").read(session).collect()
    assert {(row["v"], row["x"]) for row in ranks} == {(1, 8.0), (2, 4.0), (3, 2.0), (4, 1.0)}
