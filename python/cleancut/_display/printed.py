"""What commands print: for people, or as JSON for programs."""

import argparse
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from cleancut._display import tables
from cleancut._display.info_list import InfoList

if TYPE_CHECKING:
    import pyarrow as pa


class Printed(Protocol):
    """A result of a command; its text is for people."""

    def to_dict(self) -> Mapping[str, Any]:
        """The same as plain values, for programs."""


def print_list(found: InfoList[Any], parsed: argparse.Namespace) -> None:
    """Prints a table, or its rows."""
    if parsed.json:
        print_json(found.to_dicts())
    else:
        print(found)


def print_result(result: Printed, parsed: argparse.Namespace) -> None:
    """Prints one result."""
    if parsed.json:
        print_json(result.to_dict())
    else:
        print(result)


def print_plan(plan: Printed, parsed: argparse.Namespace) -> None:
    """Prints what an operation does, or has done."""
    print_result(plan, parsed)
    if not parsed.json and not parsed.apply:
        print("Run the command again with --apply to do it.")


def print_rows(
    table: "pa.Table", parsed: argparse.Namespace, what: str, of: str, **told: object
) -> None:
    """Prints as many as are asked for, and whether there are more."""
    rows = table.slice(0, parsed.limit).to_pylist()
    has_more = table.num_rows > parsed.limit
    if parsed.json:
        print_json({**told, "has_more": has_more, "rows": rows})
        return
    print(tables.text_table(table.column_names, [[*map(_plain, row.values())] for row in rows]))
    print(f"{'the first ' if has_more else ''}{len(rows)} {what}{of}")


def print_json(value: object) -> None:
    """Prints what JSON has no form for as text."""
    print(json.dumps(value, default=_text, indent=2, ensure_ascii=False))


def _plain(value: object) -> object:
    """A cell of a row: structs as JSON, numbers as they are."""
    return value if isinstance(value, int) else json.dumps(value, default=_text, ensure_ascii=False)


def _text(value: object) -> str:
    """What JSON has no form for: bytes in hexadecimal, all else as Python writes it."""
    return value.hex() if isinstance(value, bytes) else str(value)
