"""Each id has a class, each message its parameters, and a test expects each id of this package."""

import ast
import inspect
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

import cleancut
from cleancut import errors
from cleancut._error_catalog import ErrorClass, error_classes
from cleancut.errors import CleancutError, error_of, from_java

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "cleancut"
CANONICAL = ROOT / "jvm/core/src/main/resources/error/cleancut-error-classes.json"

KINDS = {
    "RETRY": errors.RetryableError,
    "RESTART": errors.FencedError,
    "FIX_REQUEST": errors.RequestError,
    "RESTORE": errors.CorruptedError,
    "REPORT": errors.InternalError,
}


def raised_ids(paths: list[Path]) -> set[str]:
    """Returns the ids that are literals in the code of some files."""
    constants = (
        node.value
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return {text for text in constants if re.fullmatch(r"CLEANCUT(_[A-Z]+)+", text)}


def test_the_packaged_file_is_that_of_the_jvm() -> None:
    assert (PACKAGE / "error-classes.json").read_bytes() == CANONICAL.read_bytes()


def test_the_file_is_sorted_by_id() -> None:
    assert list(error_classes()) == sorted(error_classes())


@pytest.mark.parametrize("error_class", error_classes().values(), ids=lambda c: c.error_id)
def test_every_id_has_the_class_of_its_kind(error_class: ErrorClass) -> None:
    error = error_of(error_class.error_id)
    assert type(error) is KINDS[error_class.kind]
    assert str(error).startswith(f"[{error_class.error_id}] ")
    assert error_class.message.endswith((".", ">"))


def test_every_id_of_this_package_is_expected_by_a_test() -> None:
    ids = raised_ids(list(PACKAGE.rglob("*.py")))
    assert ids
    assert ids <= error_classes().keys()
    assert ids - raised_ids(list(Path(__file__).parent.glob("test_*.py"))) == set()


TEMPLATE = ErrorClass(
    "ID",
    "REPORT",
    "XX000",
    message="<what> broke at <place>.",
    data_loss="No.",
    cause="It was <cause>.",
    diagnose="Show <what>: `show <place>`",
    fix="Run `repair`",
)


def test_values_are_filled_in_or_end_the_first_line() -> None:
    text = TEMPLATE.render({"what": "a <place>", "place": "$1", "extra": "7", "more": "x"})
    assert text == (
        "[ID] a <place> broke at $1. extra=7 more=x\n"
        "Data lost: No.\n"
        "Diagnose: Show a <place>: `show $1`\n"
        "Fix: Run `repair`\n"
        "SQLSTATE: XX000. https://cleancut.io/reference/errors.html#id"
    )
    assert TEMPLATE.render({}).startswith("[ID] <what> broke at <place>.\nData lost: No.\n")


def test_a_message_is_parsed_from_a_longer_text() -> None:
    values = {"what": "a b", "place": "$1.", "extra": "7 8"}
    message = TEMPLATE.render(values)
    assert TEMPLATE.parse(f"{message}\n\tat x.Y(Z:1)") == (message, values)
    # A log may contain only the first line.
    first = message.partition("\n")[0]
    assert TEMPLATE.parse(f"{first}\nother") == (first, values)
    assert TEMPLATE.parse("[ID] something else") is None


def test_an_error_keeps_its_facts_through_pickle() -> None:
    error = error_of("CLEANCUT_STORE_BUSY", holder="task 7", waitedMs=120_000)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is errors.RetryableError
    assert (copy.error_id, copy.params) == ("CLEANCUT_STORE_BUSY", error.params)
    assert copy.params == {"holder": "task 7", "waitedMs": "120000"}
    assert str(copy) == str(error)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = re.findall(r"[├└]── (\w+)", inspect.getdoc(errors) or "")
    assert sorted(drawn) == sorted(kind.__name__ for kind in CleancutError.__subclasses__())
    assert set(drawn) | {"CleancutError"} <= set(cleancut.__all__)


class JavaClass:
    def __init__(self, name: str) -> None:
        self.name = name

    def getName(self) -> str:  # noqa: N802  # the name in Java
        return self.name


class Throwable:
    """A Java throwable as py4j exposes it."""

    def __init__(self, cause: "Throwable | None" = None, text: str = "") -> None:
        self.cause = cause
        self.text = text
        self.java_class = JavaClass("org.apache.spark.SparkException")

    def getClass(self) -> JavaClass:  # noqa: N802
        return self.java_class

    def getCause(self) -> "Throwable | None":  # noqa: N802
        return self.cause

    def getMessage(self) -> str:  # noqa: N802
        return self.text


class JavaError(Throwable):
    """Cleancut's exception on the JVM side."""

    def __init__(self, error_id: str, kind: str) -> None:
        super().__init__()
        self.java_class = JavaClass("io.cleancut.error.CleancutException")
        self.error_id = error_id
        self.kind = kind

    def getErrorId(self) -> str:  # noqa: N802
        return self.error_id

    def getKind(self) -> str:  # noqa: N802
        return self.kind

    def getParams(self) -> dict[str, str]:  # noqa: N802
        return {"path": "x", "version": "7"}

    def getMessage(self) -> str:  # noqa: N802
        return f"[{self.error_id}] as the JVM says it"


class RefusedBackend(Throwable):
    """Spark's exception for transformWithState on an unknown provider."""

    def __init__(self, provider: str) -> None:
        super().__init__()
        package = "org.apache.spark.sql.execution.streaming.state"
        self.java_class = JavaClass(f"{package}.StateStoreBackendNotSupportedForTWSException")
        self.provider = provider

    def getMessageParameters(self) -> dict[str, str]:  # noqa: N802
        return {"stateStoreProvider": self.provider}


class Py4JError(Exception):
    def __init__(self, throwable: Throwable) -> None:
        super().__init__("An error occurred while calling o1.start")
        self.java_exception = throwable


class CapturedError(Exception):
    """An exception converted by PySpark: its origin, or a converted cause."""

    def __init__(self, origin: Throwable | None, cause: Exception | None = None) -> None:
        super().__init__("[STREAM_FAILED]")
        self._origin = origin
        self._cause = cause


def wrapped(error: Throwable) -> Throwable:
    return Throwable(Throwable(error))


CORRUPTED = JavaError("CLEANCUT_FRAME_CORRUPTED", "RESTORE")


@pytest.mark.parametrize(
    "exception",
    [
        Py4JError(CORRUPTED),
        Py4JError(wrapped(CORRUPTED)),
        CapturedError(wrapped(CORRUPTED)),
        CapturedError(None, CapturedError(wrapped(CORRUPTED))),
        CapturedError(Throwable(), CapturedError(wrapped(CORRUPTED))),
    ],
)
def test_an_error_of_the_jvm_is_found_among_the_causes(exception: Exception) -> None:
    error = from_java(exception)
    assert type(error) is errors.CorruptedError
    assert error.error_id == "CLEANCUT_FRAME_CORRUPTED"
    assert error.params == {"path": "x", "version": "7"}
    assert str(error) == "[CLEANCUT_FRAME_CORRUPTED] as the JVM says it"
    assert error.__cause__ is exception


def test_an_error_is_found_below_an_exception_of_the_user() -> None:
    outer = RuntimeError("query failed")
    outer.__cause__ = Py4JError(CORRUPTED)
    assert from_java(outer) is not None


@pytest.mark.parametrize("kind", [*KINDS, "SOMETHING_NEW"])
def test_an_id_of_a_newer_jar_keeps_its_kind(kind: str) -> None:
    error = from_java(Py4JError(JavaError("CLEANCUT_NEWER", kind)))
    assert type(error) is KINDS.get(kind, errors.InternalError)
    assert error.error_id == "CLEANCUT_NEWER"


def test_the_error_for_a_missing_extension_names_the_setting() -> None:
    exception = CapturedError(wrapped(RefusedBackend("io.cleancut.CleancutStateStoreProvider")))
    error = from_java(exception)
    assert type(error) is errors.RequestError
    assert error.error_id == "CLEANCUT_EXTENSION_MISSING"
    assert "spark.sql.extensions=io.cleancut.CleancutExtensions" in str(error)
    assert error.__cause__ is exception


def test_another_refused_provider_is_no_error_of_ours() -> None:
    assert from_java(Py4JError(wrapped(RefusedBackend("com.example.Provider")))) is None


def test_other_failures_are_no_errors_of_ours() -> None:
    """Also if the message contains text like one of ours."""
    assert from_java(ValueError("[CLEANCUT_FRAME_CORRUPTED] not from Java")) is None
    assert from_java(Py4JError(wrapped(Throwable()))) is None


@pytest.mark.parametrize("before", ["", "Job aborted: x: ", "Traceback:\n  f()\na.FencedError: "])
def test_a_message_received_as_text_has_id_kind_and_parameters(before: str) -> None:
    sent = error_of("CLEANCUT_FENCED", location="/c d", epoch=7, owner="run 3, [x]=1", extra="y z")
    error = errors.find_error(Py4JError(wrapped(Throwable(text=f"{before}{sent}\n\tat x.Y(Z:1)"))))
    assert type(error) is errors.FencedError
    assert (error.error_id, error.params, str(error)) == (sent.error_id, sent.params, str(sent))
    assert error.kind is errors.ErrorKind.RESTART


@pytest.mark.parametrize("text", ["see [CLEANCUT_FENCED] there", "x: [CLEANCUT_NO_SUCH] is no id"])
def test_a_similar_text_is_no_error_of_ours(text: str) -> None:
    assert errors.find_error(Py4JError(wrapped(Throwable(text=text)))) is None


LOST = "Job aborted: Lost task 3.3 in stage 1.0 (TID 16) (10.0.0.2 executor 1): "


@pytest.mark.parametrize(
    ("error_id", "text"),
    [
        (
            "CLEANCUT_JAR_NOT_ON_EXECUTORS",
            f"{LOST}java.lang.ClassNotFoundException: io.cleancut.CleancutStateStoreProvider\n\tat",
        ),
        (
            "CLEANCUT_JAR_NOT_ON_EXECUTORS",
            f"{LOST}java.lang.ClassCastException: cannot assign instance of "
            "java.lang.invoke.SerializedLambda to field org.apache.spark.sql.execution.streaming."
            "state.ReadStateStoreRDD.storeReadFunction of type scala.Function2",
        ),
        (
            "CLEANCUT_PACKAGE_MISSING",
            f"{LOST}org.apache.spark.api.python.PythonException: Traceback (most recent call last):"
            "\n  import cleancut\nModuleNotFoundError: No module named 'cleancut.sinks'\n",
        ),
    ],
)
def test_a_missing_library_on_an_executor_is_reported(error_id: str, text: str) -> None:
    error = errors.find_error(Py4JError(wrapped(Throwable(text=text))))
    assert type(error) is errors.RequestError
    assert error.error_id == error_id
    assert error.params["detail"] in text
    assert error.params["detail"].startswith(("java.lang.Class", "ModuleNotFoundError"))


@pytest.mark.parametrize(
    "text",
    [
        f"{LOST}java.lang.ClassNotFoundException: com.example.Mine",
        f"{LOST}java.lang.ClassCastException: cannot assign instance of java.lang.invoke."
        "SerializedLambda to field org.apache.spark.rdd.MapPartitionsRDD.f of type scala.Function3",
        "ModuleNotFoundError: No module named 'cleancutter'",
    ],
)
def test_another_missing_library_is_no_error_of_ours(text: str) -> None:
    assert errors.find_error(Py4JError(wrapped(Throwable(text=text)))) is None


@pytest.mark.parametrize("of_ours", [True, False])
def test_a_driver_without_the_jar_is_reported(of_ours: bool) -> None:
    missing = Throwable(text="io.cleancut.CleancutStateStoreProvider" if of_ours else "com.x.Y")
    missing.java_class = JavaClass("java.lang.ClassNotFoundException")
    error = errors.find_error(Py4JError(wrapped(missing)))
    assert (error.error_id if error else None) == ("CLEANCUT_JAR_NOT_LOADED" if of_ours else None)


def test_the_kinds_are_those_of_the_file() -> None:
    assert [kind.value for kind in errors.ErrorKind] == list(KINDS)
    assert {c.kind for c in error_classes().values()} <= set(KINDS)
    for kind, error in KINDS.items():
        assert error.kind is errors.ErrorKind[kind]


def test_an_error_of_this_package_is_found_unchanged() -> None:
    error = error_of("CLEANCUT_SINK_OWNER_MISMATCH", path="/x")
    assert errors.find_error(error) is error
    outer = RuntimeError("mine")
    outer.__cause__ = error
    public = errors.find_error(outer)
    assert public is not None
    assert public is not error
    assert (public.args, public.__cause__) == (error.args, outer)


def test_a_cycle_of_causes_ends() -> None:
    first, second = Throwable(), Throwable()
    first.cause, second.cause = second, first
    error: Any = CapturedError(first)
    error._cause = error
    assert from_java(error) is None


@pytest.mark.parametrize("error_id", sorted(error_classes()))
def test_a_message_fits_a_screen_with_any_parameters(error_id: str) -> None:
    text = error_classes()[error_id]
    names = re.findall(r"<([A-Za-z]+)>", "".join([text.message, text.diagnose, text.fix]))
    error = error_of(error_id, **dict.fromkeys(names, "x" * 20_000))
    assert len(str(error)) <= 2000
    short = error_of(error_id, **dict.fromkeys(names, "short"))
    assert "…" not in "".join(short.params.values())
