"""Database access of a sink: transactions that are retried after a lost connection."""

import logging
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from cleancut.errors import CleancutError, error_of

if TYPE_CHECKING:
    import pyarrow as pa

_LOG = logging.getLogger("cleancut.sinks")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FIRST_WAIT_S = 0.05
_LONGEST_WAIT_S = 2.0
_URL_PASSWORD = re.compile(r"(://[^:/@\s]*:)[^@\s]+@")
_WORD_PASSWORD = re.compile(r"(?i)\b(\w*passw(?:or)?d|pwd)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&]+)")

Result = TypeVar("Result")
Opened = TypeVar("Opened", covariant=True)


class Transaction(Protocol):
    """An open transaction.

    Attributes:
        connection: the driver's connection, for operations that `run` does not support.
    """

    connection: Any

    def run(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        """Executes one statement.

        Args:
            sql: SQL with `:name` for each value; write a literal colon as two colons.
            values: the values by name: None, bool, int, float, Decimal, str, bytes, date, time,
                datetime, UUID, and other types that the driver binds.

        Returns:
            The rows; empty for a statement without a result.
        """


class Reached(Protocol[Opened]):
    """A target whose transactions are retried after lost connections and conflicts."""

    def transaction(self) -> AbstractContextManager[Opened]:
        """Opens the current state of the target; changes are atomic."""

    def verdict(self, failure: Exception) -> str:
        """Classifies a failure.

        Returns:
            "lost" (the connection), "again" (a conflict), "error" (the target refuses the request),
            or "foreign" (the failure does not come from the target).
        """

    def secrets(self) -> Sequence[str]:
        """Texts that must not appear in errors and logs."""


class Database(Reached[Transaction], Protocol):
    """A database that both the driver and its executors can reach; it can be pickled.

    Each transaction has its own connection. The end of the block commits it, and an exception in
    the block rolls it back.
    """

    @property
    def label(self) -> str:
        """Its location, without secrets."""

    @property
    def lock(self) -> str:
        """The last words of a SELECT that locks its rows for the transaction."""

    @property
    def text(self) -> str:
        """Its type for text of any length."""

    @property
    def made_with(self) -> str:
        """The last words of CREATE TABLE, after the columns."""

    def ingest(
        self, transaction: Transaction, table: str, batches: "Iterator[pa.RecordBatch]"
    ) -> int:
        """Adds rows to a table; returns their number.

        Args:
            transaction: an open transaction.
            table: its quoted name.
            batches: rows with the columns of the table, by name.
        """


def within(
    target: Reached[Opened], seconds: float, work: Callable[[Opened], Result], sink: str
) -> Result:
    """Runs work in a transaction, and retries it after a lost connection or a conflict.

    If the connection is lost during the commit, the outcome is unknown, so the work must check it.

    Args:
        target: the target.
        seconds: seconds after which no new attempt begins.
        work: the function to call; it may be called several times.
        sink: name of the sink, for errors.

    Raises:
        RetryableError: CLEANCUT_SINK_UNREACHABLE.
        RequestError: CLEANCUT_SINK_REFUSED, the target refuses the request.
    """

    def once() -> Result:
        with target.transaction() as open_one:
            return work(open_one)

    return retried(once, target.verdict, target.secrets(), seconds, sink)


def retried(
    once: Callable[[], Result],
    verdict: Callable[[Exception], str],
    secrets: Sequence[str],
    seconds: float,
    sink: str,
) -> Result:
    """Runs an operation, and retries it while the server is unavailable or reports conflicts.

    Args:
        once: the function to call; it may be called several times.
        verdict: classifies a failure, as `Reached.verdict`.
        secrets: texts that must not appear in errors.
        seconds: seconds after which no new attempt begins.
        sink: name of the sink, for errors.

    Raises:
        RetryableError: CLEANCUT_SINK_UNREACHABLE.
        RequestError: CLEANCUT_SINK_REFUSED, the server refuses the request.
        Exception: unchanged, a failure of a user's function or of Spark.
    """
    deadline = time.monotonic() + seconds
    wait = _FIRST_WAIT_S
    while True:
        try:
            return once()
        except CleancutError:
            raise
        except Exception as failure:
            verdict_of_failure = "foreign" if _is_of_spark(failure) else verdict(failure)
            if verdict_of_failure == "foreign":
                raise
            detail = scrubbed(failure, secrets)
        if verdict_of_failure == "error":
            raise error_of("CLEANCUT_SINK_REFUSED", sink=sink, reason=detail)
        if time.monotonic() + wait > deadline:
            raise error_of("CLEANCUT_SINK_UNREACHABLE", sink=sink, seconds=seconds, detail=detail)
        _LOG.warning("%s: retrying after: %s", sink, detail)
        # Random, so that two conflicting runs do not retry at the same time.
        time.sleep(wait * random.uniform(0.5, 1.0))
        wait = min(2 * wait, _LONGEST_WAIT_S)


def _is_of_spark(failure: Exception) -> bool:
    return type(failure).__module__.partition(".")[0] in ("pyspark", "py4j")


def scrubbed(failure: object, secrets: Sequence[str]) -> str:
    """A driver's message in one line and without secrets."""
    text = " ".join(_COLOURS.sub("", str(failure)).split())
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return masked(text)


def masked(text: str) -> str:
    """A text with all passwords in connection strings masked."""
    return _WORD_PASSWORD.sub(r"\1=***", _URL_PASSWORD.sub(r"\1***@", text))
