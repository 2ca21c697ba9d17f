"""The parameters that messages of sinks name exist, such as `(keep_undo)` and `(order_by)`."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import cleancut.sinks as sinks

PACKAGE = Path(sinks.__file__).parent
NAMED = re.compile(r"\(([a-z]+(?:_[a-z]+)*)\)|\b([a-z]+(?:_[a-z]+)+)=")
LUA = PACKAGE / "_redis" / "scripts.py"
WORDS = re.compile("[a-z]{2,} [a-z]{2,}")


def parameters() -> set[str]:
    """Returns the parameters of all public sinks and ledgers, and of their public methods."""
    names: set[str] = set()
    for public in (getattr(sinks, name) for name in sinks.__all__):
        made = [public] if callable(public) else []
        methods = [
            method for name, method in vars(public).items() if name[0] != "_" and callable(method)
        ]
        for function in made + (methods if inspect.isclass(public) else []):
            names |= set(inspect.signature(function).parameters)
    return names


def messages() -> Iterator[tuple[str, str]]:
    """Returns texts of more than one word in the code of sinks, without docstrings."""
    for path in sorted(set(PACKAGE.rglob("*.py")) - {LUA}):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        texts = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and id(node) not in docs
        ]
        for text in texts:
            if isinstance(text.value, str) and WORDS.search(text.value):
                yield path.name, text.value


def test_parameters_that_messages_name_exist() -> None:
    known = parameters()
    assert {"keep_undo", "order_by", "retry_for_s"} <= known
    named = [
        (place, one or other) for place, text in messages() for one, other in NAMED.findall(text)
    ]
    assert len(named) > 5, "no message names a parameter any more"
    assert [(place, name) for place, name in named if name not in known] == []


@pytest.mark.parametrize("text", ["give it a name (mode)", "set fan_in=True"])
def test_a_parameter_is_found_in_a_text(text: str) -> None:
    [(one, other)] = NAMED.findall(text)
    assert (one or other) not in parameters()
