"""Graphs with added and dropped edges, as loops, and the results of a batch.

A row of the loops is about the vertex `v`. From outside come "add" and "drop" of an edge to `w`,
numbered by `n`; round the loop come messages of other vertices.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

SCHEMA = "v BIGINT, kind STRING, w BIGINT, x DOUBLE, d BIGINT, n BIGINT"
VERTICES = 12
DAMPING = 0.5
# Smaller changes are not sent.
EPSILON = 1e-5
_STATE = "state STRING"
Edge = tuple[int, int]


def draw_changes(
    seed: int, files: int, each: int, *, directed: bool
) -> list[list[tuple[str, Edge]]]:
    """Draws added and dropped edges by file; of undirected edges, the lower end comes first."""
    draw = random.Random(seed)
    there: set[Edge] = set()
    drawn = []
    for _ in range(files):
        changes: list[tuple[str, Edge]] = []
        for _ in range(each):
            if there and draw.random() < 0.35:
                gone = draw.choice(sorted(there))
                there.remove(gone)
                changes.append(("drop", gone))
            else:
                ends = draw.sample(range(VERTICES), 2)
                one, other = ends if directed else sorted(ends)
                if (one, other) not in there:
                    there.add((one, other))
                    changes.append(("add", (one, other)))
        drawn.append(changes)
    return drawn


def write_changes(path: Path, changes: list[tuple[str, Edge]], first: int, *, both: bool) -> None:
    """Writes an input file, with an edge from both of its ends or from the first."""
    rows = []
    for number, (kind, (one, other)) in enumerate(changes, first):
        ends = [(one, other), (other, one)] if both else [(one, other)]
        rows += [{"v": v, "kind": kind, "w": w, "n": number} for v, w in ends]
    path.write_text("\n".join(map(json.dumps, rows)))


def edges_after(changes: list[list[tuple[str, Edge]]]) -> set[Edge]:
    there: set[Edge] = set()
    for kind, edge in (change for file in changes for change in file):
        (there.add if kind == "add" else there.discard)(edge)
    return there


def ranks(rows: DataFrame) -> DataFrame:
    """PageRank by changes: a vertex sends another the difference of its contribution."""
    return _by_vertex(rows, _rank)


def components(rows: DataFrame) -> DataFrame:
    """The lowest vertex that each vertex is connected to, and the number of edges to it."""
    return _by_vertex(rows, _component)


def _by_vertex(rows: DataFrame, step: Any) -> DataFrame:
    return rows.groupBy("v").applyInPandasWithState(
        step, SCHEMA, _STATE, "append", GroupStateTimeout.NoTimeout
    )


def _state(state: GroupState) -> dict[str, Any]:
    return json.loads(state.get[0]) if state.exists else {}


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    columns = ["v", "kind", "w", "x", "d", "n"]
    types = {"v": "int64", "w": "Int64", "x": "float64", "d": "Int64", "n": "Int64"}
    return pd.DataFrame(rows, columns=columns).astype(types)


def _in_order(frames: Iterator[pd.DataFrame]) -> tuple[list[Any], list[Any]]:
    """Sorts messages first, and then changes by number."""
    rows = [row for frame in frames for row in frame.itertuples(index=False)]
    changes = [row for row in rows if row.kind in ("add", "drop")]
    return (
        [row for row in rows if row.kind not in ("add", "drop")],
        sorted(changes, key=lambda row: row.n),
    )


def _rank(
    key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    vertex = int(key[0])
    fields = _state(state)
    rank, given = fields.get("rank", 1 - DAMPING), fields.get("given", {})
    out = []
    messages, changes = _in_order(frames)
    rank += sum(row.x for row in messages)
    for row in changes:
        if row.kind == "add":
            given.setdefault(str(int(row.w)), 0.0)
        else:
            out.append({"v": int(row.w), "kind": "delta", "x": -given.pop(str(int(row.w)))})
    for other, before in given.items():
        gives = DAMPING * rank / len(given)
        if abs(gives - before) > EPSILON:
            out.append({"v": int(other), "kind": "delta", "x": gives - before})
            given[other] = gives
    state.update((json.dumps({"rank": rank, "given": given}),))
    yield _frame([*out, {"v": vertex, "kind": "rank", "x": rank}])


def _component(
    key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    vertex = int(key[0])
    fields = _state(state)
    heard, sent = fields.get("heard", {}), fields.get("sent")
    messages, changes = _in_order(frames)
    for row in messages:
        # A message that was sent before its edge was dropped is ignored.
        if str(int(row.n)) in heard:
            heard[str(int(row.n))] = [int(row.w), int(row.d)]
    fresh = []
    for row in changes:
        if row.kind == "add":
            heard[str(int(row.w))] = None
            fresh.append(str(int(row.w)))
        else:
            heard.pop(str(int(row.w)), None)
    # A lost component is reported over more and more edges, until the limit is reached.
    known = [(label, far + 1) for label, far in filter(None, heard.values())]
    label, far = min([(vertex, 0), *((label, far) for label, far in known if far < VERTICES)])
    whom = heard if sent != [label, far] else [other for other in fresh if other in heard]
    out = [{"v": int(other), "kind": "label", "w": label, "d": far, "n": vertex} for other in whom]
    state.update((json.dumps({"heard": heard, "sent": [label, far]}),))
    yield _frame([*out, {"v": vertex, "kind": "component", "w": label}])


def ranks_of(edges: set[Edge], vertices: set[int]) -> dict[int, float]:
    """Computes the result of a batch by iteration over all edges."""
    outs = {v: [w for u, w in edges if u == v] for v in vertices}
    rank = dict.fromkeys(vertices, 1 - DAMPING)
    for _ in range(100):
        after = dict.fromkeys(vertices, 1 - DAMPING)
        for v, others in outs.items():
            for w in others:
                after[w] += DAMPING * rank[v] / len(others)
        rank = after
    return rank


def components_of(edges: set[Edge], vertices: set[int]) -> dict[int, int]:
    """Computes the result of a batch."""
    label = {v: v for v in vertices}
    for _ in vertices:
        for u, w in edges:
            label[u] = label[w] = min(label[u], label[w])
    return label
