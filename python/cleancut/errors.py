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
        params: the values of this error by name, all of them text.
        kind: next step of the operator; each subclass has its own.
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


# The failure of a query with transformWithState on any provider except Spark's RocksDB.
_REFUSED_BY_SPARK = (
    "org.apache.spark.sql.execution.streaming.state.StateStoreBackendNotSupportedForTWSException"
)

_BY_KIND: Mapping[str, type[CleancutError]] = {
    error.kind.value: error
    for error in (RetryableError, FencedError, RequestError, CorruptedError, InternalError)
}

# The start of a message of Cleancut in a text of another process or callback.
_IN_TEXT = re.compile(r"(?:^|: |\) )(\[(CLEANCUT_[A-Z_]+)\] .*)", re.MULTILINE)


# The failure of a task on an executor that lacks jars or packages. For a missing class, Spark
# reports another type if the plan has functions of that class.
_LACKS_JAR = re.compile(
    r"Lost task [^\n]*: (java\.lang\.(?:ClassNotFoundException: io\.cleancut\.\S+|"
    r"ClassCastException: cannot assign instance of java\.lang\.invoke\.SerializedLambda to field "
    r"org\.apache\.spark\.sql\.execution\.streaming\.\S+))"
)
# This package is installed here, so another process lacks it.
_LACKS_PACKAGE = re.compile(r"(ModuleNotFoundError: No module named 'cleancut\b[^\n]*)")
_LACKS = {
    "CLEANCUT_JAR_NOT_ON_EXECUTORS": _LACKS_JAR,
    "CLEANCUT_PACKAGE_MISSING": _LACKS_PACKAGE,
}


def error_of(error_id: str, **params: object) -> CleancutError:
    """The exception for an id, with its message; made here only, raised by the caller."""
    error_class = error_classes()[error_id]
    # Truncated texts of other errors are complete in the cause.
    texts = error_class.fitted({name: str(value) for name, value in params.items()})
    return _BY_KIND[error_class.kind](error_id, texts, error_class.render(texts))


def first_line(error: BaseException) -> str:
    """The first line of an error: the event, without data loss, commands and address."""
    return str(error).partition("\n")[0]


def brief(error: BaseException) -> str:
    """The event and the fix on one line, for a list of errors."""
    first, *others = str(error).split("\n")
    return " ".join([first, *(line for line in others if line.startswith("Fix: "))])


def find_error(failed: "StreamingQuery | BaseException") -> CleancutError | None:
    """Finds the error of Cleancut that a query or a call has failed with, wherever it was raised.

    It may have been raised at the query's start, in its commit, in a task or a Python worker, or in
    its `foreachBatch` function, whether this package created the function or not.

    Args:
        failed: a query, or the exception of PySpark: from the start of the query, from
            `awaitTermination()`, or from any other call. The JVM must still run, because the causes
            are read from it.

    Returns:
        The error with its id, kind and values, and PySpark's exception as its `__cause__`; None if
        the query has not failed, or the failure is not one of Cleancut.
    """
    if isinstance(failed, BaseException):
        return from_java(failed)
    raised: Any = failed.exception()
    if raised is None:
        return None
    query: Any = failed
    if hasattr(query, "_jsq"):
        # PySpark passes the causes of this exception as text only, so the object is added.
        raised._origin = query._jsq.exception().get()
    return from_java(raised)


def from_java(exc: BaseException) -> CleancutError | None:
    """Finds the error of Cleancut that caused an exception of Spark; `find_error` takes queries.

    Args:
        exc: the exception of PySpark, or the result of `StreamingQuery.exception()`. The JVM must
            still run, because the causes are read from it.

    Returns:
        The error with its id, kind and values, and `exc` as its `__cause__`; None if the failure
        is not one of Cleancut.
    """
    for error in _found(exc):
        if error is not exc:
            error.__cause__ = exc
        return error
    return None


