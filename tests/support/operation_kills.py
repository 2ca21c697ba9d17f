"""Operations on checkpoints with in-flight rows, in a process that the kill test kills.

`python -m tests.support.operation_kills OPERATION QUERY LOCATION EPOCH` runs one on the executors
of a cluster. It prints `BEGIN` when the operation is planned, and `END` when it is applied.
"""

import os
import sys
from typing import Any

from pyspark.sql import SparkSession

import cleancut
from cleancut.types import Plan
from tests.input_coverage.covering import CoveringSelections
from tests.input_coverage.space import Dimension, InputSpace
from tests.support.in_flight_queries import PARTITIONS, QUERIES, configured
from tests.support.sessions import builder, take_out_defaults

CLUSTER = "local-cluster[2,1,1024]"
OPERATION, QUERY, PLACE, KILLED, MOMENT, REPEATED = (
    "operation",
    "query",
    "checkpoint",
    "killed process",
    "moment",
    "if it is not done",
)
ROLLBACK, CLONE, EDIT = "rollback", "clone", "edit"
RESCALES = {
    "rescale to a multiple": 2 * PARTITIONS,
    "rescale to a divisor": PARTITIONS // 2,
    "rescale to another number": PARTITIONS + 1,
}
REWRITE = "rescale with copies"
DISK, BUCKET = "disk", "bucket"
DRIVER, EXECUTOR = "driver", "executor"
MOMENTS = ("first quarter", "second quarter", "third quarter", "last quarter")
AGAIN, CONTINUED = "run again", "query continues"
# Seconds after BEGIN within which most operations end; those by reference are shorter.
LONGEST_S = {CLONE: 4.0, EDIT: 4.0, REWRITE: 4.0}
USUAL_S = 2.0

SPACE = InputSpace(
    "killed operations with in-flight rows",
    [
        Dimension(OPERATION, (*RESCALES, REWRITE, ROLLBACK, CLONE, EDIT)),
        Dimension(QUERY, sorted(QUERIES)),
        Dimension(PLACE, (DISK, BUCKET)),
        Dimension(KILLED, (DRIVER, DRIVER, DRIVER, EXECUTOR)),
        Dimension(MOMENT, MOMENTS),
        Dimension(REPEATED, (AGAIN, CONTINUED)),
    ],
    [],
)
# `make chaos` runs as many, which have each pair.
CYCLE = 70
_SELECTIONS = CoveringSelections(SPACE, CYCLE)

# The arguments of an edit whose state is not that of the first operator's only store.
_EDITED: dict[str, dict[str, Any]] = {
    "pairs": {"side": "left"},
    "transformWithState": {"family": "count"},
    "transformWithStateInPandas": {"family": "count"},
}


def selected(seed: int, number: int) -> dict[str, Any]:
    """Returns the inputs of one of the operations of a seed, by dimension."""
    return SPACE.selected(_SELECTIONS[seed * CYCLE + number])


def covered_by(seed: int, number: int) -> dict[str, list[Any]]:
    """Returns the inputs of an operation for an `InputLog`."""
    return {name: [value] for name, value in selected(seed, number).items()}


def clone_of(location: str) -> str:
    """Returns the location of the clone of a query."""
    return location.replace("/checkpoint", "-clone/checkpoint")


def planned(operation: str, query: str, location: str, epoch: int, session: SparkSession) -> Plan:
    """Plans an operation.

    Args:
        operation: its name.
        query: the name of the query.
        location: its checkpoint.
        epoch: the target of a rollback.
        session: a session with the configuration of the query.
    """
    if operation in RESCALES:
        return cleancut.rescale(location, RESCALES[operation], session=session)
    if operation == REWRITE:
        return cleancut.rescale(location, PARTITIONS - 1, rewrite=True, session=session)
    if operation == ROLLBACK:
        return cleancut.rollback(location, epoch, session=session)
    if operation == CLONE:
        return cleancut.clone(location, clone_of(location), session=session)
    edited = _EDITED.get(query, {})
    return cleancut.edit(location, 0, lambda state: state, session=session, **edited)


def main(operation: str, query: str, location: str, epoch: int) -> None:
    """Runs an operation."""
    spark = cleancut.configure(builder(CLUSTER)).getOrCreate()
    take_out_defaults(spark)
    session = configured(spark, "unaligned")
    # An executor starts when it is needed.
    session.range(4).repartition(4).count()
    plan = planned(operation, query, location, epoch, session)
    print("BEGIN", flush=True)
    plan.apply(session)
    print("END", flush=True)
    # Without the shutdown of the cluster.
    os._exit(0)


if __name__ == "__main__":
    operation, query, location, epoch = sys.argv[1:]
    main(operation, query, location, int(epoch))
