"""The promises of a release, in a form that can be compared with the current code.

`python -m tests.support.promise` writes that of the next release; after the release, its file in
`tests/promises` is never written again. docs/project/compatibility.md describes the promise.
"""

import argparse
import inspect
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
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
from cleancut._error_catalog import error_classes
from cleancut._metrics.catalog import Metric, metrics
from cleancut._session.options import PREFIX
from tests.support.classfiles import read_class

ROOT = Path(__file__).parents[2]
PROMISES = ROOT / "tests" / "promises"
DEFAULTS = ROOT / "conf" / "cleancut-defaults.conf"
REFERENCE = ROOT / "docs" / "reference" / "configuration.md"
Snapshot = dict[str, dict[str, Any]]
_OF_PYTHON = r"(?:Coordinator|Offline|Sequence|Sinks)\b"
_MODULES = (
    cleancut,
    cleancut.dataflow,
    cleancut.errors,
    cleancut.sinks,
    cleancut.testing,
    cleancut.types,
)
# Types that functions return; users do not construct them.
_RETURNED = {
    *(getattr(cleancut.types, name) for name in cleancut.types.__all__),
    *(getattr(cleancut.dataflow, name) for name in cleancut.dataflow.__all__),
    cleancut.sinks.LedgerEpoch,
    cleancut.sinks.PublishedEpoch,
} - {cleancut.dataflow.Channel, cleancut.dataflow.Dataflow}
# Methods that the package calls on a sink; users implement them in their own sinks.
_SINK_CALLS = {
    *("begin", "can_publish", "clean_up", "leaves_record", "publish", "published", "stage"),
    "reads_rows_once",
}


def releases() -> list[str]:
    """Returns the releases with stored promises."""
    return sorted(path.stem for path in PROMISES.glob("*.json"))


def promised(release: str) -> Snapshot:
    """Returns the promise of a release."""
    snapshot: Snapshot = json.loads((PROMISES / f"{release}.json").read_text(encoding="utf-8"))
    return snapshot


def today() -> Snapshot:
    """Returns the promise of the current code, without the classes of the jar."""
    return {
        "python": dict(sorted(_python())),
        "keys": _keys(),
        "errors": {one: error_classes()[one].kind for one in sorted(error_classes())},
        "metrics": {one.name: _metric(one) for one in metrics().values()},
        "commands": _commands(_cli._parser()),
        "statuses": {kind.__name__: status for kind, status in _cli._STATUSES.items()},
    }


def jvm(jars: tuple[str, ...]) -> dict[str, list[str]]:
    """Returns the classes that Spark, Scala and Java know by name, with their public methods.

    Those of `_OF_PYTHON` are for the Python package of their own release alone. A name with `$` is
    one that the compiler has made.
    """
    methods = {}
    with zipfile.ZipFile(jars[-1]) as archive:
        for name in archive.namelist():
            if re.fullmatch(rf"io/cleancut/Cleancut(?!{_OF_PYTHON})\w+\.class", name):
                one = read_class(archive.read(name))
                public = [member for (member, access) in one.members.items() if access & 1]
                methods[one.name] = sorted(
                    "".join(member) for member in public if "$" not in member[0]
                )
    return methods


