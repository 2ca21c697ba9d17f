"""The reference pages of the Python API and of the command, and the tables of errors by kind.

`python -m tests.support.reference_pages` writes them; a test compares them with the code.
"""

import argparse
import dataclasses
import inspect
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Unpack, get_args, get_origin

import cleancut
import cleancut.dataflow
import cleancut.errors
import cleancut.sinks
import cleancut.testing
import cleancut.types
from cleancut._cli import main as _cli
from cleancut._error_catalog import ErrorClass, error_classes
from cleancut._storage.access import S3_OPTIONS
from tests.support.promise import _SINK_CALLS, _public

ROOT = Path(__file__).parents[2]
PYTHON = "docs/reference/python-api.md"
COMMAND = "docs/reference/cli.md"
ERRORS = "docs/reference/errors.md"
TROUBLESHOOT = "docs/operate/troubleshoot.md"
_MODULES = (
    cleancut,
    cleancut.sinks,
    cleancut.dataflow,
    cleancut.testing,
    cleancut.errors,
    cleancut.types,
)
_WIDTH = 96
_SECTIONS = ("Args", "Returns", "Yields", "Raises", "Attributes")
_TITLES = {"Args": "Arguments"}
_PYTHON_INTRO = """# Python API

Generated from the docstrings by `make docs`. The package exports the functions and classes below.
Names that begin with `_` are private. An argument after `*` is passed by name. `**access` stands
for the [options of buckets](#options-of-buckets).

| module | content |
|---|---|
"""
_COMMAND_INTRO = """# Command line

Generated from the parsers of `cleancut` by `make docs`. The option `--help` of a command prints
the same texts. `python -m cleancut` is the same command.

| exit status | meaning |
|---|---|
| 0 | Success. |
| 1 | The checkpoint is corrupted. |
| 2 | The request is refused, or an argument is invalid. |
| 3 | The query that the command runs has failed. |
| 70 | The command has a bug. |
| 75 | The object store is unavailable: repeat the command. |
| 130 | The command was interrupted. |

"""
_BUCKET = "on s3://"
_LINKED = "See [options of buckets](#options-of-buckets) for a {} on `s3://`."


def pages() -> dict[str, str]:
    """Returns the generated pages by path from the root of the project."""
    page = (ROOT / TROUBLESHOOT).read_text(encoding="utf-8")
    return {
        PYTHON: python_page(),
        COMMAND: command_page(_cli._parser()),
        TROUBLESHOOT: with_errors(page),
    }


def with_errors(page: str) -> str:
    """Returns a page with the current tables of errors between their markers."""
    losing = [one for one in error_classes().values() if not one.data_loss.startswith("No")]
    tables = {
        "errors with data loss": [
            "| error | is data lost? |",
            "|---|---|",
            *(f"| {_linked(one)} | {_template(one.data_loss)} |" for one in losing),
        ],
        "kinds": ["| kind | next step |", "|---|---|", *_kinds()],
        "all errors": [
            "| error | kind | data lost | fix |",
            "|---|---|---|---|",
            *map(_row, error_classes().values()),
        ],
    }
    for name, lines in tables.items():
        marked = rf"(<!-- {name}: [^\n]*-->\n).*?(?=<!-- until here -->)"
        head = re.search(marked, page, flags=re.DOTALL)
        assert head is not None, name
        page = page.replace(head[0], "\n".join([head[1].rstrip(), *lines, ""]))
    return page


def _kinds() -> Iterator[str]:
    page = (ROOT / ERRORS).read_text(encoding="utf-8")
    steps = re.findall(r"^\| `(\w+)` \| `\w+` \| (.*) \|$", page, flags=re.MULTILINE)
    yield from (f"| `{kind}` | {step} |" for kind, step in steps)


def _row(one: ErrorClass) -> str:
    loss = re.split(r"[.;]", one.data_loss)[0].lower()
    return f"| {_linked(one)} | `{one.kind}` | {loss} | {_template(one.fix)} |"


def _linked(one: ErrorClass) -> str:
    return f"[{one.error_id}](../reference/errors.md#{one.error_id.lower()})"


