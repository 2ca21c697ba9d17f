"""Checks whether a query can start on a checkpoint, and what changes if it does."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from cleancut._brief import Brief
from cleancut._operations.offline import driver_for, driver_method
from cleancut.errors import translating

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, repr=False)
class Difference(Brief):
    """A difference between a query and a checkpoint.

    Attributes:
        kind: "refused", Spark does not start the query; "kept", it starts and uses the value of the
            checkpoint; "changed", it starts and its results change.
        subject: an operator, "sources", "watermark", "the query", or a setting of Spark.
        description: what differs.
        advice: what to do; empty if nothing is needed.
    """

    kind: Literal["refused", "kept", "changed"]
    subject: str
    description: str
    advice: str


@dataclass(frozen=True, repr=False)
class Compatibility(Brief):
    """Whether a query can start on a checkpoint. True if it can.

    Attributes:
        location: the checkpoint location, as Spark resolves it.
        epoch: the last committed epoch.
        ok: whether Spark starts the query.
        operators: the names of the query's stateful operators by Spark's operator id; empty if
            Spark cannot plan the query.
        differences: in the order of their subjects; empty if the query is unchanged.
    """

    location: str
    epoch: int
    ok: bool
    operators: Mapping[int, str]
    differences: tuple[Difference, ...]

    def __bool__(self) -> bool:
        return self.ok

    def to_dict(self) -> Mapping[str, Any]:
        """The result as plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        can = "can" if self.ok else "cannot"
        lines = [f"The query {can} start on {self.location} after epoch {self.epoch}."]
        for difference in self.differences:
            lines.append(f"{difference.kind:8} {difference.subject}: {difference.description}.")
            if difference.advice:
                lines.append(f"{'':8} {difference.advice}")
        return "\n".join(lines)


def check_compatibility(
    location: str,
    query: "DataFrame",
    output_mode: Literal["append", "update", "complete"] = "append",
) -> Compatibility:
    """Checks whether a query can start on a checkpoint, without starting it.

    Spark plans the first epoch as at a start, without input, on a copy of the operators' metadata,
    and makes all checks that it makes then. The state is not read, so the call takes as long as
    planning does.

    Args:
        location: the `checkpointLocation` of a query, which may run.
        query: the streaming DataFrame that would be written.
        output_mode: the output mode of the write.

    Returns:
        The differences. It does not find what Spark does not check: another source of the same
        kind, another meaning of a column, another function over rows of the same schema.

    Raises:
        RequestError: CLEANCUT_CHECKPOINT_NOT_FOUND; CLEANCUT_OPERATION_REFUSED, the DataFrame is
            not streaming, or no epoch with state has been committed; CLEANCUT_SESSION_MISSING;
            CLEANCUT_CONNECT_UNSUPPORTED.
    """
    driver = driver_for(query.sparkSession, "check_compatibility")
    with translating():
        check = driver_method(driver, "check_compatibility")
        answer = json.loads(check(driver.session, location, driver.given(query), output_mode))
    return Compatibility(
        location=answer["location"],
        epoch=answer["epoch"],
        ok=answer["isCompatible"],
        operators={op["operator"]: op["name"] for op in answer["operators"]},
        differences=tuple(Difference(**finding) for finding in answer["findings"]),
    )
