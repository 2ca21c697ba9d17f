"""The help of each command: a description first, an example last; usage errors have an id."""

import argparse
import re
import shlex
from collections.abc import Iterator
from typing import Any, cast

import pytest

from cleancut._cli.examples import EXAMPLES
from cleancut._cli.main import REFUSED, _parser
from cleancut._cli.parsers import CommandParser


def parsers(parser: CommandParser) -> Iterator[CommandParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in cast("dict[str, CommandParser]", action.choices).values():
                yield from parsers(command)


ROOT = _parser()
ALL = {parser.prog: parser for parser in parsers(ROOT)}
EACH = pytest.mark.parametrize("prog", ALL)


def test_the_examples_are_those_of_the_commands() -> None:
    assert sorted(EXAMPLES) == sorted(ALL)


@EACH
def test_a_help_begins_with_a_description_and_ends_with_an_example(
    prog: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = ALL[prog].format_help().splitlines()
    assert re.fullmatch(r"[A-Z][a-z-]+[ ,].*", lines[0])
    assert " ".join(lines[: lines.index("")]).endswith((".", ".html"))
    assert any(line.startswith(f"usage: {prog} ") for line in lines)
    assert lines[-2:] == ["example:", f"  {EXAMPLES[prog]}"]


@EACH
def test_an_example_parses_and_is_of_the_command(prog: str) -> None:
    words = shlex.split(EXAMPLES[prog])
    assert words[0] == "cleancut"
    ROOT.parse_args(words[1:])
    # LOCATION, the only argument before a command, has a value in the example.
    pattern = re.escape(prog).replace("LOCATION", r"\S+")
    assert re.match(rf"{pattern}\b", EXAMPLES[prog])


@pytest.mark.parametrize(
    ("arguments", "command", "reason"),
    [
        ([], "cleancut", "the following arguments are required: COMMAND"),
        (["ls"], "cleancut ls", "the following arguments are required: LOCATION"),
        (["lss", "x"], "cleancut", "invalid choice: 'lss'"),
        (["ls", "x", "--jsn"], "cleancut", "unrecognized arguments: --jsn"),
        (["state", "x", "--operator", "a"], "cleancut state", "invalid int value: 'a'"),
        (["history", "x", "--since", "a"], "cleancut history", "neither an epoch nor a time"),
        (["savepoint", "drop", "x"], "cleancut savepoint drop", "required: NAME"),
        (["dataflow", "x", "cut", "--at", "1"], "cleancut", "unrecognized arguments"),
    ],
)
def test_a_usage_error_has_an_id_and_names_the_help(
    arguments: list[str], command: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        ROOT.parse_args(arguments)
    assert ended.value.code == REFUSED
    out: Any = capsys.readouterr()
    assert out.out == ""
    first, *_ = out.err.splitlines()
    error_id, message = first.strip("[").split("] ", 1)
    assert error_id == "CLEANCUT_COMMAND_INVALID"
    assert message.startswith(f"The command `{command}` was not executed:")
    assert reason in first
    assert f"an example of `{command}`: add `--help`" in out.err
