"""The generated reference pages of the Python API and of the command."""

import argparse

import pytest

import cleancut
from cleancut._cli import main as _cli
from cleancut._error_catalog import error_classes
from tests.support.promise import _commands
from tests.support.reference_pages import (
    COMMAND,
    PYTHON,
    ROOT,
    TROUBLESHOOT,
    command_page,
    pages,
    python_page,
)


@pytest.mark.parametrize("page", [PYTHON, COMMAND, TROUBLESHOOT])
def test_a_generated_page_is_current(page: str) -> None:
    """After a change of a docstring or an option, run `python -m tests.support.reference_pages`."""
    assert (ROOT / page).read_text(encoding="utf-8") == pages()[page]


def test_each_error_is_listed_with_its_kind_and_fix() -> None:
    page = pages()[TROUBLESHOOT]
    for error in error_classes().values():
        linked = f"| [{error.error_id}](../reference/errors.md#{error.error_id.lower()}) |"
        is_loss = error.data_loss.startswith("Possibly.")
        assert f"{linked} `{error.kind}` | {'possibly' if is_loss else 'no'} | " in page
        assert (f"{linked} Possibly." in page) == is_loss


def test_each_public_name_is_described() -> None:
    page = python_page()
    modules = {"dataflow", "errors", "sinks", "testing", "types", "__version__"}
    for name in set(cleancut.__all__) - modules:
        assert f"### cleancut.{name}\n" in page
    for module in modules - {"__version__"}:
        assert f"## Module cleancut.{module}\n" in page
    assert "    state(\n        operator: int," in page
    assert "- `operator`: Spark's operator id." in page


def test_each_option_of_each_command_is_described() -> None:
    page = command_page(_cli._parser())

    def check(name: str, described: dict[str, object]) -> None:
        for option, value in described.items():
            if isinstance(value, dict):
                check(f"{name} {option}", value)
            elif option.startswith("--") and option != "--version":
                assert f"| `{option}" in page or "--target-" in option, f"{name} {option}"

    check("cleancut", _commands(_cli._parser()))
    assert "    cleancut dataflow LOCATION add NAME CHECKPOINT [options]\n" in page


def test_pipes_and_html_of_texts_do_not_break_a_table() -> None:
    parser = argparse.ArgumentParser("tool")
    one = parser.add_subparsers().add_parser("one", help="a `x|y` of <key> | more")
    one.add_argument("--kind", choices=("a", "b"), help="kms:<key>")
    page = command_page(parser)
    assert "| [`tool one`](#tool-one) | a `x\\|y` of &lt;key> \\| more |" in page
    assert "| `--kind a\\|b` | kms:&lt;key> |" in page