def broken(before: Mapping[str, Any], now: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yields broken promises of a release; additions are none."""
    for name, value in before.items():
        at = f"{path}{name}"
        if name not in now:
            yield f"{at} is gone"
        elif isinstance(value, dict):
            yield from broken(value, now[name], f"{at} ")
        elif isinstance(value, list):
            yield from (f"{at} has no {one} any more" for one in value if one not in now[name])
        elif value != now[name]:
            yield f"{at} was {value!r} and is {now[name]!r}"
    for name, value in now.items():
        # Existing callers do not pass it.
        if name not in before and isinstance(value, str) and value.endswith(", required"):
            yield f"{path}{name} has come and must be given"


def _metric(metric: Metric) -> dict[str, Any]:
    return {"type": metric.type, "labels": list(metric.labels), "from": sorted(metric.sources)}


def is_announced(finding: str, release: str, page: str) -> bool:
    """Whether a finding is a removed key that is refused with its successor.

    Args:
        finding: a result of `broken`.
        release: the release of the promise; it holds until the next major one.
        page: the reference page of all keys, including the removed ones.
    """
    match = re.fullmatch(rf"keys {re.escape(PREFIX)}([\w.]+) is gone", finding)
    listed = page.partition("## Removed keys")[2]
    since = dict(
        re.findall(r"^\| `([\w.]+)` \| (\d+\.\d+\.\d+) \| (?:`|none)", listed, re.MULTILINE)
    )
    if match is None or match[1] not in since:
        return False
    before, after = (
        [int(number) for number in one.split(".")] for one in (release, since[match[1]])
    )
    # Before 1.0 a minor release may break promises, too.
    held = 1 if before[0] else 2
    return after[:held] > before[:held]


def _python() -> Iterator[tuple[str, dict[str, Any]]]:
    for module in _MODULES:
        for name in _public(module):
            value = getattr(module, name)
            yield f"{module.__name__}.{name}", _described(value)


def _public(module: ModuleType) -> list[str]:
    return list(getattr(module, "__all__", [])) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def _described(value: Any) -> dict[str, Any]:
    if not inspect.isclass(value):
        return _parameters(value)
    ours = [one for one in value.__mro__ if one.__module__.startswith("cleancut")]
    names = {name for one in ours for name in vars(one) if not name.startswith("_")}
    if issubclass(value, cleancut.sinks.EpochSink) and value is not cleancut.sinks.EpochSink:
        names -= _SINK_CALLS
    members = {name: getattr(value, name, None) for name in names}
    described: dict[str, Any] = {
        f".{name}": _parameters(member) if callable(member) else "attribute"
        for name, member in sorted(members.items())
    }
    fields = getattr(value, "__dataclass_fields__", {})
    described |= {f".{name}": "attribute" for name in sorted(fields) if not name.startswith("_")}
    return described if value in _RETURNED else described | {"()": _parameters(value)}


def _parameters(value: Any) -> dict[str, str]:
    """Returns how each parameter is passed: its position, its keyword, and if it is required."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return {}
    kinds: dict[str, str] = {}
    for place, (name, one) in enumerate(signature.parameters.items()):
        if one.kind is one.VAR_KEYWORD and get_origin(one.annotation) is Unpack:
            kinds |= dict.fromkeys(get_args(one.annotation)[0].__annotations__, "by name")
            continue
        by = "by name" if one.kind is one.KEYWORD_ONLY else f"{place}"
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            by = "any"
        is_required = one.default is one.empty and by != "any"
        kinds[name] = f"{by}, required" if is_required else by
    return kinds


def _keys() -> dict[str, str]:
    text = DEFAULTS.read_text(encoding="utf-8")
    return dict(re.findall(r"^# (spark\.\S+\.cleancut\.\S+) (.*)$", text, flags=re.MULTILINE))


def _commands(parser: argparse.ArgumentParser) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            options |= {name: _commands(subparser) for name, subparser in action.choices.items()}
        elif not action.option_strings:
            is_needed = action.nargs not in ("?", "*")
            options[action.dest] = f"argument{', required' if is_needed else ''}"
        elif "--help" not in action.option_strings:
            options[action.option_strings[-1]] = f"option{', required' if action.required else ''}"
    return options


def write(file: Path, of_jvm: dict[str, list[str]]) -> None:
    """Writes the promise of the current code, with these classes of the jar."""
    text = json.dumps(today() | {"jvm": of_jvm}, indent=1, sort_keys=True) + "\n"
    file.write_text(text, encoding="utf-8")


def main() -> None:
    """Writes the promise of this release."""
    PROMISES.mkdir(exist_ok=True)
    write(PROMISES / f"{cleancut.__version__}.json", jvm(cleancut.jar_paths()))


if __name__ == "__main__":
    main()
