"""Texts of PySpark's exceptions, without a JVM; `tests/spark/test_mistakes.py` has real ones."""

import re
import sys
import traceback
from types import ModuleType
from typing import Any

import pytest

from cleancut import _error_messages, errors
from cleancut._error_messages import message_of, safe_for_spark, show_errors_first
from cleancut.errors import CleancutError, error_of

FENCED = error_of("CLEANCUT_FENCED", location="/c", epoch=7, owner="run 3")
STACK = "\n\tat a.B.c(B.java:1)" * 2000
CALL = "An error occurred while calling o1.collect.\n: "
# Spark 4.3: StreamExecution.PROXY_ERROR. Java's stack overflows after about 2,000 characters.
PROXY_ERROR = re.compile(
    r"py4j.protocol.Py4JJavaError: An error occurred while calling((?s:.)*)"
    r"(java.lang.InterruptedException|java.io.InterruptedIOException)"
)
JAVA_LIMIT = 1000


def test_a_client_of_a_server_shows_no_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark Connect shows it by default."""
    text = f"(STREAM_FAILED) Query failed with exception: {FENCED}\n\nJVM stacktrace:\n{STACK}"

    class SparkConnectGrpcException(Exception):  # noqa: N818 - the name of PySpark
        _message = text

        def __str__(self) -> str:
            return text

    SparkConnectGrpcException.__module__ = "pyspark.errors.exceptions.connect"
    module = ModuleType("pyspark.errors.exceptions.connect")
    module.SparkConnectGrpcException = SparkConnectGrpcException  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark.errors.exceptions.connect", module)
    show_errors_first()
    shown = str(SparkConnectGrpcException())
    assert shown == f"{FENCED}\n\nSpark's message: (STREAM_FAILED) Query failed with exception"


@pytest.fixture
def call_failure(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A class with the name and text of py4j's, which the process seems to have loaded."""

    class Py4JJavaError(Exception):
        def __str__(self) -> str:
            return str(self.args[0])

    Py4JJavaError.__module__ = "py4j.protocol"
    module = ModuleType("py4j.protocol")
    module.Py4JJavaError = Py4JJavaError  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "py4j.protocol", module)
    show_errors_first()
    show_errors_first()
    return Py4JJavaError


@pytest.mark.parametrize(
    ("spark", "line"),
    [
        (f"[STREAM_FAILED] Query [id = 1] failed: {FENCED}{STACK}", "Query [id = 1] failed"),
        (f"{CALL}org.apache.spark.SparkException: [CANNOT_LOAD] x.{STACK}", "calling o1.collect."),
        (
            "Reason: An exception was raised by the Python Proxy. Return Message: Traceback (most",
            "raised by the Python Proxy.",
        ),
    ],
)
def test_the_error_comes_first_and_the_java_stack_not_at_all(spark: str, line: str) -> None:
    text = message_of(str(FENCED), spark)
    *first, empty, last = text.split("\n")
    assert first == str(FENCED).split("\n")
    assert (len(first), empty) == (5, "")
    assert last.startswith("Spark's message: ")
    assert line in last
    assert "\tat " not in text
    assert text.count("[CLEANCUT_FENCED]") == 1


def test_a_requested_stack_is_kept() -> None:
    spark = f"[STREAM_FAILED] {FENCED}\n\nJVM stacktrace:\n{STACK}"
    assert message_of(str(FENCED), spark) == f"{FENCED}\n\n{spark}"


def test_the_text_is_found_once(call_failure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each search asks the JVM, and renders the exceptions of failed functions again."""
    searched: list[BaseException] = []

    def search(failure: BaseException) -> CleancutError:
        searched.append(failure)
        assert str(failure) == f"{CALL}x{STACK}"
        return FENCED

    monkeypatch.setattr(_error_messages, "find_error", search)
    failure = call_failure(f"{CALL}x{STACK}")
    assert str(failure) == str(failure)
    assert str(failure).startswith(str(FENCED))
    assert searched == [failure]


@pytest.mark.parametrize("expected", [None, ConnectionError("no JVM")])
def test_another_failure_keeps_its_text(
    call_failure: Any, monkeypatch: pytest.MonkeyPatch, expected: Exception | None
) -> None:
    def search(_failure: BaseException) -> None:
        if expected is not None:
            raise expected

    monkeypatch.setattr(_error_messages, "find_error", search)
    assert str(call_failure(f"{CALL}x")) == f"{CALL}x"


@pytest.mark.parametrize("is_interrupted", [True, False])
@pytest.mark.parametrize("is_wrapped", [True, False])
def test_spark_reads_the_text_of_a_failed_function_without_overflow(
    call_failure: Any, *, is_wrapped: bool, is_interrupted: bool
) -> None:
    cause = "java.lang.InterruptedException" if is_interrupted else "a.JobCancelled"
    failure = call_failure(f"{CALL}{cause}: stop{STACK}")

    @safe_for_spark()
    def function() -> None:
        if not is_wrapped:
            raise failure
        try:
            raise failure
        except Exception as e:
            raise ValueError("mine\n" * 200_000) from e

    with pytest.raises((ValueError, type(failure))) as raised:
        function()
    assert type(raised.value) is (ValueError if is_wrapped else type(failure))
    text = "".join(traceback.format_exception(raised.value))
    match = PROXY_ERROR.search(text)
    assert (match is not None) == is_interrupted
    assert "py4j.protocol.Py4JJavaError: An error" not in text[:-JAVA_LIMIT]
    # The reason and the stack are complete.
    assert f"{cause}: stop{STACK}" in text


def test_an_error_of_a_server_is_found_by_its_text() -> None:
    class ServerError(Exception):
        _message = f"(STREAM_FAILED) Query failed with exception: {FENCED}{STACK}"

    ServerError.__module__ = "pyspark.errors.exceptions.connect"
    error = errors.find_error(ServerError())
    assert error is not None
    assert (error.error_id, error.params) == (FENCED.error_id, FENCED.params)
