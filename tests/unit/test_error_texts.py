"""The texts of all error classes: fields, words, SQLSTATEs and commands."""

import contextlib
import importlib
import io
import json
import re
import shlex
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

import cleancut
from cleancut import errors
from cleancut._cli.main import _parser
from cleancut._cli.statuses import OK
from cleancut._error_catalog import PAGE, ErrorClass, error_classes
from cleancut._session.options import OPTIONS
from tests.support.words import BANNED

ROOT = Path(__file__).resolve().parents[2]
CATALOG = json.loads((ROOT / "python/cleancut/error-classes.json").read_text(encoding="utf-8"))
FIELDS = ("message", "sqlState", "kind", "dataLoss", "cause", "diagnose", "fix")
CLASSES = pytest.mark.parametrize(
    "error_class", error_classes().values(), ids=lambda error_class: error_class.error_id
)

# Programs of a machine that runs Spark, or of the repository.
PROGRAMS = {"aws", "curl", "df", "export", "hadoop", "java", "make", "pip", "ss"}
# Placeholders for a value of the reader where a command requires a number or a file.
NUMBERS = {"N": "7", "CUT": "7"}
MAX_WORDS = 25


def texts_of(error_class: ErrorClass) -> list[str]:
    """Returns the prose of a class."""
    of_class = error_class.message, error_class.data_loss, error_class.cause
    return [*of_class, error_class.diagnose, error_class.fix]


def code_in(*texts: str) -> Iterator[str]:
    """Returns the code in some texts, with a value for each parameter."""
    for text in texts:
        for code in re.findall(r"`([^`]+)`", text):
            yield re.sub(
                r"<(\w+)>", lambda name: "7" if name[1] in ("before", "epoch") else name[1], code
            )


