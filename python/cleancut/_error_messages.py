"""Messages of PySpark's exceptions that an error of Cleancut has caused.

PySpark renders such an exception as one line of Spark, the error, and up to 40 KB of Java stack.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cleancut.errors import find_error

_CONNECT = "pyspark.errors.exceptions.connect"
# Classes with a message of Spark: of failed queries, of other calls, and of Spark Connect.
_CLASSES = {
    "pyspark.errors.exceptions.captured": "StreamingQueryException",
    "py4j.protocol": "Py4JJavaError",
    _CONNECT: "SparkConnectGrpcException",
}
# Classic Spark adds the stack if spark.sql.pyspark.jvmStacktrace.enabled is true; Spark Connect by
# default, without a request. `getStackTrace()` of its exceptions returns the stack.
_STACK = "\n\nJVM stacktrace:\n"
# The texts after which Spark's message has only the error, a plan, or a stack.
_ENDS = ("\n\tat ", "[CLEANCUT_", " Return Message: Traceback", "\n=== Streaming Query ===")
_MAX_LINE = 1000
_RENDERED = "_cleancut_rendered"

# The start of an expression by which Spark decides whether `stop()` has interrupted a query. Its
# recursion overflows the stack of the query's thread if 2,000 characters follow the start.
_CALLING = "An error occurred while calling "
_INTERRUPTIONS = (
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
)


def show_errors_first() -> None:
    """Makes PySpark's exceptions in this process begin with the error of Cleancut.

    It applies to the modules of PySpark that are loaded, and has no effect if it is repeated.
    `getMessage()` of an exception and the log of the driver still have Spark's message.
    """
    for module, name in _CLASSES.items():
        loaded = sys.modules.get(module)
        if loaded is not None:
            _wrap(getattr(loaded, name))


def _wrap(exception_class: Any) -> None:
    rendered_by_spark: Callable[[Any], str] = exception_class.__str__
    if hasattr(rendered_by_spark, "shows_errors_first"):
        return

    def rendered(self: Any) -> str:
        if _RENDERED not in self.__dict__:
            text = rendered_by_spark(self)
            # Set before the search, which renders exceptions.
            self.__dict__[_RENDERED] = text
            self.__dict__[_RENDERED] = _with_error_first(self, text)
        return str(self.__dict__[_RENDERED])

    rendered.shows_errors_first = True  # type: ignore[attr-defined]
    exception_class.__str__ = rendered


def _with_error_first(exception: BaseException, text: str) -> str:
    try:
        error = find_error(exception)
    except Exception:
        # Without its JVM, an exception has no causes.
        return text
    if error is None:
        return text
    is_remote = type(exception).__module__ == _CONNECT
    return message_of(str(error), text.partition(_STACK)[0] if is_remote else text)


def message_of(error: str, text: str) -> str:
    """The message of an exception that an error has caused.

    Args:
        error: the message of the error, five lines.
        text: Spark's message, which may have the error in it, and a Java stack.

    Returns:
        The error, and the start of Spark's message on one line: all of it if a stack was requested.
    """
    if _STACK in text:
        return f"{error}\n\n{text}"
    for end in _ENDS:
        text = text.partition(end)[0]
    line = " ".join(text.split())
    return f"{error}\n\nSpark's message: {line[:_MAX_LINE].rstrip(': ')}"


@contextmanager
def safe_for_spark() -> Iterator[None]:
    """Changes the text of an exception of a `foreachBatch` function if it would overflow Spark.

    The exception passes, with its type and causes. Spark receives the text of its traceback.
    """
    show_errors_first()
    try:
        yield
    except Exception as failure:
        _keep_from_overflowing(failure)
        raise


def _keep_from_overflowing(failure: BaseException) -> None:
    is_interrupted = False
    for exception in _printed(failure):
        text = str(exception)
        if type(exception).__name__ == "Py4JJavaError" and text.startswith(_CALLING):
            exception.__dict__[_RENDERED] = f"The call failed: {text.removeprefix(_CALLING)}"
            is_interrupted = is_interrupted or any(name in text for name in _INTERRUPTIONS)
    if is_interrupted:
        # The end of the traceback, so that Spark finds it without a recursion.
        failure.add_note(f"py4j.protocol.Py4JJavaError: {_CALLING}it: {_INTERRUPTIONS[0]}")


def _printed(failure: BaseException) -> Iterator[BaseException]:
    """The exceptions of a traceback, outermost first."""
    seen: list[BaseException] = []
    current: BaseException | None = failure
    while current is not None and not any(current is other for other in seen):
        seen.append(current)
        yield current
        context = None if current.__suppress_context__ else current.__context__
        current = current.__cause__ or context
