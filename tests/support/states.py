"""The last state of a query, by Spark's own reader."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession


def state(
    spark: SparkSession, root: Path, settings: Mapping[str, str] | None = None, **options: str
) -> dict[tuple[int, str], list[str]]:
    """Returns the sorted rows of each state store of the query at `root`.

    The keys are operator and store name, or side of a join.

    Args:
        spark: a session with the providers on its class path.
        root: the directory in which `tests.support.sessions.start` ran the query.
        settings: configuration of the query that its reader needs too.
        options: more options of the reader.
    """
    location = str(root / "checkpoint")
    session = spark.newSession()
    for key, value in (settings or {}).items():
        session.conf.set(key, value)
    stores = session.read.format("state-metadata").load(location)
    state_rows = {}
    for operator, kind, name, properties in stores.select(
        "operatorId", "operatorName", "stateStoreName", "operatorProperties"
    ).collect():
        reader = session.read.format("statestore").options(**options).option("operatorId", operator)
        # From format 3 a join has all of its state in one store, and only its sides can be read.
        if kind == "symmetricHashJoin" and name == "default":
            parts = {side: reader.option("joinSide", side) for side in ("left", "right")}
        elif kind.startswith("transformWithState"):
            variables = (
                variable["stateName"] for variable in json.loads(properties)["stateVariables"]
            )
            # Spark's own variables, of timers, are read in another way.
            public = [variable for variable in variables if not variable.startswith("$")]
            parts = {variable: reader.option("stateVarName", variable) for variable in public}
        else:
            parts = {name: reader.option("storeName", name)}
        for part, chosen in parts.items():
            rows = chosen.load(location)
            state_rows[operator, part] = sorted(str(row) for row in rows.collect())
    return state_rows


def comparable(state: dict[tuple[int, str], list[str]]) -> dict[tuple[int, str], list[str]]:
    """Returns the state without the values that Spark 4.3 misreads from RocksDB.

    These are the times in the keys of a join of format 4.
    """
    return {
        store: sorted(re.sub(r"__event_time=-?\d+", "__event_time", row) for row in rows)
        for store, rows in state.items()
    }


def read_state(
    spark: SparkSession, root: Path, settings: Mapping[str, str] | None = None, **options: str
) -> dict[tuple[int, str], list[str]]:
    """The `comparable` part of `state`."""
    return comparable(state(spark, root, settings, **options))