@contextmanager
def translating() -> Iterator[None]:
    """Raises an error of Cleancut's JVM side as its Python class; others pass unchanged."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as failure:
        error = from_java(failure)
        if error is None:
            raise
        raise error from failure


def from_connect(failure: BaseException) -> CleancutError | None:
    """The error of Cleancut in the response of a Spark Connect server."""
    return next(_errors_in(str(failure)), None)


def _found(exc: BaseException) -> Iterator[CleancutError]:
    """The errors that caused an exception: objects first, and texts only if there are none."""
    yield from _carried(exc)
    texts = [str(throwable.getMessage()) for throwable in java_throwables(exc)]
    # PySpark's exceptions that it created from a Java exception without keeping it.
    texts += [str(getattr(of_python, "_desc", "")) for of_python in _python_causes(exc)]
    # A client of Spark Connect receives texts only.
    texts += [text for e in _python_causes(exc) if (text := _from_server(e)) is not None]
    for text in texts:
        for raised in raised_in_callbacks(text):
            yield from _carried(raised)
    for text in texts:
        yield from _errors_in(text)
    for text in texts:
        yield from _lacking(text)
    if any(_is_class_of_ours_missing(throwable) for throwable in java_throwables(exc)):
        yield error_of("CLEANCUT_JAR_NOT_LOADED")


def _from_server(exc: BaseException) -> str | None:
    is_from_server = type(exc).__module__ == "pyspark.errors.exceptions.connect"
    return str(getattr(exc, "_message", "")) if is_from_server else None


def _lacking(text: str) -> Iterator[CleancutError]:
    """Errors of missing jars or packages on an executor, by the failure of a task."""
    for error_id, pattern in _LACKS.items():
        match = pattern.search(text)
        if match is not None:
            yield error_of(error_id, detail=match[1])


def _is_class_of_ours_missing(throwable: Any) -> bool:
    name = str(throwable.getClass().getName())
    missing = name == "java.lang.ClassNotFoundException"
    return missing and str(throwable.getMessage()).startswith("io.cleancut.")


def _carried(exc: BaseException) -> Iterator[CleancutError]:
    """The errors among an exception and its causes, in Python or in Java, outermost first."""
    for python_exception in _python_causes(exc):
        if isinstance(python_exception, CleancutError):
            yield _copy(python_exception) if python_exception is not exc else python_exception
    for throwable in java_throwables(exc):
        error = _error_of(throwable)
        if error is not None:
            yield error


def _copy(error: CleancutError) -> CleancutError:
    # The raised one keeps its own cause, and may be part of that of the copy.
    return type(error)(error.error_id, error.params, str(error))


def _errors_in(text: str) -> Iterator[CleancutError]:
    """The errors whose messages are in a text, from a process that could not pass its error."""
    for match in _IN_TEXT.finditer(text):
        error_class = error_classes().get(match[2])
        if error_class is not None:
            parsed = error_class.parse(text[match.start(1) :])
            message, params = (match[1], {}) if parsed is None else parsed
            yield _BY_KIND[error_class.kind](match[2], params, message)


def _error_of(throwable: Any) -> CleancutError | None:
    name = throwable.getClass().getName()
    if name == "io.cleancut.error.CleancutException":
        return _translated(throwable)
    if name == _REFUSED_BY_SPARK:
        # Spark checks only the name of the provider.
        provider = dict(throwable.getMessageParameters()).get("stateStoreProvider")
        return error_of("CLEANCUT_EXTENSION_MISSING") if provider == PROVIDER_CLASS else None
    return None


def _translated(throwable: Any) -> CleancutError:
    # The object has the kind: a newer jar may have ids that this package does not know.
    kind = _BY_KIND.get(str(throwable.getKind()), InternalError)
    params = {str(name): str(value) for name, value in dict(throwable.getParams()).items()}
    return kind(str(throwable.getErrorId()), params, str(throwable.getMessage()))


def java_throwables(exc: BaseException) -> Iterator[Any]:
    """All Java throwables that caused a Python exception, outermost first."""
    seen: list[Any] = []
    for python_exception in _python_causes(exc):
        # Py4JJavaError has `java_exception`, PySpark's captured exceptions have `_origin`.
        throwable = getattr(python_exception, "java_exception", None)
        if throwable is None:
            throwable = getattr(python_exception, "_origin", None)
        # py4j compares with Java's equals; a chain of causes may be circular.
        while throwable is not None and not any(throwable == other for other in seen):
            seen.append(throwable)
            yield throwable
            throwable = throwable.getCause()


def _python_causes(exc: BaseException) -> Iterator[BaseException]:
    """The exception and its causes: PySpark has its own cause in `_cause`."""
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [exc]
    while waiting:
        current = waiting.pop(0)
        if current is None or any(current is other for other in seen):
            continue
        seen.append(current)
        yield current
        waiting += [getattr(current, "_cause", None), current.__cause__]
