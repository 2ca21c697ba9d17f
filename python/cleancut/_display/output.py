"""Output of commands: text for users, or JSON for programs."""

import argparse
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Protocol

from cleancut._display import tables
from cleancut._display.info_list import InfoList

if TYPE_CHECKING:
    import pyarrow as pa


class Printable(Protocol):
    """A result of a command, which has a text form for users."""

    def to_dict(self) -> Mapping[str, Any]:
        """The result as plain values, for programs."""


def print_list(infos: InfoList[Any], parsed: argparse.Namespace) -> None:
    """Prints a table, or its rows as JSON."""
    if parsed.json:
        print_json(infos.to_dicts())
    else:
        print(infos)


def print_result(result: Printable, parsed: argparse.Namespace) -> None:
    """Prints one result."""
    if parsed.json:
        print_json(result.to_dict())
    else:
        print(result)


def print_plan(plan: Printable, parsed: argparse.Namespace) -> None:
    """Prints the plan of an operation, or its result."""
    print_result(plan, parsed)
    if not parsed.json and not parsed.apply:
        print("Run the command again with --apply to execute it.")


def print_rows(
    table: "pa.Table", parsed: argparse.Namespace, what: str, suffix: str, **extra: object
) -> None:
    """Prints rows up to the limit, and whether there are more."""
    rows = table.slice(0, parsed.limit).to_pylist()
    has_more = table.num_rows > parsed.limit
    if parsed.json:
        print_json({**extra, "has_more": has_more, "rows": rows})
        return
    print(tables.fitted(table.column_names, [[*map(_plain, row.values())] for row in rows]))
    print(f"{'the first ' if has_more else ''}{len(rows)} {what}{suffix}")


def print_json(value: object) -> None:
    """Prints JSON; values without a JSON form are printed as text."""
    print(json.dumps(value, default=_text, indent=2, ensure_ascii=False))


def _plain(value: object) -> object:
    """A cell of a row: structs as JSON objects, numbers unchanged."""
    return value if isinstance(value, int) else json.dumps(value, default=_text, ensure_ascii=False)


def _text(value: object) -> str:
    """The text of a value without a JSON form: times in ISO 8601, bytes in hexadecimal."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        in_utc = value if value.tzinfo is None else value.astimezone(UTC)
        return in_utc.isoformat().replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else str(value)
