"""The exceptions of Cleancut, by the next step of the operator.

    CleancutError
    ├── RetryableError   run it again without a change
    ├── FencedError      another run owns the query: start it again to take over
    ├── RequestError     change the call, the query, its configuration or its environment
    ├── CorruptedError   stored data is corrupted or missing: restore it or roll back
    └── InternalError    Cleancut has violated an invariant: report the error with its values

Which class an error belongs to follows from its id alone; `docs/reference/errors.md` lists all ids.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any

from cleancut._error_callbacks import raised_in_callbacks
from cleancut._error_catalog import error_classes
from cleancut._provider import PROVIDER_CLASS

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = [
    "CleancutError",
    "CorruptedError",
    "ErrorKind",
    "FencedError",
    "InternalError",
    "RequestError",
    "RetryableError",
    "find_error",
    "from_java",
]


class ErrorKind(Enum):
    """The next step of the operator; every id has exactly one kind."""

    RETRY = "RETRY"
    """Run it again without a change. Spark retries a failed task itself."""

    RESTART = "RESTART"
    """Another run owns the query. Start it again to take over."""

    FIX_REQUEST = "FIX_REQUEST"
    """Change the query, its configuration or its environment."""

    RESTORE = "RESTORE"
    """Stored data is corrupted or missing. Restore it or roll back."""

    REPORT = "REPORT"
    """Cleancut has violated an invariant. Report the error with its values."""


class CleancutError(Exception):
    """Base of all errors of Cleancut.

    Attributes:
        error_id: the id of the error class, such as `CLEANCUT_FRAME_CORRUPTED`.
        params: the facts of this error by name, all of them text.
        kind: what to do about it; each of the classes below has one of its own.
    """

    kind = ErrorKind.REPORT

    def __init__(self, error_id: str, params: Mapping[str, str], message: str) -> None:
        super().__init__(error_id, dict(params), message)
        self.error_id = error_id
        self.params = dict(params)

    @property
    def sql_state(self) -> str | None:
        """SQLSTATE of the error class; None if this release does not know the id."""
        error_class = error_classes().get(self.error_id)
        return None if error_class is None else error_class.sql_state

    @property
    def url(self) -> str | None:
        """Address of the error class in the documentation; None if the id is unknown."""
        error_class = error_classes().get(self.error_id)
        return None if error_class is None else error_class.url

    def __str__(self) -> str:
        return str(self.args[2])


class RetryableError(CleancutError):
    """It may succeed if it is run again without a change. Spark retries a failed task itself."""

    kind = ErrorKind.RETRY


class FencedError(CleancutError):
    """Another run owns the query. Start it again to take over."""

    kind = ErrorKind.RESTART


class RequestError(CleancutError):
    """The call, the query, its configuration or its environment must change."""

    kind = ErrorKind.FIX_REQUEST


class CorruptedError(CleancutError):
    """Stored data is corrupted or missing. Restore it or roll back."""

    kind = ErrorKind.RESTORE


class InternalError(CleancutError):
    """Cleancut has violated an invariant. Report the error with its values."""

    kind = ErrorKind.REPORT


# What a query with transformWithState fails with on any provider but Spark's RocksDB.
_REFUSED_BY_SPARK = (
    "org.apache.spark.sql.execution.streaming.state.StateStoreBackendNotSupportedForTWSException"
)

_BY_KIND: Mapping[str, type[CleancutError]] = {
    error.kind.value: error
    for error in (RetryableError, FencedError, RequestError, CorruptedError, InternalError)
}

# How a message of Cleancut begins where other processes and callbacks have put it into a text.
_IN_TEXT = re.compile(r"(?:^|: |\) )(\[(CLEANCUT_[A-Z_]+)\] .*)", re.MULTILINE)


# How a task on an executor fails that lacks what the driver has. Spark's words for a class that is
# not there are another type's where the plan has functions of that class.
_LACKS_JAR = re.compile(
    r"Lost task [^\n]*: (java\.lang\.(?:ClassNotFoundException: io\.cleancut\.\S+|"
    r"ClassCastException: cannot assign instance of java\.lang\.invoke\.SerializedLambda to field "
    r"org\.apache\.spark\.sql\.execution\.streaming\.\S+))"
)
# This package runs here, so that it is another process that has not found it.
_LACKS_PACKAGE = re.compile(r"(ModuleNotFoundError: No module named 'cleancut\b[^\n]*)")
_LACKS = {
    "CLEANCUT_JAR_NOT_ON_EXECUTORS": _LACKS_JAR,
    "CLEANCUT_PACKAGE_MISSING": _LACKS_PACKAGE,
}


def error_of(error_id: str, **params: object) -> CleancutError:
    """The exception for an id, with its message; made here only, raised by the caller."""
    error_class = error_classes()[error_id]
    # What is cut off of the words of others is in the cause.
    texts = error_class.fitted({name: str(value) for name, value in params.items()})
    return _BY_KIND[error_class.kind](error_id, texts, error_class.render(texts))


def first_line(error: BaseException) -> str:
    """What happened, without data loss, commands and address."""
    return str(error).partition("\n")[0]


def brief(error: BaseException) -> str:
    """What happened, and the fix, on one line for a list of errors."""
    first, *others = str(error).split("\n")
    return " ".join([first, *(line for line in others if line.startswith("Fix: "))])


def find_error(failed: "StreamingQuery | BaseException") -> CleancutError | None:
    """Finds the error of Cleancut that a query or a call has failed with, wherever it arose.

    That may be at the query's start, in its commit, in a task or a Python worker, or in its
    function for `foreachBatch`, whether the function was given by this package or not.

    Args:
        failed: a query, or what PySpark raised: when the query was started, by
            `awaitTermination()`, or by any other call. The JVM must still run, because the causes
            are read from it.

    Returns:
        The error with its id, kind and facts, what PySpark raised being its `__cause__`; None where
        the query has not failed, or Cleancut has no part in the failure.
    """
    if isinstance(failed, BaseException):
        return from_java(failed)
    raised: Any = failed.exception()
    if raised is None:
        return None
    # PySpark gives the causes of this exception as text only, so that the object is handed to it.
    raised._origin = failed._jsq.exception().get()
    return from_java(raised)


def from_java(exc: BaseException) -> CleancutError | None:
    """Finds the error of Cleancut that an exception from Spark was caused by; `of` takes queries.

    Args:
        exc: what PySpark raised, or what `StreamingQuery.exception()` returned. The JVM must still
            run, because the causes are read from it.

    Returns:
        The error with its id, kind and facts, `exc` being its `__cause__`; None where Cleancut
        has no part in the failure.
    """
    for error in _found(exc):
        if error is not exc:
            error.__cause__ = exc
        return error
    return None


@contextmanager
def translating() -> Iterator[None]:
    """Raises errors of Cleancut's JVM side as what they are here; any other goes through."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as failure:
        found = from_java(failure)
        if found is None:
            raise
        raise found from failure