@cache
def sql_states() -> dict[str, object]:
    """Returns the SQLSTATEs that Spark knows."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    (jar,) = (Path(spec.origin).parent / "jars").glob("spark-common-utils_*.jar")
    with zipfile.ZipFile(jar) as archive:
        states: dict[str, object] = json.loads(archive.read("error/error-states.json"))
    return states


@CLASSES
def test_every_class_has_every_field(error_class: ErrorClass) -> None:
    entry = CATALOG[error_class.error_id]
    assert tuple(entry) == FIELDS
    assert len(entry["message"]) == 1
    assert all(text.strip() for text in texts_of(error_class))
    assert error_class.data_loss.startswith(("No.", "Possibly."))


@CLASSES
def test_a_message_has_five_lines_and_begins_with_what_happened(error_class: ErrorClass) -> None:
    names = re.findall(r"<(\w+)>", "".join(texts_of(error_class)))
    error = errors.error_of(error_class.error_id, **dict.fromkeys(names, "one\n  two\r\nthree"))
    first, loss, diagnose, fix, address = str(error).split("\n")
    assert first.startswith(f"[{error_class.error_id}] {error_class.message.partition('<')[0]}")
    assert loss.startswith("Data lost: ")
    assert diagnose.startswith("Diagnose: ")
    assert fix.startswith("Fix: ")
    assert address == f"SQLSTATE: {error.sql_state}. {error.url}"


@CLASSES
def test_the_sql_state_is_one_of_spark(error_class: ErrorClass) -> None:
    assert error_class.sql_state in sql_states()


@CLASSES
def test_texts_use_the_words_of_the_field(error_class: ErrorClass) -> None:
    for text in texts_of(error_class):
        prose = re.sub(r"`[^`]*`", "", text)
        assert BANNED.findall(prose) == []
        for sentence in re.split(r"(?<=[.:;]) ", prose):
            assert len(sentence.split()) <= MAX_WORDS, sentence


@CLASSES
def test_every_step_names_a_command(error_class: ErrorClass) -> None:
    for text in (error_class.diagnose, error_class.fix):
        codes = list(code_in(text))
        is_given = text.strip(".") in ("<advice>", "<fix>") or "`<command>`" in text
        assert is_given or any(is_command(code) for code in codes), text


@CLASSES
def test_every_command_exists(error_class: ErrorClass) -> None:
    for code in code_in(*texts_of(error_class)):
        check(code)


@pytest.mark.parametrize(
    "code",
    [
        "cleancut restart LOCATION",
        "cleancut rollback LOCATION --epoch 7",
        "cleancut.rescind(LOCATION)",
        "cleancut.sinks.EpochFiles(path).frobnicate()",
        "spark.sql.streaming.stateStore.cleancut.memoryBound=1g",
    ],
)
def test_a_missing_command_is_reported(code: str) -> None:
    assert is_command(code)
    with pytest.raises((AssertionError, AttributeError)):
        check(code)


def is_command(code: str) -> bool:
    """Whether an operator can run the code or set it as a key."""
    is_python = re.match(r"cleancut\.\w|[\w.]+\(", code) is not None
    return code.split()[0] in {*PROGRAMS, "cleancut"} or is_python or is_setting(code)


def is_setting(code: str) -> bool:
    return re.fullmatch(r"spark\.[\w.]+=\S+", code) is not None


def check(code: str) -> None:
    """Fails if a command, a function or a key does not exist."""
    words = shlex.split(code) if code.count("'") % 2 == 0 else code.split()
    if words[0] == "cleancut":
        parse([NUMBERS.get(word, word) for word in words[1:]])
    elif code.startswith(("cleancut.", "help(cleancut")):
        resolve(code.removeprefix("help(").rstrip(")") if code.startswith("help(") else code)
    elif is_setting(code):
        key, _, value = code.partition("=")
        if ".cleancut." in key:
            option = next((option for option in OPTIONS if option.key == key), None)
            assert option is not None, key
            assert option.rule.accepts(value) or value.isupper(), code


def parse(arguments: list[str]) -> None:
    """Fails if the command line refuses the arguments."""
    said, status = io.StringIO(), OK
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            _parser().parse_args(arguments)
        except SystemExit as end:
            status = int(end.code or OK)
    assert status == OK, said.getvalue()


def resolve(code: str) -> None:
    """Fails if the package lacks a name, or a function lacks a keyword argument."""
    value: object = cleancut
    path = re.sub(r"\(.*?\)", "()", code)
    for name in path.split(".")[1:]:
        is_called = name.endswith("()")
        with contextlib.suppress(ImportError):
            importlib.import_module(f"cleancut.{name}")
        if name.removesuffix("()") in ("pace", "getOrCreate", "config"):
            return
        value = getattr(value, name.removesuffix("()"))
        assert callable(value) or not is_called


def test_the_address_of_a_class_is_its_section_of_the_documentation() -> None:
    page = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
    anchors = {heading.lower() for heading in re.findall(r"^## (\w+)$", page, re.MULTILINE)}
    site = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), yaml.BaseLoader)
    assert f"{site['site_url']}reference/errors.html" == PAGE
    assert site["use_directory_urls"] == "false"
    for error_class in error_classes().values():
        address, _, anchor = error_class.url.partition("#")
        assert (address, anchor in anchors) == (PAGE, True)


def test_the_page_shows_every_field_and_no_html() -> None:
    page = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
    sections = {text.partition("\n")[0]: text for text in page.split("\n## ")[1:]}
    assert list(sections) == list(error_classes())
    for error_class in error_classes().values():
        section = sections[error_class.error_id].replace("`<", "<").replace(">`", ">")
        for text in (*texts_of(error_class), error_class.sql_state, error_class.kind):
            assert text.replace("`<", "<").replace(">`", ">") in section
    assert re.findall(r"<\w+>", re.sub(r"`[^`]*`", "", page)) == []


def test_the_jvm_has_the_same_address() -> None:
    scala = (ROOT / "jvm/core/src/main/scala/io/cleancut/error/ErrorClass.scala").read_text("utf-8")
    assert f'val Page = "{PAGE}"' in scala