def _template(text: str) -> str:
    """Returns a text with its parameters as code, as the page of errors has them."""
    parts = re.split(r"(`[^`]*`)", _joined(text))
    shown = (re.sub(r"<\w+>", r"`\g<0>`", part) if part[:1] != "`" else part for part in parts)
    return _escaped("".join(shown))


@cache
def python_page() -> str:
    """Returns the page of the Python API."""
    parts = [_PYTHON_INTRO.rstrip("\n")]
    for module in _MODULES:
        parts[0] += f"\n| [`{module.__name__}`](#{_anchor(module)}) | {_summary(module)} |"
    parts += ["## Options of buckets", "Type `S3Options`: arguments for a location on `s3://`."]
    parts.append("\n".join(f"- `{name}`: {_prose(text)}" for name, text in S3_OPTIONS.items()))
    seen: dict[int, str] = {}
    for module in _MODULES:
        parts.append(f"## Module {module.__name__}")
        parts.append(_text(module))
        names = sorted(_public(module), key=str.lower)
        elsewhere = [name for name in names if id(getattr(module, name)) in seen]
        if elsewhere:
            parts.append(
                "Described above: "
                + ", ".join(f"`{seen[id(getattr(module, n))]}`" for n in elsewhere)
                + "."
            )
        for name in names:
            value = getattr(module, name)
            if name in elsewhere or isinstance(value, ModuleType | str):
                continue
            # A function of the top level is described there, and its class in its own module.
            seen[id(value)] = f"{module.__name__}.{name}"
            parts += _described(f"{module.__name__}.{name}", value)
    return "\n\n".join(parts) + "\n"


def command_page(parser: argparse.ArgumentParser) -> str:
    """Returns the page of a command with subcommands.

    Args:
        parser: the parser of the command.
    """
    commands = list(_commands(parser, parser.prog, parser.prog))
    rows = [f"| [`{name}`](#{_slug(name)}) | {_cell(text)} |" for name, text, *_ in commands]
    table = ["| command | purpose |", "|---|---|", *rows]
    parts = [_COMMAND_INTRO + "\n".join(table)]
    bucket: dict[str, argparse.Action] = {}
    for name, text, synopsis, subparser in commands:
        parts.append(f"## {name}")
        parts.append(_sentence(_prose(inspect.cleandoc(subparser.description or text))))
        parts.append("    " + synopsis)
        parts += _arguments(subparser, bucket)
        if subparser.epilog:
            label, _, example = subparser.epilog.partition("\n")
            parts += [label.capitalize(), "\n".join(_indented(example.strip()))]
    parts.append("## Options of buckets")
    parts.append(
        "The options apply to LOCATION. With the prefix `--target-` they apply to TARGET, for"
        " commands that write to one."
    )
    parts.append(_table(list(bucket.values())))
    return "\n\n".join(parts) + "\n"


