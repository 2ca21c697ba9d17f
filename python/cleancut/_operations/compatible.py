"""What a query may change: whether it can be started on a checkpoint, and what becomes of it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from cleancut._brief import Brief
from cleancut._operations.offline import driver_for
from cleancut.errors import translating

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, repr=False)
class Difference(Brief):
    """Where a query and a checkpoint are not of one mind.

    Attributes:
        kind: "refused", Spark does not start the query; "kept", it starts, and goes by the
            checkpoint; "changed", it starts, and does something else than before.
        subject: an operator, "sources", "watermark", "the query", or a setting of Spark's.
        what: what differs.
        advice: what can be done about it; empty where nothing needs to be.
    """

    kind: Literal["refused", "kept", "changed"]
    subject: str
    what: str
    advice: str


@dataclass(frozen=True, repr=False)
class Compatibility(Brief):
    """Whether a query can be started on a checkpoint. True if it can.

    Attributes:
        location: the checkpoint location, as Spark resolves it.
        epoch: the last epoch that is committed there.
        ok: whether Spark starts the query.
        operators: the names of the query's stateful operators, by Spark's ids; none where Spark
            cannot plan the query at all.
        differences: in the order of what they are about; none if the query is what it was.
    """

    location: str
    epoch: int
    ok: bool
    operators: Mapping[int, str]
    differences: tuple[Difference, ...]

    def __bool__(self) -> bool:
        return self.ok

    def to_dict(self) -> Mapping[str, Any]:
        """The same as plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        can = "can" if self.ok else "cannot"
        lines = [f"The query {can} go on from {self.location} after epoch {self.epoch}."]
        for of in self.differences:
            lines.append(f"{of.kind:8} {of.subject}: {of.what}.")
            if of.advice:
                lines.append(f"{'':8} {of.advice}")
        return "\n".join(lines)


def compatible(
    location: str,
    query: "DataFrame",
    output_mode: Literal["append", "update", "complete"] = "append",
) -> Compatibility:
    """Tells what would become of a query that is started on a checkpoint. Nothing is started.

    Spark plans the first epoch as it would at the start, without input, beside a copy of what the
    checkpoint says of its operators, and makes all the checks that it makes then. The state is not
    read, so it takes as long as planning does.

    Args:
        location: the checkpointLocation of a query that is stopped, or runs.
        query: the streaming DataFrame that would be written.
        output_mode: in which it would be.

    Returns:
        What differs. What Spark does not look at is not found: another source in the place of one,
        another meaning of a column, another function over rows of the same schema.

    Raises:
        RequestError: CLEANCUT_CHECKPOINT_NOT_FOUND; CLEANCUT_OPERATION_REFUSED, the DataFrame is
            not a streaming one, or nothing that has state has been committed there;
            CLEANCUT_SESSION_MISSING, CLEANCUT_CONNECT_UNSUPPORTED.
    """
    driver = driver_for(query.sparkSession, "compatible")
    with translating():
        compare = driver.side("offline").compatible
        told = json.loads(compare(driver.session, location, driver.given(query), output_mode))
    return Compatibility(
        location=told["location"],
        epoch=told["epoch"],
        ok=told["isCompatible"],
        operators={of["operator"]: of["name"] for of in told["operators"]},
        differences=tuple(Difference(**of) for of in told["findings"]),
    )
