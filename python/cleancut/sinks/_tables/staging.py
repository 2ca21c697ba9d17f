"""Staging tables: their names, and the writes of tasks."""

import hashlib
import json
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from cleancut.errors import CleancutError, error_of
from cleancut.sinks._core.columns import StagedColumn
from cleancut.sinks._core.database import Database, Transaction, retried, scrubbed
from cleancut.sinks._tables.statements import TRY

if TYPE_CHECKING:
    import pyarrow as pa

_DIGITS = 16


class StagingNames:
    """Builds and parses the names of the staging tables of one query for one target.

    They are in the schema of the target. No name is longer than 63 letters, which is PostgreSQL's
    limit.

    Attributes:
        prefix: prefix of all names.
    """

    def __init__(self, target_key: str) -> None:
        digest = hashlib.sha256(target_key.encode()).hexdigest()[:12]
        self.prefix = f"cleancut_staged_{digest}_"
        self._pattern = re.compile(rf"{self.prefix}([0-9]{{{_DIGITS}}})_[0-9a-f]+")

    def fresh(self, epoch: int, token: str) -> str:
        """The name of the staging table of one attempt of an epoch."""
        return f"{self.prefix}{epoch:0{_DIGITS}d}_{token}"

    def shared(self, columns: Sequence[StagedColumn], role: str) -> str:
        """The name of the table that all epochs with these columns and this role share."""
        kinds = json.dumps([role, *((column.name, column.form.staged) for column in columns)])
        return f"{self.prefix}all_{hashlib.sha256(kinds.encode()).hexdigest()[:16]}"

    def is_shared(self, name: str) -> bool:
        """Whether several epochs share a table."""
        return name.startswith(f"{self.prefix}all_")

    def epoch(self, name: str) -> int:
        """The epoch of a table; the greatest number if it has none."""
        match = self._pattern.fullmatch(name)
        return int(match[1]) if match else 2**63


def attempts_of(epoch: int) -> str:
    """The prefix of all attempts' names in an epoch; later epochs have greater prefixes."""
    return f"{epoch:0{_DIGITS}d}"


def stage_partition(
    database: Database,
    table: str,
    sink: str,
    epoch: int,
    batches: "Iterator[pa.RecordBatch]",
    *,
    seconds: float = 60.0,
) -> "Iterator[pa.RecordBatch]":
    """Writes a partition in one transaction; returns the name of the attempt and its rows.

    If a task runs twice, the table may have the rows of both attempts. The driver publishes those
    of the attempt whose report Spark accepts.

    Args:
        database: database of the target.
        table: the staging table.
        epoch: the epoch.
        sink: name of the sink, for errors.
        batches: the rows of the partition.
        seconds: seconds for which a connection is retried.

    Raises:
        RetryableError: CLEANCUT_SINK_UNREACHABLE.
        RequestError: CLEANCUT_SINK_REFUSED.
    """
    import pyarrow as pa

    attempt = attempts_of(epoch) + secrets.token_hex(8)
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return

    def stamped() -> "Iterator[pa.RecordBatch]":
        batch = first
        while batch is not None:
            names = pa.array([attempt] * batch.num_rows, pa.string())
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, names], names=[*batch.schema.names, TRY]
            )
            batch = next(filled, None)

    def opened() -> tuple[ExitStack, Transaction]:
        stack = ExitStack()
        return stack, stack.enter_context(database.transaction())

    # The batches can be read only once, so only the connection is retried.
    stack, transaction = retried(opened, database.verdict, database.secrets(), seconds, sink)
    try:
        with stack:
            rows = database.ingest(transaction, table, stamped())
    except CleancutError:
        raise
    except Exception as failure:
        verdict, detail = database.verdict(failure), scrubbed(failure, database.secrets())
        if verdict == "foreign":
            raise
        if verdict == "error":
            # The cause may contain the connection string with its password.
            raise error_of("CLEANCUT_SINK_REFUSED", sink=sink, reason=detail) from None
        raise error_of("CLEANCUT_SINK_UNREACHABLE", sink=sink, seconds=0, detail=detail) from None
    yield pa.RecordBatch.from_pydict(
        {"attempt": pa.array([attempt]), "rows": pa.array([rows], pa.int64())}
    )
