"""How a sink reaches a database: transactions that are begun again when a connection is lost."""

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
    """A transaction that is open.

    Attributes:
        connection: what the driver calls a connection, for what `run` does not do.
    """

    connection: Any

    def run(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        """Executes one statement.

        Args:
            sql: with `:name` instead of each value; a colon that begins no name is doubled.
            values: by name: None, bool, int, float, Decimal, str, bytes, date, time, datetime,
                UUID, and what else the driver binds.

        Returns:
            The rows, if it gives any.
        """


class Reached(Protocol[Opened]):
    """A target that is asked again where it does not answer, or where two have changed it."""

    def transaction(self) -> AbstractContextManager[Opened]:
        """Opens it as it is now; what is changed there is changed as a whole or not at all."""

    def verdict(self, failure: Exception) -> str:
        """What a failure is.

        Returns:
            "lost" (the connection), "again" (a conflict), "error" (the target refuses the request),
            or "foreign" (the failure is none of the target).
        """

    def secrets(self) -> Sequence[str]:
        """What may stand in no text."""


class Database(Reached[Transaction], Protocol):
    """A database, as both the driver and its executors reach it: it can be pickled.

    Each transaction has a connection of its own, and is committed at the end of the block; what the
    block raises rolls it back.
    """

    @property
    def label(self) -> str:
        """Its place, without a secret."""

    @property
    def lock(self) -> str:
        """What a SELECT ends in, so that its rows are this transaction's."""

    @property
    def text(self) -> str:
        """Its type of texts of any length."""

    @property
    def made_with(self) -> str:
        """What stands after the columns of a table that is made."""

    def ingest(self, of: Transaction, table: str, batches: "Iterator[pa.RecordBatch]") -> int:
        """Adds rows to a table; how many these were.

        Args:
            of: an open transaction.
            table: its name, as `quoted` gives it.
            batches: with the columns of the table, by name.
        """


def within(
    target: Reached[Opened], seconds: float, work: Callable[[Opened], Result], sink: str
) -> Result:
    """Does something in a transaction, and again where a connection is lost or two conflict.

    After a connection was lost in the commit nobody knows whether that took effect, so the work has
    to look for itself.

    Args:
        target: where.
        seconds: after which no new try is begun.
        work: what to do; may be called several times.
        sink: whose name stands in errors.

    Raises:
        RetryableError: CLEANCUT_SINK_UNREACHABLE.
        RequestError: CLEANCUT_SINK_REFUSED, the target says that it cannot be done.
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
    """Does something, and again where a server is not there, or wants it to be done again.

    Args:
        once: what to do; may be called several times.
        verdict: what a failure is, as `Reached.verdict`.
        secrets: what may stand in no text.
        seconds: after which no new try is begun.
        sink: whose name stands in errors.

    Raises:
        RetryableError: CLEANCUT_SINK_UNREACHABLE.
        RequestError: CLEANCUT_SINK_REFUSED, the server says that it cannot be done.
        Exception: unchanged, what is none of the server: of a user's function, or of Spark.
    """
    deadline = time.monotonic() + seconds
    wait = _FIRST_WAIT_S
    while True:
        try:
            return once()
        except CleancutError:
            raise
        except Exception as failure:
            found = "foreign" if _is_of_spark(failure) else verdict(failure)
            if found == "foreign":
                raise
            detail = scrubbed(failure, secrets)
        if found == "error":
            raise error_of("CLEANCUT_SINK_REFUSED", sink=sink, reason=detail)
        if time.monotonic() + wait > deadline:
            raise error_of("CLEANCUT_SINK_UNREACHABLE", sink=sink, seconds=seconds, detail=detail)
        _LOG.warning("%s: it is tried again: %s", sink, detail)
        # Of two that conflict both come back.
        time.sleep(wait * random.uniform(0.5, 1.0))
        wait = min(2 * wait, _LONGEST_WAIT_S)


def _is_of_spark(failure: Exception) -> bool:
    return type(failure).__module__.partition(".")[0] in ("pyspark", "py4j")


def scrubbed(failure: object, secrets: Sequence[str]) -> str:
    """What a driver says, in one line and without secrets."""
    text = " ".join(_COLOURS.sub("", str(failure)).split())
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return masked(text)


def masked(text: str) -> str:
    """A text in whose connection strings no password stands."""
    return _WORD_PASSWORD.sub(r"\1=***", _URL_PASSWORD.sub(r"\1***@", text))