def from_connect(failure: BaseException) -> CleancutError | None:
    """The error of Cleancut that a server of Spark Connect has answered with."""
    return next(_told(str(failure)), None)


def _found(exc: BaseException) -> Iterator[CleancutError]:
    """The errors behind an exception: first the objects, and texts only where there are none."""
    yield from _carried(exc)
    texts = [str(throwable.getMessage()) for throwable in java_throwables(exc)]
    # What PySpark has made of a Java exception, without keeping that.
    texts += [str(getattr(of_python, "_desc", "")) for of_python in _python_causes(exc)]
    for text in texts:
        for raised in raised_in_callbacks(text):
            yield from _carried(raised)
    for text in texts:
        yield from _told(text)
    for text in texts:
        yield from _lacking(text)
    if any(_is_class_of_ours_missing(throwable) for throwable in java_throwables(exc)):
        yield error_of("CLEANCUT_JAR_NOT_LOADED")


def _lacking(text: str) -> Iterator[CleancutError]:
    """What an executor lacks, by what Spark says of the task that failed of it."""
    for error_id, pattern in _LACKS.items():
        found = pattern.search(text)
        if found is not None:
            yield error_of(error_id, detail=found[1])


def _is_class_of_ours_missing(throwable: Any) -> bool:
    name = str(throwable.getClass().getName())
    missing = name == "java.lang.ClassNotFoundException"
    return missing and str(throwable.getMessage()).startswith("io.cleancut.")


def _carried(exc: BaseException) -> Iterator[CleancutError]:
    """Those that are part of an exception, in Python or in Java, causes after what they caused."""
    for python_exception in _python_causes(exc):
        if isinstance(python_exception, CleancutError):
            yield _copy(python_exception) if python_exception is not exc else python_exception
    for throwable in java_throwables(exc):
        error = _error_behind(throwable)
        if error is not None:
            yield error


def _copy(error: CleancutError) -> CleancutError:
    # The one that was raised keeps its own cause, and may be part of that of the copy.
    return type(error)(error.error_id, error.params, str(error))


def _told(text: str) -> Iterator[CleancutError]:
    """The errors whose messages are in a text, for a process that could not pass its error."""
    for match in _IN_TEXT.finditer(text):
        error_class = error_classes().get(match[2])
        if error_class is not None:
            parsed = error_class.parse(text[match.start(1) :])
            message, params = (match[1], {}) if parsed is None else parsed
            yield _BY_KIND[error_class.kind](match[2], params, message)


def _error_behind(throwable: Any) -> CleancutError | None:
    name = throwable.getClass().getName()
    if name == "io.cleancut.error.CleancutException":
        return _translated(throwable)
    if name == _REFUSED_BY_SPARK:
        # Spark has looked at the name of the provider and at nothing else.
        provider = dict(throwable.getMessageParameters()).get("stateStoreProvider")
        return error_of("CLEANCUT_EXTENSION_MISSING") if provider == PROVIDER_CLASS else None
    return None


def _translated(throwable: Any) -> CleancutError:
    # The kind comes with the object: a newer jar may know ids that this package does not.
    kind = _BY_KIND.get(str(throwable.getKind()), InternalError)
    params = {str(name): str(value) for name, value in dict(throwable.getParams()).items()}
    return kind(str(throwable.getErrorId()), params, str(throwable.getMessage()))


def java_throwables(exc: BaseException) -> Iterator[Any]:
    """Every Java throwable behind a Python exception, causes after what they caused."""
    seen: list[Any] = []
    for python_exception in _python_causes(exc):
        # Py4JJavaError carries `java_exception`, PySpark's captured exceptions carry `_origin`.
        throwable = getattr(python_exception, "java_exception", None)
        if throwable is None:
            throwable = getattr(python_exception, "_origin", None)
        # py4j compares with Java's equals, and a chain of causes may end in a circle.
        while throwable is not None and not any(throwable == other for other in seen):
            seen.append(throwable)
            yield throwable
            throwable = throwable.getCause()


def _python_causes(exc: BaseException) -> Iterator[BaseException]:
    """The exception and those behind it: PySpark keeps a cause of its own in `_cause`."""
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [exc]
    while waiting:
        current = waiting.pop(0)
        if current is None or any(current is other for other in seen):
            continue
        seen.append(current)
        yield current
        waiting += [getattr(current, "_cause", None), current.__cause__]