def _commands(
    parser: argparse.ArgumentParser, name: str, typed: str
) -> Iterator[tuple[str, str, str, argparse.ArgumentParser]]:
    """Yields name, purpose, synopsis and parser of each command."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            texts = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for choice, subparser in sorted(action.choices.items()):
                full = f"{name} {choice}"
                # The location of a dataflow precedes its subcommand.
                line = " ".join([typed, choice, *_positional(subparser)])
                if any(isinstance(a, argparse._SubParsersAction) for a in subparser._actions):
                    yield from _commands(subparser, full, line)
                else:
                    yield full, texts.get(choice, ""), _synopsis(line, subparser), subparser


def _positional(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if action.option_strings or isinstance(action, argparse._SubParsersAction):
            continue
        shown = _metavar(action)
        if action.nargs == "?":
            shown = f"[{shown}]"
        elif action.nargs in ("+", "*"):
            shown = f"{shown}…" if action.nargs == "+" else f"[{shown}…]"
        yield shown


def _synopsis(typed: str, parser: argparse.ArgumentParser) -> str:
    options = [a for a in parser._actions if a.option_strings and "--help" not in a.option_strings]
    required = [_flag(option) for option in options if option.required]
    rest = ["[options]"] if len(options) > len(required) else []
    return " ".join([typed, *required, *rest])


def _metavar(action: argparse.Action) -> str:
    if action.choices is not None and action.metavar is None:
        return "|".join(str(choice) for choice in action.choices)
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    return action.metavar or action.dest.upper()


def _flag(action: argparse.Action) -> str:
    flag = action.option_strings[-1]
    return flag if action.nargs == 0 else f"{flag} {_metavar(action)}"


def _arguments(
    parser: argparse.ArgumentParser, bucket: dict[str, argparse.Action]
) -> Iterator[str]:
    plain, linked = [], []
    for group in parser._action_groups:
        actions = [a for a in group._group_actions if "--help" not in a.option_strings]
        if group.title and group.title.endswith(_BUCKET):
            target = "TARGET" in group.title
            linked.append(_LINKED.format("TARGET" if target else "LOCATION"))
            for action in actions:
                if not target:
                    bucket.setdefault(action.option_strings[-1], action)
        else:
            plain += actions
    if plain:
        yield _table(plain)
    yield from linked


def _table(actions: Sequence[argparse.Action]) -> str:
    rows = []
    for action in actions:
        shown = _flag(action) if action.option_strings else _metavar(action)
        text = _cell((action.help or "").replace("%(default)s", str(action.default)))
        rows.append(f"| {_escaped(f'`{shown}`')} | {text} |")
    return "\n".join(["| argument | meaning |", "|---|---|", *rows])


def _escaped(text: str) -> str:
    """Escapes the pipes of a table cell."""
    return text.replace("|", "\\|")


def _described(name: str, value: Any) -> Iterator[str]:
    yield f"### {name}"
    if not inspect.isclass(value):
        yield _signature(name.rpartition(".")[2], value)
        yield _text(value)
        return
    if _is_constructed(value):
        yield _signature(value.__name__, value)
    yield _text(value)
    if issubclass(value, Enum):
        yield "Values: " + ", ".join(f"`{member.name}`" for member in value) + "."
    if bases := _bases(value):
        yield "Inherits from " + " and ".join(f"`{base.__name__}`" for base in bases) + "."
    members = dict(_members(value))
    rows = [
        f"| `{member}` | {_cell(_first(inspect.getdoc(described) or ''))} |"
        for member, described in members.items()
        if not callable(described)
    ]
    if rows:
        yield "\n".join(["| property | meaning |", "|---|---|", *rows])
    for member, described in members.items():
        if callable(described):
            yield f"#### {value.__name__}.{member}"
            yield _signature(member, described)
            yield _text(described)


def _bases(value: type) -> list[type]:
    """Returns the public classes from which a class inherits."""
    public = [getattr(module, name) for module in _MODULES for name in _public(module)]
    return [base for base in value.__mro__[1:] if base in public]


def _constructor(value: type) -> Any:
    return inspect.getattr_static(value, "__init__")


def _is_constructed(value: type) -> bool:
    """Whether users construct it: a class whose constructor has documented arguments."""
    documented = "Args:" in (_constructor(value).__doc__ or "") + (inspect.getdoc(value) or "")
    return documented and not issubclass(value, BaseException)


def _members(value: type) -> Iterator[tuple[str, Any]]:
    fields = (
        {field.name for field in dataclasses.fields(value)}
        if (dataclasses.is_dataclass(value))
        else set()
    )
    names: set[str] = set()
    for base in value.__mro__:
        if base.__module__.startswith("cleancut") and base not in _bases(value):
            names |= set(vars(base))
    if cleancut.sinks.EpochSink in _bases(value):
        # The package calls these methods; the base class describes them.
        names -= _SINK_CALLS
    for name in sorted(names):
        if name.startswith(("_", "test_")) or name in fields:
            continue
        member = inspect.getattr_static(value, name)
        if isinstance(member, classmethod | staticmethod):
            member = getattr(value, name)
        if isinstance(member, property) or inspect.isroutine(member):
            yield name, member
        elif hasattr(member, "func") and getattr(member, "__doc__", None):
            yield name, member.func if callable(member) else property(member.func)


def _signature(name: str, value: Any) -> str:
    signature = inspect.signature(value)
    shown: list[str] = []
    is_named = False
    for one in signature.parameters.values():
        if one.name in ("self", "cls"):
            continue
        if one.kind is one.KEYWORD_ONLY and not is_named:
            is_named = True
            shown.append("*")
        is_named = is_named or one.kind is one.VAR_POSITIONAL
        shown.append(_parameter(one))
    returned = "" if inspect.isclass(value) else _type(signature.return_annotation)
    tail = f") -> {returned}" if returned else ")"
    line = f"{name}({', '.join(shown)}{tail}"
    if len(line) > _WIDTH:
        line = f"{name}(\n" + "".join(f"    {one},\n" for one in shown) + tail
    return "\n".join(_indented(line.replace("*,\n", "*,\n")))


def _parameter(one: inspect.Parameter) -> str:
    star = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
    annotation = _type(one.annotation)
    shown = f"{star}{one.name}" + (f": {annotation}" if annotation else "")
    if one.default is one.empty:
        return shown
    default = _value(one.default)
    return f"{shown} = {default}" if annotation else f"{shown}={default}"


def _value(default: Any) -> str:
    """Returns a default as it is written in code; one without such a form is an ellipsis."""
    if isinstance(default, tuple):
        return repr(default) if all(_value(one) != "…" for one in default) else "…"
    plain = default is None or isinstance(default, str | int | float | bool | bytes)
    return repr(default) if plain else "…"


def _type(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    if get_origin(annotation) is Unpack:
        annotation = get_args(annotation)[0].__name__
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"ForwardRef\('([^']*)'[^)]*\)", r"\1", text)
    # The last part of each qualified name.
    return re.sub(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])", "", text)


def _text(value: Any) -> str:
    """Returns a docstring as Markdown."""
    if inspect.isclass(value) and "Args:" in (_constructor(value).__doc__ or ""):
        doc = f"{inspect.getdoc(value)}\n\n{inspect.getdoc(_constructor(value))}"
    else:
        doc = inspect.getdoc(value) or ""
    blocks: list[str] = []
    for block in re.split(r"\n\s*\n", doc):
        head, _, rest = block.partition("\n")
        title = head.strip().rstrip(":")
        if head.endswith(":") and title in _SECTIONS:
            blocks.append(_section(title, inspect.cleandoc(rest)))
        elif block.strip():
            blocks.append(block)
    return "\n\n".join(blocks)


def _section(title: str, body: str) -> str:
    heading = f"*{_TITLES.get(title, title)}*"
    items = re.split(r"\n(?=\S)", body)
    if title in ("Returns", "Yields"):
        return f"{heading}: " + _joined(" ".join(items))
    lines = []
    for item in items:
        name, colon, text = _joined(item).partition(": ")
        lines.append(f"- `{name}`: {text}" if colon else f"- {name}")
    return f"{heading}:\n\n" + "\n".join(lines)


def _joined(text: str) -> str:
    return re.sub(r"\s*\n\s*", " ", text.strip())


def _first(doc: str) -> str:
    return _joined(doc.partition("\n\n")[0])


def _summary(module: ModuleType) -> str:
    return _cell(_first(inspect.getdoc(module) or ""))


def _cell(text: str) -> str:
    return _escaped(_prose(text))


def _prose(text: str) -> str:
    """Returns a text in one line, without HTML outside its code."""
    parts = re.split(r"(`[^`]*`)", _joined(text))
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)


def _sentence(text: str) -> str:
    """Returns a help text as sentences."""
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", ":")) else f"{text}."


def _indented(text: str) -> list[str]:
    return [f"    {line}" if line else "" for line in text.splitlines()]


def _anchor(module: ModuleType) -> str:
    return _slug(f"Module {module.__name__}")


def _slug(heading: str) -> str:
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def main() -> None:
    """Writes the pages."""
    for name, content in pages().items():
        (ROOT / name).write_text(content, encoding="utf-8")
        print(f"wrote {name}")


if __name__ == "__main__":
    main()
